"""M2 files: sentences with annotators' edits.

A block consists of a line ``S`` with the words, lines ``A`` with the edits, and a blank line::

    S This are a sentence .
    A 1 2|||R:VERB:SVA|||is|||REQUIRED|||-NONE-|||0
    A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||1

>>> block = ["S a cat sit .", "A 2 3|||R:VERB:SVA|||sits|||REQUIRED|||-NONE-|||0"]
>>> (sentence,) = parse_m2(block, "gold.m2")
>>> EditApplier("gold.m2")(sentence)
'a cat sits .'
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from fnmatch import translate
from itertools import zip_longest
from pathlib import Path

from fairseq_ssl.errors import DataError
from fairseq_ssl.io.jobs import check_distinct, check_read_twice
from fairseq_ssl.io.outputs import atomic_lines
from fairseq_ssl.io.remote import as_path
from fairseq_ssl.io.text_files import path_list, read_lines

__all__ = [
    "EditApplier",
    "EditFilter",
    "M2Edit",
    "M2Sentence",
    "format_m2",
    "m2_annotators",
    "m2_to_text",
    "merge_m2",
    "parse_m2",
    "read_m2",
]

SPACY_MODEL = "en_core_web_sm"
"""Default spaCy pipeline for extracting edits and their types."""
NO_CORRECTION = "-NONE-"
NOOP = "noop"
NOT_CORRECTED = ("UNK", "Um")
"""Edit types that mark an error without correcting it."""
FIELDS = 6
SEPARATOR = "|||"


@dataclass(frozen=True)
class M2Edit:
    """An edit that replaces the words from index `start` up to, but not including, `end`."""

    start: int
    end: int
    type: str
    correction: str
    """The correction as written in the file, with ``||`` between alternatives."""

    @property
    def alternatives(self) -> tuple[str, ...]:
        """Alternative corrections. An empty string deletes the words."""
        texts = map(str.strip, self.correction.split("||"))
        return tuple("" if text == NO_CORRECTION else text for text in texts)


@dataclass(frozen=True)
class M2Sentence:
    """A block in an M2 file: the words of a sentence and the edits of each annotator."""

    words: tuple[str, ...]
    annotators: dict[int, list[M2Edit]] = field(default_factory=dict)
    """Edits by annotator id. There is at least one annotator. Noop edits are omitted."""
    line: int = 0
    """Number of the ``S`` line in the file, starting at 1, or 0 if there is no file."""


def read_m2(path: str | Path) -> Iterator[M2Sentence]:
    """Yield the sentences of an M2 file, which can be compressed (``.gz`` or ``.zst``)."""
    yield from parse_m2(read_lines(path), str(path))


def parse_m2(lines: Iterable[str], name: str) -> Iterator[M2Sentence]:
    """Parse the lines of an M2 file into sentences. Raise DataError for a malformed line.

    `name` is the file name in error messages.
    """
    sentence: M2Sentence | None = None
    known: dict[str, str] = {}  # equal words share memory
    for number, raw in enumerate(lines, 1):
        line = raw.removesuffix("\r")
        if line.startswith("A "):
            if not sentence:
                raise DataError(
                    f"{name}:{number} is an edit without a sentence. Expected a line that begins "
                    "with 'S ' before it in the same block."
                )
            _add_edit(sentence, line[2:], f"{name}:{number}")
        elif line == "S" or line.startswith("S "):
            if sentence:
                raise DataError(
                    f"{name}:{number} begins a second sentence in its block. Insert a blank "
                    "line before it."
                )
            words = tuple(known.setdefault(word, word) for word in line[2:].split())
            sentence = M2Sentence(words, {}, number)
        elif not line.strip():
            if sentence:
                yield _complete(sentence)
            sentence = None
        else:
            raise DataError(
                f"{name}:{number} begins with {line[:10]!r}. Expected a line of an M2 file, which "
                "begins with 'S ' or 'A ' or is blank."
            )
    if sentence:
        yield _complete(sentence)


def format_m2(sentence: M2Sentence) -> Iterator[str]:
    """Format a sentence as an M2 block. Yield the lines, including the blank line at the end."""
    yield " ".join(("S", *sentence.words))
    for annotator, edits in sorted(sentence.annotators.items()):
        for edit in edits or [M2Edit(-1, -1, NOOP, NO_CORRECTION)]:
            yield (
                f"A {edit.start} {edit.end}|||{edit.type}|||{edit.correction}|||REQUIRED|||"
                f"{NO_CORRECTION}|||{annotator}"
            )
    yield ""


def check_m2(sentence: M2Sentence, place: str) -> None:
    """Raise DataError for a correction that cannot be written to an M2 file.

    Readers split fields at ``|||`` and alternatives at ``||``, and ``-NONE-`` is the empty
    correction. `place` is the location of the sentence in the error message.
    """
    for edits in sentence.annotators.values():
        for edit in edits:
            field = f"{edit.correction}{SEPARATOR}".partition(SEPARATOR)[0]
            if not edit.correction == field == edit.alternatives[0]:
                raise DataError(
                    f"{place} contains the correction {edit.correction!r}, which cannot be written "
                    f"to an M2 file: {SEPARATOR} separates fields, || separates alternatives, and "
                    f"{NO_CORRECTION} is the empty correction. Replace these strings in the text."
                )


def operation(kind: str) -> str:
    """Return the operation of an edit type, such as R for R:NOUN:NUM.

    A type without an operation is returned unchanged.
    """
    return kind[0] if kind[1:2] == ":" else kind


def main_type(kind: str) -> str:
    """Return an edit type without its operation, such as NOUN:NUM for R:NOUN:NUM."""
    return kind[2:] if kind[1:2] == ":" else kind


class EditFilter:
    """Function that returns True for the edit types to keep.

    A pattern is a full type (R:VERB:SVA), a type without its operation (VERB:SVA) or an operation
    (R, M, U). In a pattern, * matches any text: VERB* matches all verb types.

    Args:
        types: patterns of the types to keep (default: all types)

    Example:
        >>> chosen = EditFilter(["VERB*"])
        >>> [chosen(kind) for kind in ("R:PREP", "R:VERB:SVA", "M:VERB")]
        [False, True, True]
    """

    def __init__(self, types: Sequence[str] = ()) -> None:
        if isinstance(types, str):
            raise TypeError(f"`types` is the string {types!r}. Expected a list of patterns.")
        self._keep = re.compile("|".join(map(translate, types or ["*"]))).match
        self._known: dict[str, bool] = {}

    def __call__(self, kind: str) -> bool:
        """Return True if edits of the type `kind` are kept."""
        if kind not in self._known:
            names = kind, main_type(kind), operation(kind)
            self._known[kind] = any(map(self._keep, names))
        return self._known[kind]


@dataclass
class EditApplier:
    """Function that applies an annotator's edits to sentences, and counts sentences and edits.

    Edits without a correction (UNK, Um) are ignored. The first alternative of each edit is used.
    """

    name: str
    """Name of the M2 file in messages."""
    annotator: int = 0
    chosen: EditFilter = field(default_factory=EditFilter)
    drop_overlaps: bool = False
    """Drop an edit that overlaps an earlier edit, instead of raising a `DataError`."""
    sentences: int = 0
    annotated: int = 0
    """Number of sentences that the annotator annotated, with or without edits."""
    edits: int = 0
    """Number of the annotator's edits, whether applied or not."""
    applied: int = 0
    """Number of applied edits."""
    overlapping: int = 0
    """Number of edits dropped because they overlap an earlier edit."""

    def __call__(self, sentence: M2Sentence) -> str:
        """Return the corrected sentence. A sentence without the annotator's edits is unchanged."""
        edits = sentence.annotators.get(self.annotator)
        self.sentences += 1
        self.annotated += edits is not None
        if not edits:
            return " ".join(sentence.words)
        self.edits += len(edits)
        words: list[str] = []
        done = 0
        for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
            if edit.type in NOT_CORRECTED or not self.chosen(edit.type):
                continue
            if edit.start < done:
                self._overlap(sentence, edit)
                continue
            words += [*sentence.words[done : edit.start], *edit.alternatives[0].split()]
            done = edit.end
            self.applied += 1
        return " ".join([*words, *sentence.words[done:]])

    def _overlap(self, sentence: M2Sentence, edit: M2Edit) -> None:
        self.overlapping += 1
        if not self.drop_overlaps:
            raise DataError(
                f"{self.name}:{sentence.line}: edits of annotator {self.annotator} overlap at word "
                f"offset {edit.start}. Set `drop_overlaps` to apply only the first of them."
            )


