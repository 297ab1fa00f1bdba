r"""BEA-2019 JSON (Bryant et al., 2019): essays with edits of characters, converted to M2.

The sentences and edits are those of the shared task's script ``json_to_m2.py``. A line of the file
is an essay::

    {"text": "I likes cats.\nThey sleep", "edits": [[0, [[2, 7, "like"], [24, 24, "."]]]]}
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, islice
from pathlib import Path
from string import punctuation
from typing import Any

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.io.executors import LocalExecutor
from fairseq_ssl.io.jobs import ProgressFactory, silent_progress
from fairseq_ssl.io.text_files import parse_json, read_lines
from fairseq_ssl.metrics.edit_extraction import (
    UNTYPED,
    Annotator,
    EditSpan,
    load_annotator,
)
from fairseq_ssl.metrics.errant import UNKNOWN_TYPE
from fairseq_ssl.text.m2 import SPACY_MODEL, M2Edit, M2Sentence, check_m2

PUNCTUATION = str.maketrans(
    {
        variant: usual
        for usual, variants in {
            "'": "\u2019\xb4\u2018\u2032`",
            '"': "\u201c\u201d\u02dd\xa8\u201e\u300e\u300f",
            "-": "\u2013\u2014\u2015\xac",
            ",": "\u3001\uff0c",
            ":": "\uff1a",
            ";": "\uff1b",
            "?": "\uff1f",
            "!": "\uff01",
            " ": "\u0650\u200b",
        }.items()
        for variant in variants
    }
)
"""Table that maps variants of punctuation to the usual character, for `str.translate`."""
BLOCK = 4
"""Number of essays per task of a worker process."""
MAX_CHARACTERS = 500_000
"""Max characters of a text or a correction. spaCy parses at most 1,000,000."""


@dataclass(frozen=True)
class TextEdit:
    """An edit of a span of characters or tokens."""

    start: int
    end: int
    correction: str | None
    """Text that replaces the span (None: the annotator marked an error without a correction)."""
    type: str = UNTYPED

    @property
    def is_marking(self) -> bool:
        """True if the annotator marked an error without a correction."""
        return self.correction is None


@dataclass(frozen=True)
class Essay:
    """Text of an essay, with character edits by annotator number."""

    text: str
    annotators: dict[int, list[TextEdit]]
    place: str = "essay"
    """File name and line number, for error messages."""


@dataclass(frozen=True)
class ConversionOptions:
    """Options for the conversion of essays to M2 sentences."""

    model: str | None = SPACY_MODEL
    """Name or folder of a spaCy pipeline with a parser. None: a blank pipeline, which splits
    sentences at punctuation and implies `keep_types`."""
    auto: bool = False
    """Extract the edits with ERRANT from the corrected sentences, like the script's ``-auto``."""
    keep_types: bool = False
    """Keep the edit types of the JSON, NA for an edit without a type, like ``-old_cats``."""
    presplit: bool = False
    """Treat each line of an essay as a sentence, like ``-sents``."""


def read_essays(path: str | Path) -> Iterator[Essay]:
    """Yield the essays of a BEA-2019 JSON file. Blank lines are skipped."""
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        place = f"{path}:{number}"
        try:
            content = parse_json(line)
        except ValueError as error:
            raise DataError(f"{place} is not JSON: {error}.") from None
        yield _parse_essay(content, place)


def convert_essays(
    essays: Iterable[Essay],
    options: ConversionOptions | None = None,
    jobs: int = 1,
    progress: ProgressFactory = silent_progress,
) -> Iterator[M2Sentence]:
    """Yield the M2 sentences of essays, with the edits of all annotators.

    Args:
        essays: essays, such as the result of `read_essays`
        options: conversion options (default: `ConversionOptions()`)
        jobs: number of processes, 1 or more; does not change the result
        progress: called with the number of essays done
    """
    options = options or ConversionOptions()
    load_annotator(options.model)  # a missing model is reported before the work
    convert, advance = _ConvertBlock(options), progress("m2 from-json", "essays")
    remaining = iter(essays)
    blocks = iter(lambda: list(islice(remaining, BLOCK)), [])
    for converted in LocalExecutor(jobs).imap(convert, blocks):
        for sentences in converted:
            yield from sentences
            advance(1)


