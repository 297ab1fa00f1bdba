r"""Convert essays of FCE or W&I+LOCNESS from the JSON of BEA-2019 (Bryant et al., 2019) to M2.

    bea_json.py fce.train.json --spacy-model en_core_web_sm --jobs 8 > fce.train.m2

Sentences and edits are those of the shared task's script ``json_to_m2.py -gold``. A line of the
file is an essay with the edits of one annotator, sorted by their first character::

    {"text": "I likes cats.\nThey sleep", "edits": [[0, [[2, 7, "like"], [24, 24, "."]]]]}

The correction null marks an error that the annotator did not correct.
"""

from __future__ import annotations

import argparse
import re
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import accumulate, islice
from pathlib import Path
from string import punctuation
from typing import Any

from fairseq_ssl.errors import DataError, FairseqSslError, library_errors
from fairseq_ssl.io.executors import LocalExecutor
from fairseq_ssl.io.text_files import parse_json, read_lines
from fairseq_ssl.metrics.edit_extraction import UNKNOWN_TAG, Annotator
from fairseq_ssl.text.m2 import SPACY_MODEL, M2Edit, M2Sentence, check_m2, format_m2

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
ESSAYS = 4
"""Number of essays per task of a worker process."""


@dataclass(frozen=True)
class Edit:
    """An edit of a span of characters or tokens."""

    start: int
    end: int
    correction: str | None
    """Text that replaces the span (None: the error is not corrected)."""

    def contains(self, other: Edit) -> bool:
        """Return True if the span of another edit is inside the span of this edit."""
        if other.start == other.end:
            return self.start < other.start < self.end
        return self.start <= other.start and other.end <= self.end


EditSpan = tuple[int, int, int, int]
"""Start and end of an edit in the source, then start and end in the corrected sentence."""


class EssayAnnotator(Annotator):
    """Annotator that also tokenizes texts and classifies edits."""

    def parse_text(self, text: str) -> Any:
        """Return the spaCy document of a text, tokenized and parsed."""
        with self._one_thread():
            return self._nlp(text)

    def tokenize(self, text: str) -> list[str]:
        """Tokenize a text with spaCy. Return the tokens."""
        return [token.text for token in self._nlp.make_doc(text)]

    def classify(self, source: str, corrected: str, spans: Iterable[EditSpan]) -> list[str]:
        """Return the error type of each edit span."""
        with self._one_thread():
            before, after = map(self._errant.parse, (source, corrected))
        with library_errors(UNKNOWN_TAG):
            edits = [
                self._errant.import_edit(before, after, list(span), min=False) for span in spans
            ]
        return [edit.type for edit in edits]


load_annotator = lru_cache(maxsize=1)(EssayAnnotator)
"""Function that returns the annotator of a spaCy pipeline, once per process."""


def convert_file(path: Path, model: str, jobs: int) -> Iterator[M2Sentence]:
    """Yield the M2 sentences of the essays in a JSON file."""
    load_annotator(model)  # a missing model is reported before the work
    lines = enumerate(read_lines(path), 1)
    blocks = iter(lambda: list(islice(lines, ESSAYS)), [])
    for sentences in LocalExecutor(jobs).imap(partial(_convert_block, str(path), model), blocks):
        yield from sentences


def _convert_block(path: str, model: str, block: Iterable[tuple[int, str]]) -> list[M2Sentence]:
    annotator = load_annotator(model)
    sentences = []
    for number, line in block:
        place = f"{path}:{number}"
        for sentence in convert_essay(*_parse_essay(line, place), annotator):
            check_m2(sentence, place)
            sentences.append(sentence)
    return sentences


def _parse_essay(line: str, place: str) -> tuple[str, list[Edit]]:
    """Return the text of an essay and its edits, with normalized punctuation."""
    try:
        essay = parse_json(line)
        ((_, edits),) = essay["edits"]
        return essay["text"].translate(PUNCTUATION), [
            Edit(int(start), int(end), None if new is None else new.translate(PUNCTUATION))
            for start, end, new, *_ in edits
        ]
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
        raise DataError(
            f"{place} is not an essay of BEA-2019. Expected an object with text, and edits of one "
            "annotator as [[0, [[START, END, CORRECTION], ...]]]."
        ) from None


def convert_essay(
    text: str, edits: Sequence[Edit], annotator: EssayAnnotator
) -> Iterator[M2Sentence]:
    """Yield the M2 sentences of an essay. Edits across lines or sentences are dropped."""
    for line in re.finditer(r"[^\n]+", text):
        inside = [
            Edit(edit.start - line.start(), edit.end - line.start(), edit.correction)
            for edit in edits
            if line.start() <= edit.start <= edit.end <= line.end()
        ]
        corrections = [edit for edit in inside if edit.correction is not None]
        inside = [
            edit
            for edit in inside
            if edit.correction is not None or not any(map(edit.contains, corrections))
        ]
        paragraph, inside = normalize_spaces(line[0], inside)
        if paragraph:
            yield from _convert_paragraph(paragraph, inside, annotator)