def m2_annotators(path: str | Path) -> list[int]:
    """Return the annotator ids in a file, sorted. A block without ``A`` lines has annotator 0."""
    return sorted({number for sentence in read_m2(path) for number in sentence.annotators})


def m2_to_text(
    path: str | Path,
    source: str | Path,
    target: str | Path,
    annotator: int | None = 0,
    chosen: EditFilter | None = None,
    drop_overlaps: bool = False,
) -> dict[Path, EditApplier]:
    """Write the sentences in an M2 file and their corrections as parallel text.

    Args:
        path: M2 file
        source: output for the sentences
        target: output for the corrected sentences
        annotator: id of the annotator; if None, the corrections of each annotator are written to a
            separate file, named `target` with ``.ID`` appended
        chosen: filter that selects the edits to apply (default: all edits)
        drop_overlaps: drop an edit that overlaps an earlier one, instead of raising an error

    Returns:
        The `EditApplier` for each target file, with its counts.
    """
    path, source, target = as_path(path), as_path(source), as_path(target)
    targets = {target: annotator or 0}
    if annotator is None:
        check_read_twice(path)
        ids = m2_annotators(path)
        targets = {target.with_name(f"{target.name}.{number}"): number for number in ids}
    known: set[int] = set()
    check_distinct([path], [source, *targets])
    appliers = {
        output: EditApplier(str(path), number, chosen or EditFilter(), drop_overlaps)
        for output, number in targets.items()
    }
    with ExitStack() as stack:
        sources = stack.enter_context(atomic_lines(source))
        files = [(stack.enter_context(atomic_lines(out)), by) for out, by in appliers.items()]
        for sentence in read_m2(path):
            known.update(sentence.annotators)
            sources.write(" ".join(sentence.words) + "\n")
            for file, applier in files:
                file.write(applier(sentence) + "\n")
        if not known:
            raise DataError(f"{path} contains no line that begins with 'S '. Expected an M2 file.")
        if annotator is not None and annotator not in known:
            ids = sorted(known)
            raise DataError(
                f"{path} contains no annotator {annotator}. Choose one of its annotators: "
                f"{', '.join(map(str, ids))}."
            )
    return appliers