@dataclass(frozen=True)
class _ConvertBlock:
    """Picklable function that converts essays. Each process loads the spaCy pipeline once."""

    options: ConversionOptions

    def __call__(self, block: list[Essay]) -> list[list[M2Sentence]]:
        annotator = load_annotator(self.options.model)
        return [convert_essay(essay, annotator, self.options) for essay in block]


def convert_essay(
    essay: Essay, annotator: Annotator, options: ConversionOptions
) -> list[M2Sentence]:
    """Return the M2 sentences of an essay, with the edits of all annotators.

    Edits that cross the end of a line are dropped.
    """
    text = essay.text.translate(PUNCTUATION)
    matches = list(re.finditer(r"[^\n]+", text))
    starts = [match.start() for match in matches]
    paragraphs = [_Paragraph(match[0]) for match in matches]
    of_annotators = essay.annotators or {0: []}
    for number, edits in of_annotators.items():
        for paragraph in paragraphs:
            paragraph.edits[number] = []
        for edit in sorted(edits, key=lambda edit: edit.start):
            at = bisect_right(starts, edit.start) - 1
            if at >= 0 and edit.end <= matches[at].end():
                paragraphs[at].edits[number].append(_moved(edit, -starts[at]))
    sentences: list[M2Sentence] = []
    for paragraph in paragraphs:
        if paragraph.clean():
            sentences += _convert_paragraph(paragraph, annotator, options, essay.place)
    return sentences


