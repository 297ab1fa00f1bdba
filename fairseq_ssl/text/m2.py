"""M2 files: sentences with the edits of annotators.

A block is a line ``S`` with the words, lines ``A`` with the edits, and a blank line::

    S This are a sentence .
    A 1 2|||R:VERB:SVA|||is|||REQUIRED|||-NONE-|||0
    A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||1
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from fairseq_ssl.errors import DataError
from fairseq_ssl.io.text_files import read_lines

NO_CORRECTION = "-NONE-"
NOOP = "noop"
NOT_CORRECTED = ("UNK", "Um")
"""Types of errors that annotators marked but did not correct."""
FIELDS = 6


@dataclass(frozen=True)
class M2Edit:
    """An edit of the words from `start` to `end`, exclusive."""

    start: int
    end: int
    type: str
    correction: str
    """The correction as in the file, with ``||`` between alternatives."""

    @property
    def alternatives(self) -> tuple[str, ...]:
        """Alternative corrections. An empty string deletes the words."""
        return tuple(_plain(text.strip()) for text in self.correction.split("||"))


@dataclass(frozen=True)
class M2Sentence:
    """A block of an M2 file: the words of a sentence and the edits of each annotator."""

    words: tuple[str, ...]
    annotators: dict[int, list[M2Edit]] = field(default_factory=dict)
    """Edits by annotator, at least one annotator. Noop edits are omitted."""
    line: int = 0
    """Number of the first line of the block in the file."""


def read_m2(path: Path) -> Iterator[M2Sentence]:
    """Yield the sentences of a file, which is read as gzip if it ends with ``.gz``."""
    yield from parse_m2(read_lines(path), str(path))


def parse_m2(lines: Iterable[str], name: str) -> Iterator[M2Sentence]:
    """Yield the sentences of the lines of an M2 file. `name` is the file in error messages."""
    sentence: M2Sentence | None = None
    for number, raw in enumerate(lines, 1):
        line = raw.removesuffix("\r")
        place = f"{name}:{number}"
        if not line.strip():
            if sentence:
                yield _complete(sentence)
            sentence = None
        elif line == "S" or line.startswith("S "):
            if sentence:
                raise DataError(
                    f"{place} begins a second sentence in its block. Insert a blank line before it."
                )
            sentence = M2Sentence(tuple(line[2:].split()), {}, number)
        elif line.startswith("A "):
            if not sentence:
                raise DataError(f"{place} is an edit, but there is no line 'S ...' before it.")
            _add_edit(sentence, line[2:], place)
        else:
            raise DataError(
                f"{place} begins with {line[:10]!r}. Expected 'S ', 'A ' or a blank line. Is this "
                "an M2 file?"
            )
    if sentence:
        yield _complete(sentence)


def format_m2(sentence: M2Sentence) -> Iterator[str]:
    """Yield the lines of a block, including the blank line at the end."""
    yield " ".join(("S", *sentence.words))
    for annotator, edits in sorted(sentence.annotators.items()):
        for edit in edits or [M2Edit(-1, -1, NOOP, NO_CORRECTION)]:
            yield (
                f"A {edit.start} {edit.end}|||{edit.type}|||{edit.correction}|||REQUIRED|||"
                f"{NO_CORRECTION}|||{annotator}"
            )
    yield ""


def apply_m2_edits(sentence: M2Sentence, annotator: int, name: str) -> str:
    """Apply the edits of an annotator to a sentence.

    The first alternative of each edit is used. Words that were only marked are unchanged. If the
    annotator has not seen the sentence, it is unchanged. `name` is the file in error messages.
    """
    edits = [
        edit for edit in sentence.annotators.get(annotator, []) if edit.type not in NOT_CORRECTED
    ]
    words: list[str] = []
    done = 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        if edit.start < done:
            raise DataError(
                f"{name}:{sentence.line} has two edits of annotator {annotator} at word "
                f"{edit.start}. Expected edits that do not overlap."
            )
        words += [*sentence.words[done : edit.start], *edit.alternatives[0].split()]
        done = edit.end
    return " ".join([*words, *sentence.words[done:]])


def _complete(sentence: M2Sentence) -> M2Sentence:
    """Add annotator 0 without edits if the block has no line 'A'."""
    if not sentence.annotators:
        sentence.annotators[0] = []
    return sentence


def _add_edit(sentence: M2Sentence, line: str, place: str) -> None:
    fields = line.split("|||")
    try:
        start, end = map(int, fields[0].split())
        annotator = int(fields[FIELDS - 1])
    except (ValueError, IndexError):
        raise DataError(
            f"{place} is not 'A START END|||TYPE|||CORRECTION|||REQUIRED|||COMMENT|||ANNOTATOR', "
            "with numbers for START, END and ANNOTATOR."
        ) from None
    edits = sentence.annotators.setdefault(annotator, [])
    if fields[1] == NOOP or start == end == -1:
        return
    if not 0 <= start <= end <= len(sentence.words):
        raise DataError(
            f"{place} has the span {start} {end}, but its sentence has {len(sentence.words)} "
            f"words. Expected 0 <= START <= END <= {len(sentence.words)}, or -1 -1 for noop."
        )
    edits.append(M2Edit(start, end, fields[1], fields[2]))


def _plain(text: str) -> str:
    return "" if text == NO_CORRECTION else text
