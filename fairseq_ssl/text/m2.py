"""M2 files: sentences with the edits that annotators made in them.

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
"""Types of what annotators only marked."""
FIELDS = 6


@dataclass(frozen=True)
class M2Edit:
    """Words from `start` on and before `end` that became others."""

    start: int
    end: int
    type: str
    correction: str
    """As the file has it; alternatives have ``||`` between them."""

    @property
    def alternatives(self) -> tuple[str, ...]:
        """Return what the words may become; an empty text takes them out."""
        return tuple(_plain(text.strip()) for text in self.correction.split("||"))


@dataclass(frozen=True)
class M2Sentence:
    """A block: the words, and by annotator the edits in their order, noop edits left out."""

    words: tuple[str, ...]
    annotators: dict[int, list[M2Edit]] = field(default_factory=dict)
    """One at least; who changed nothing has no edits."""
    line: int = 0
    """Of the file, where the block begins."""


def read_m2(path: Path) -> Iterator[M2Sentence]:
    """Yield the sentences of a file, which may be a ``.gz``."""
    yield from parse_m2(read_lines(path), str(path))


def parse_m2(lines: Iterable[str], name: str) -> Iterator[M2Sentence]:
    """Yield the sentences of lines, which messages call `name`."""
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
                    f"{place} begins a second sentence in its block. Put a blank line before it."
                )
            sentence = M2Sentence(tuple(line[2:].split()), {}, number)
        elif line.startswith("A "):
            if not sentence:
                raise DataError(f"{place} is an edit, but no line 'S ...' stands before it.")
            _add(sentence, line[2:], place)
        else:
            raise DataError(
                f"{place} begins with {line[:10]!r}. Expected 'S ', 'A ' or a blank line, as in "
                "an m2 file."
            )
    if sentence:
        yield _complete(sentence)


def format_m2(sentence: M2Sentence) -> Iterator[str]:
    """Yield the lines of a block, the blank one too."""
    yield " ".join(("S", *sentence.words))
    for annotator, edits in sorted(sentence.annotators.items()):
        for edit in edits or [M2Edit(-1, -1, NOOP, NO_CORRECTION)]:
            yield (
                f"A {edit.start} {edit.end}|||{edit.type}|||{edit.correction}|||REQUIRED|||"
                f"{NO_CORRECTION}|||{annotator}"
            )
    yield ""


def apply_m2_edits(sentence: M2Sentence, annotator: int, name: str) -> str:
    """Return the sentence as an annotator, who may not have seen it, wants it.

    What was marked and not corrected stays; of alternatives the first is taken.
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
                f"{edit.start}. Expected edits apart from each other."
            )
        words += [*sentence.words[done : edit.start], *edit.alternatives[0].split()]
        done = edit.end
    return " ".join([*words, *sentence.words[done:]])


def _complete(sentence: M2Sentence) -> M2Sentence:
    """Without a line 'A' nobody found anything to change."""
    if not sentence.annotators:
        sentence.annotators[0] = []
    return sentence


def _add(sentence: M2Sentence, line: str, place: str) -> None:
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