class _Paragraph:
    """A line of an essay, with character edits by annotator number."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.edits: dict[int, list[TextEdit]] = {}

    def clean(self) -> bool:
        """Normalize whitespace, and adjust the edits. Return False if the line is blank."""
        text = re.sub(r"\s", " ", self.text)
        kept = [char != " " or text[at + 1 : at + 2] != " " for at, char in enumerate(text)]
        places = list(accumulate(kept, initial=0))
        """New index of each character. Of consecutive spaces, the last is kept."""
        text = "".join(char for char, stays in zip(text, kept, strict=True) if stays)
        indent = text.startswith(" ")
        self.text = text[indent:]
        for number, edits in self.edits.items():
            moved = (
                replace(
                    edit,
                    start=max(places[edit.start] - indent, 0),
                    end=max(places[edit.end] - indent, 0),
                )
                for edit in _without_overlaps(edits)
            )
            self.edits[number] = [self._without_outer_spaces(edit) for edit in moved]
        return bool(self.text)

    def _without_outer_spaces(self, edit: TextEdit) -> TextEdit:
        if edit.start == edit.end:
            return edit
        text = self.text[edit.start : edit.end]
        start, end = edit.start + text.startswith(" "), edit.end - text.endswith(" ")
        return replace(edit, start=start, end=end)


def _without_overlaps(edits: list[TextEdit]) -> list[TextEdit]:
    """Return the edits, except marked errors whose span contains a correction."""
    spans = sorted((e.start, e.end) for e in edits if not e.is_marking and e.start < e.end)
    starts = [start for start, _ in spans]
    first_end = list(accumulate((end for _, end in reversed(spans)), min))[::-1]
    """Smallest end of the corrections from each index on."""
    insertions = sorted(e.start for e in edits if not e.is_marking and e.start == e.end)

    def has_correction(edit: TextEdit) -> bool:
        at = bisect_left(starts, edit.start)
        if at < len(starts) and first_end[at] <= edit.end:
            return True
        at = bisect_right(insertions, edit.start)
        return at < len(insertions) and insertions[at] < edit.end

    return [edit for edit in edits if not edit.is_marking or not has_correction(edit)]


def _convert_paragraph(
    paragraph: _Paragraph, annotator: Annotator, options: ConversionOptions, place: str
) -> Iterator[M2Sentence]:
    parsed = annotator.parse_text(paragraph.text)
    words = [token.text for token in parsed]
    bounds = [(0, len(words))] if options.presplit else list(_sentence_bounds(parsed))
    aligned = {
        number: list(
            _edits_by_sentence(_TokenSpans(parsed).align(edits, annotator.tokenize), bounds)
        )
        for number, edits in paragraph.edits.items()
    }
    for at, (start, end) in enumerate(bounds):
        sentence = M2Sentence(tuple(words[start:end]))
        for number, of_sentences in sorted(aligned.items()):
            edits = _m2_edits(sentence.words, of_sentences[at], annotator, options, place)
            sentence.annotators[number] = edits
        check_m2(sentence, place)
        yield sentence


def _sentence_bounds(parsed: Any) -> Iterator[tuple[int, int]]:
    """Yield the token span of each sentence.

    A sentence without final punctuation is joined with the next sentence.
    """
    start = 0
    try:
        for sentence in parsed.sents:
            if sentence[-1].text[-1] in punctuation or sentence.end == len(parsed):
                yield start, sentence.end
                start = sentence.end
    except ValueError:
        raise UsageError(
            "The spaCy pipeline does not split sentences. Set `model` to a pipeline with a parser, "
            "or set `presplit` if each line is a sentence."
        ) from None


class _TokenSpans:
    """Character positions of the tokens of a paragraph."""

    def __init__(self, parsed: Any) -> None:
        self._text: str = parsed.text
        self._starts: list[int] = [token.idx for token in parsed]
        self._ends: list[int] = [token.idx + len(token.text) for token in parsed]

    def align(
        self, edits: Iterable[TextEdit], tokenize: Callable[[str], list[str]]
    ) -> Iterator[TextEdit]:
        """Convert character edits to token edits.

        An edit inside a token becomes an edit of the token, and is dropped if the token is already
        edited.
        """
        done = 0
        for edit in edits:
            first, last, start, end = self._find(edit)
            correction = edit.correction
            if start is not None and end is not None:
                if first < done:
                    continue
                if correction is not None:
                    correction = (
                        self._text[start : edit.start] + correction + self._text[edit.end : end]
                    )
            done = last
            if correction is not None:
                tokens = tokenize(correction.translate(PUNCTUATION).strip())
                correction = " ".join(tokens)
            yield replace(edit, start=first, end=last, correction=correction)

    def _find(self, edit: TextEdit) -> tuple[int, int, int | None, int | None]:
        """Return the token span of an edit, and its character span if the edit is inside tokens.

        The character span is (None, None) if the edit starts and ends at token boundaries.
        """
        start, end = edit.start, edit.end
        starts_at, ends_at = bisect_left(self._starts, start), bisect_left(self._ends, end)
        is_start = starts_at < len(self._starts) and self._starts[starts_at] == start
        is_end = ends_at < len(self._ends) and self._ends[ends_at] == end
        if start == end:
            if start <= self._starts[0]:
                return 0, 0, None, None
            if start >= self._ends[-1]:
                return len(self._ends), len(self._ends), None, None
            if is_start:
                return starts_at, starts_at, None, None
            if is_end:
                return ends_at + 1, ends_at + 1, None, None
        elif is_start and is_end:
            return starts_at, ends_at + 1, None, None
        first = starts_at if is_start else starts_at - 1
        last = min(ends_at, len(self._ends) - 1)
        return first, last + 1, self._starts[first], self._ends[last]


def _edits_by_sentence(
    edits: Iterable[TextEdit], bounds: Sequence[tuple[int, int]]
) -> Iterator[list[TextEdit]]:
    """Yield the edits of each sentence, with positions in the sentence.

    Edits across sentences are dropped.
    """
    remaining = list(edits)[::-1]
    for start, end in bounds:
        found: list[TextEdit] = []
        while remaining:
            edit = remaining[-1]
            if edit.start >= end and not _ends_sentence(edit, end, bounds):
                break
            remaining.pop()
            if start <= edit.start and edit.end <= end:
                found.append(_moved(edit, -start))
        yield found


def _ends_sentence(edit: TextEdit, end: int, bounds: Sequence[tuple[int, int]]) -> bool:
    """Return True if an edit is an insertion at `end` that belongs to the sentence before it."""
    if not edit.start == edit.end == end:
        return False
    return end == bounds[-1][1] or not edit.correction or edit.correction[-1] in punctuation


def _m2_edits(
    words: Sequence[str],
    edits: Sequence[TextEdit],
    annotator: Annotator,
    options: ConversionOptions,
    place: str,
) -> list[M2Edit]:
    if not edits:
        return []
    corrected = list(words)
    spans: list[tuple[TextEdit, int, int]] = []
    shift = 0
    for edit in edits:
        new = words[edit.start : edit.end] if edit.is_marking else (edit.correction or "").split()
        start = edit.start + shift
        corrected[start : edit.end + shift] = new
        spans.append((edit, start, start + len(new)))
        shift += len(new) - (edit.end - edit.start)
    fits = (edit.is_marking or 0 <= start <= end <= len(corrected) for edit, start, end in spans)
    if not all(fits):
        raise DataError(f"{place} has edits of one annotator that overlap. Remove one of them.")
    if options.auto:
        return annotator.edits(" ".join(words), " ".join(corrected))
    spans.sort(key=lambda span: (span[0].end, span[0].start))
    if options.keep_types or not annotator.typed:
        return [
            _m2_edit(corrected, span, UNKNOWN_TYPE if edit.is_marking else edit.type)
            for edit, span in _minimal_spans(words, corrected, spans)
        ]
    minimal = [span for _, span in _minimal_spans(words, corrected, spans)]
    types = annotator.classify(" ".join(words), " ".join(corrected), minimal)
    return [_m2_edit(corrected, *typed) for typed in zip(minimal, types, strict=True)]


def _minimal_spans(
    words: Sequence[str], corrected: Sequence[str], spans: Iterable[tuple[TextEdit, int, int]]
) -> Iterator[tuple[TextEdit, EditSpan]]:
    """Yield edits with spans that exclude unchanged words at both ends.

    Edits without effect are dropped. Spans of marked errors stay unchanged.
    """
    for edit, new_start, new_end in spans:
        start, end = edit.start, edit.end
        if edit.is_marking:
            yield edit, (start, end, new_start, new_end)
            continue
        while start < end and new_start < new_end and words[start] == corrected[new_start]:
            start, new_start = start + 1, new_start + 1
        while start < end and new_start < new_end and words[end - 1] == corrected[new_end - 1]:
            end, new_end = end - 1, new_end - 1
        if start < end or new_start < new_end:
            yield edit, (start, end, new_start, new_end)


def _m2_edit(corrected: Sequence[str], span: EditSpan, kind: str) -> M2Edit:
    start, end, new_start, new_end = span
    return M2Edit(start, end, kind, " ".join(corrected[new_start:new_end]))


def _moved(edit: TextEdit, by: int) -> TextEdit:
    return replace(edit, start=edit.start + by, end=edit.end + by)


def _parse_essay(content: Any, place: str) -> Essay:
    try:
        text, annotations = content["text"], content.get("edits") or []
        annotators: dict[int, list[TextEdit]] = {}
        for number, edits in annotations:
            found = annotators.setdefault(number, [])
            found += [_parse_edit(edit, text) for edit in edits]
        if not isinstance(text, str) or not all(type(number) is int for number in annotators):
            raise TypeError
    except (KeyError, TypeError, ValueError, AttributeError):
        raise DataError(
            f"{place} is not an essay of BEA-2019. Expected an object with text, and edits as "
            "[[ANNOTATOR, [[START, END, CORRECTION], ...]], ...], with START and END in the text."
        ) from None
    if max(map(len, [text, *_corrections(annotators)])) > MAX_CHARACTERS:
        raise DataError(
            f"{place} has a text or a correction of more than {MAX_CHARACTERS:,} characters, too "
            "many for spaCy. Split the essay."
        )
    return Essay(text, annotators, place)


def _parse_edit(edit: Any, text: str) -> TextEdit:
    start, end, correction, *more = edit
    if type(start) is not int or type(end) is not int or not 0 <= start <= end <= len(text):
        raise ValueError
    if correction is not None and not isinstance(correction, str):
        raise TypeError
    kind = more[0] if more else UNTYPED
    if not re.fullmatch(r"[\w:/-]+", kind):
        raise ValueError
    return TextEdit(start, end, correction, kind)


def _corrections(annotators: Mapping[int, Iterable[TextEdit]]) -> Iterator[str]:
    return (edit.correction or "" for edits in annotators.values() for edit in edits)