def normalize_spaces(text: str, edits: Iterable[Edit]) -> tuple[str, list[Edit]]:
    """Return a text without superfluous spaces, and edits without spaces at both ends."""
    text = re.sub(r"\s", " ", text)
    kept = [char != " " or text[at + 1 : at + 2] != " " for at, char in enumerate(text)]
    places = list(accumulate(kept, initial=0))
    """New index of each character. Of consecutive spaces, the last is kept."""
    text = "".join(char for char, stays in zip(text, kept, strict=True) if stays)
    indent = text.startswith(" ")
    text = text[indent:]
    normalized = []
    for edit in edits:
        start, end = (max(places[at] - indent, 0) for at in (edit.start, edit.end))
        span = text[start:end]
        normalized.append(
            Edit(start + span.startswith(" "), end - span.endswith(" "), edit.correction)
        )
    return text, normalized


def _convert_paragraph(
    text: str, edits: Iterable[Edit], annotator: EssayAnnotator
) -> Iterator[M2Sentence]:
    document = annotator.parse_text(text)
    words = [token.text for token in document]
    ends = [
        sentence.end
        for sentence in document.sents
        if sentence[-1].text[-1] in punctuation or sentence.end == len(words)
    ]  # a sentence without final punctuation is joined with the next sentence
    of_sentences: list[list[Edit]] = [[] for _ in ends]
    for edit in align_with_tokens(document, edits, annotator):
        at = bisect_right(ends, edit.start)
        if edit.start == edit.end == ends[at - 1] and (at == len(ends) or _ends_sentence(edit)):
            at -= 1
        if edit.end <= ends[at]:
            start = ends[at - 1] if at else 0
            moved = replace(edit, start=edit.start - start, end=edit.end - start)
            of_sentences[at].append(moved)
    for start, end, inside in zip([0, *ends], ends, of_sentences, strict=False):
        yield M2Sentence(
            tuple(words[start:end]), {0: _m2_edits(words[start:end], inside, annotator)}
        )


def _ends_sentence(insertion: Edit) -> bool:
    """Return True if an insertion between two sentences belongs to the first."""
    return not insertion.correction or insertion.correction[-1] in punctuation


def align_with_tokens(
    document: Any, edits: Iterable[Edit], annotator: EssayAnnotator
) -> Iterator[Edit]:
    """Convert character edits to token edits.

    An edit inside a token becomes an edit of the token, and is dropped if the token is already
    edited.
    """
    text = document.text
    starts = [token.idx for token in document]
    ends = [token.idx + len(token) for token in document]
    done = 0
    for edit in edits:
        correction = edit.correction
        first = bisect_right(starts, edit.start) - 1
        last = min(bisect_left(ends, edit.end), len(ends) - 1)
        start, end = starts[first], ends[last]
        if edit.start == edit.end == start:
            span = first, first
        elif edit.start == edit.end >= end:
            span = last + 1, last + 1
        else:
            span = first, last + 1
            if (start, end) != (edit.start, edit.end):
                if first < done:
                    continue
                if correction is not None:
                    correction = text[start : edit.start] + correction + text[edit.end : end]
        done = span[1]
        if correction is not None:
            correction = " ".join(annotator.tokenize(correction.strip()))
        yield Edit(*span, correction)


def _m2_edits(words: list[str], edits: Sequence[Edit], annotator: EssayAnnotator) -> list[M2Edit]:
    """Return edits with types, sorted and without the words that they do not change."""
    if not edits:
        return []
    corrected = list(words)
    spans: list[tuple[EditSpan, bool]] = []
    shift = 0
    for edit in edits:
        is_marking = edit.correction is None
        new = words[edit.start : edit.end] if is_marking else (edit.correction or "").split()
        start = edit.start + shift
        corrected[start : edit.end + shift] = new
        spans.append(((edit.start, edit.end, start, start + len(new)), is_marking))
        shift += len(new) - (edit.end - edit.start)
    spans.sort(key=lambda marked: (marked[0][1], marked[0][0]))
    minimal: list[EditSpan] = []
    for span, is_marking in spans:
        start, end, new_start, new_end = (
            span if is_marking else _minimal_span(words, corrected, span)
        )
        if is_marking or start < end or new_start < new_end:
            minimal.append((start, end, new_start, new_end))
    types = annotator.classify(" ".join(words), " ".join(corrected), minimal)
    return [
        M2Edit(start, end, kind, " ".join(corrected[new_start:new_end]))
        for (start, end, new_start, new_end), kind in zip(minimal, types, strict=True)
    ]


def _minimal_span(words: Sequence[str], corrected: Sequence[str], span: EditSpan) -> EditSpan:
    """Return a span without the unchanged words at both ends."""
    start, end, new_start, new_end = span
    while start < end and new_start < new_end and words[start] == corrected[new_start]:
        start, new_start = start + 1, new_start + 1
    while start < end and new_start < new_end and words[end - 1] == corrected[new_end - 1]:
        end, new_end = end - 1, new_end - 1
    return start, end, new_start, new_end


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--spacy-model", default=SPACY_MODEL)
    parser.add_argument("--jobs", type=int, default=1)
    args = parser.parse_args()
    try:
        for sentence in convert_file(args.file, args.spacy_model, args.jobs):
            sys.stdout.writelines(f"{line}\n" for line in format_m2(sentence))
    except FairseqSslError as error:
        sys.exit(f"bea_json.py: {error}")


if __name__ == "__main__":
    main()