def merge_m2(paths: Sequence[str | Path]) -> Iterator[M2Sentence]:
    """Yield the sentences in several M2 files, with the annotators from all files.

    Annotators are renumbered from 0, starting with the annotators of the first file. Raise
    DataError if the files contain different sentences.
    """
    paths = path_list(paths)
    ids: list[dict[int, int]] = []
    for path in paths:
        check_read_twice(path)
        first = sum(map(len, ids))
        ids.append({annotator: first + at for at, annotator in enumerate(m2_annotators(path))})
    for row in zip_longest(*map(read_m2, paths)):
        merged = M2Sentence(row[0].words if row[0] else (), {}, row[0].line if row[0] else 0)
        for path, sentence, numbers in zip(paths, row, ids, strict=True):
            if sentence is None or row[0] is None:
                ended = paths[row.index(None)]
                raise DataError(
                    f"{ended} contains fewer sentences than another file. Merged files must "
                    "contain the same sentences."
                )
            if sentence.words != merged.words:
                raise DataError(
                    f"{path}:{sentence.line} and {paths[0]}:{merged.line} contain different words. "
                    "Merged files must contain the same sentences."
                )
            for annotator, edits in sentence.annotators.items():
                merged.annotators[numbers[annotator]] = edits
        yield merged


def _complete(sentence: M2Sentence) -> M2Sentence:
    """Add annotator 0 without edits if the block contains no ``A`` line. Return the sentence."""
    if not sentence.annotators:
        sentence.annotators[0] = []
    return sentence


def _add_edit(sentence: M2Sentence, line: str, place: str) -> None:
    fields = line.split(SEPARATOR)
    try:
        start, end = map(int, fields[0].split())
        annotator = int(fields[FIELDS - 1])
    except (ValueError, IndexError):
        raise DataError(
            f"{place} is malformed. Expected 'A START END|||TYPE|||CORRECTION|||REQUIRED|||COMMENT"
            "|||ANNOTATOR', with integers for START, END and ANNOTATOR."
        ) from None
    edits = sentence.annotators.setdefault(annotator, [])
    if fields[1] == NOOP or start == end == -1:
        return
    if not 0 <= start <= end <= len(sentence.words):
        count = len(sentence.words)
        raise DataError(
            f"{place} has the span {start} {end}, but the sentence has {count} words. Expected "
            f"0 <= START <= END <= {count}, or -1 -1 for noop."
        )
    edits.append(M2Edit(start, end, fields[1], fields[2]))
