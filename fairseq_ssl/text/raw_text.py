"""Segmentation of raw text into sentences and tokens, and edits that keep its spacing."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

from fairseq_ssl.errors import UsageError, import_optional
from fairseq_ssl.text.english_tokenizer import tokenize_english
from fairseq_ssl.text.tokenization import moses_tokenizer

TOKENIZERS = ("spacy", "moses", "english")
SENTENCE_END = re.compile(r"[.!?…。！？]+")  # noqa: RUF001 - full-width punctuation of East Asia
AFTER_SENTENCE_END = re.compile(r"[\"'”’»)\]}]+")  # noqa: RUF001
"""Pattern for closing quotes and brackets, which belong to the sentence before them."""
NO_SPACE_BEFORE = re.compile(r"[,.;:!?%)\]}»”’…]+|['’][a-z]{0,2}|n['’]t", re.IGNORECASE)  # noqa: RUF001
NO_SPACE_AFTER = re.compile(r"[(\[{«“‘$£€#¿¡]+")  # noqa: RUF001
NO_SPACE_AROUND = re.compile(r"[-/]")
TIGHT_BEFORE = re.compile(f"{NO_SPACE_BEFORE.pattern}|{NO_SPACE_AROUND.pattern}", re.IGNORECASE)
TIGHT_AFTER = re.compile(f"{NO_SPACE_AFTER.pattern}|{NO_SPACE_AROUND.pattern}")
"""`TIGHT_BEFORE` and `TIGHT_AFTER` match new tokens that remove the space before or after them."""
UNSPACED = re.compile(
    r"[\u0e00-\u0e7f\u3000-\u30ff\u31f0-\u31ff\u3400-\u9fff\uf900-\ufaff\uff01-\uff9f]"
    r"|[\U00020000-\U0003ffff]"
)
"""Pattern for Thai, kana, Han and full-width characters, which are written without spaces."""
QUOTE = '"'


@dataclass(frozen=True)
class Sentence:
    """A tokenized sentence of a line."""

    tokens: list[str]
    starts: list[int]
    """Character offset in the line at which each token starts."""

    @cached_property
    def ends(self) -> list[int]:
        """Character offset in the line at which each token ends."""
        return [start + len(token) for token, start in zip(self.tokens, self.starts, strict=True)]


class TokenEdit(NamedTuple):
    """A replacement of consecutive tokens."""

    start: int
    """Index of the first token to replace."""
    end: int
    """Index after the last token to replace, equal to `start` for an insertion."""
    tokens: tuple[str, ...]
    """New tokens."""


class LineEdit(NamedTuple):
    """A replacement of the characters of a line from `start` up to, but not including, `end`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class LineSegmenter:
    """Function that splits lines into tokenized sentences."""

    tokenize: Callable[[str], Sentence]
    splits_sentences: bool = True
    """True to split lines into sentences. If False, each line is one sentence."""

    @classmethod
    def of(cls, tokenizer: str | None, language: str = "en") -> LineSegmenter:
        """Create a segmenter for a tokenizer and a language.

        Args:
            tokenizer: ``spacy``, ``moses`` or ``english``, which imitates spaCy's English tokenizer
                without spaCy. If None, each line is a sentence with tokens separated by spaces.
            language: language code for the tokenizer.
        """
        if tokenizer is None:
            return cls(_split_at_spaces, splits_sentences=False)
        if tokenizer == "moses":
            tokenize = moses_tokenizer(language, escape=False)
            return cls(lambda line: _locate(line, tokenize(line).split()))
        if tokenizer == "english":
            if language != "en":
                raise UsageError(
                    f"`language` is {language!r}. The tokenizer english supports only en. Set "
                    "`tokenizer` to spacy or moses."
                )
            return cls(lambda line: Sentence(*tokenize_english(line)))
        spacy = import_optional("spacy", "Tokenizing raw text", "gec")
        try:
            pipeline = spacy.blank(language)
        except ImportError as error:
            what = f"whose spaCy tokenizer needs another package. {error}"
            if "E048" in str(error):  # an unknown language
                what = "for which spaCy has no tokenizer. Expected a language code such as en."
            raise UsageError(f"`language` is {language!r}, {what}") from None
        pipeline.max_length = sys.maxsize  # the limit is for parsers, which need more memory
        return cls(_spacy_tokenizer(pipeline))

    def __call__(self, line: str) -> list[Sentence]:
        """Return the sentences of a line. A blank line contains no sentence."""
        text = self.tokenize(line)
        if not text.tokens:
            return []
        if not self.splits_sentences:
            return [text]
        bounds = [0, *_sentence_starts(text), len(text.tokens)]
        return [
            Sentence(text.tokens[begin:end], text.starts[begin:end])
            for begin, end in pairwise(bounds)
        ]


def _split_at_spaces(line: str) -> Sentence:
    words = list(re.finditer(r"\S+", line))
    return Sentence([word[0] for word in words], [word.start() for word in words])


def _spacy_tokenizer(pipeline: Any) -> Callable[[str], Sentence]:
    def tokenize(line: str) -> Sentence:
        words = [word for word in pipeline.make_doc(line) if not word.is_space]
        return Sentence([word.text for word in words], [word.idx for word in words])

    return tokenize


def _locate(line: str, tokens: list[str]) -> Sentence:
    """Locate the tokens in their line. If the tokenizer changed any, split the line at spaces."""
    starts, at = [], 0
    for token in tokens:
        at = line.find(token, at)
        if at < 0:
            return _split_at_spaces(line)
        starts.append(at)
        at += len(token)
    return Sentence(tokens, starts)


def _sentence_starts(text: Sentence) -> list[int]:
    """Return the index of the first token of each sentence, except the first sentence.

    Quotes and brackets directly after the final punctuation belong to the sentence. A sentence
    continues if a lowercase word follows such a quote or several dots: "Who?" he asked... and left.
    """
    starts = []
    is_over = is_strong = False
    previous_end = -1
    positions = zip(text.tokens, text.starts, text.ends, strict=True)
    for index, (token, start, end) in enumerate(positions):
        if SENTENCE_END.fullmatch(token):
            is_over, is_strong = True, len(token) == 1
        elif is_over and start == previous_end and AFTER_SENTENCE_END.fullmatch(token):
            is_strong = False
        elif is_over:
            if is_strong or not token[0].islower():
                starts.append(index)
            is_over = False
        previous_end = end
    return starts


def apply_line_edits(line: str, edits: Sequence[LineEdit]) -> str:
    """Apply edits to a line. The edits must be sorted and must not overlap."""
    parts, at = [], 0
    for edit in edits:
        parts += [line[at : edit.start], edit.text]
        at = edit.end
    return "".join([*parts, line[at:]])


def line_edits(line: str, sentence: Sentence, edits: Sequence[TokenEdit]) -> list[LineEdit]:
    """Convert token edits of a sentence to edits of its line.

    The spaces around an edited token are kept unless the new token, such as a comma, requires
    different spacing. All other characters are unchanged.

    Args:
        line: text that contains the sentence.
        sentence: tokens with their offsets in `line`.
        edits: sorted edits that are separated by one or more tokens.
    """
    quotes = _QuoteCounter(sentence.tokens)
    quotes.added = line[: sentence.starts[0]].count(QUOTE)
    return [_line_edit(line, sentence, edit, quotes) for edit in edits]


class _QuoteCounter:
    """Counter of straight quotes, which distinguishes opening and closing quotes."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self.at = [index for index, token in enumerate(tokens) if token == QUOTE]
        self.added = 0
        """Number of quotes before the sentence, plus added quotes and minus removed quotes."""

    def is_open(self, index: int) -> bool:
        """Return True if a quote is open before the token at `index`."""
        return (sum(at < index for at in self.at) + self.added) % 2 == 1


def _line_edit(line: str, sentence: Sentence, edit: TokenEdit, quotes: _QuoteCounter) -> LineEdit:
    tokens, starts, ends = sentence.tokens, sentence.starts, sentence.ends
    has_left, has_right = edit.start > 0, edit.end < len(tokens)
    begin = ends[edit.start - 1] if has_left else starts[0]
    end = starts[edit.end] if has_right else ends[-1]
    removed, added = tokens[edit.start : edit.end], edit.tokens
    before, after = "", line[begin:end]
    if removed:
        before, after = line[begin : starts[edit.start]], line[ends[edit.end - 1] : end]
    elif after:
        before = " "
    first = edit.start - has_left
    left = [_neighbor(line, sentence, index) for index in range(first, edit.start)]
    right = [_neighbor(line, sentence, edit.end)] if has_right else []
    words = [*left, *added, *right]
    spaces = _usual_spaces(words, quotes.is_open(first))
    quotes.added += added.count(QUOTE) - removed.count(QUOTE)
    if not added:
        gap = _gap_after_deletion(before, after, spaces[0]) if has_left and has_right else ""
        return LineEdit(begin, end, gap)
    gaps = [" " if space else "" for space in spaces]
    if has_left:
        gaps[0] = _gap(before, spaces[0], removed[:1], added[0], TIGHT_BEFORE)
    else:
        gaps.insert(0, "")
    if has_right:
        gaps[-1] = _gap(after, spaces[-1], removed[-1:], added[-1], TIGHT_AFTER)
    else:
        gaps.append("")
    text = "".join(map("".join, zip(gaps, added, strict=False)))
    return LineEdit(begin, end, text + gaps[-1])


def _neighbor(line: str, sentence: Sentence, index: int) -> str:
    """Return the token at `index`, or a curly quote for an opening straight single quote."""
    start, end = sentence.starts[index], sentence.ends[index]
    follows_space = line[start - 1 : start].isspace() or not start
    is_opening = follows_space and not line[end : end + 1].isspace()
    return "‘" if sentence.tokens[index] == "'" and is_opening else sentence.tokens[index]  # noqa: RUF001


def _usual_spaces(tokens: Sequence[str], quote_is_open: bool) -> list[bool]:
    """Return, for each token except the last, whether a space usually follows it.

    `quote_is_open` is True if a straight quote is open before the first token.
    """
    spaces = []
    for left, right in pairwise(tokens):
        quote_is_open ^= left == QUOTE
        if UNSPACED.search(left[-1] + right[0]):
            spaces.append(False)
        elif QUOTE in (left, right):
            spaces.append(not quote_is_open)
        elif NO_SPACE_AROUND.fullmatch(left) or NO_SPACE_AROUND.fullmatch(right):
            spaces.append(False)
        else:
            spaces.append(not (NO_SPACE_BEFORE.fullmatch(right) or NO_SPACE_AFTER.fullmatch(left)))
    return spaces


def _gap(
    original: str, has_space: bool, removed: Sequence[str], added: str, tight: re.Pattern[str]
) -> str:
    """Return the whitespace on one side of a new token.

    Args:
        original: whitespace of the line at this position.
        has_space: whether a space is usual at this position.
        removed: sequence that contains the replaced token, or is empty for an insertion.
        added: the new token.
        tight: pattern of new tokens that remove a space.
    """
    if removed and _is_word(removed[0]) == _is_word(added):
        return original
    if original and added != QUOTE and not tight.fullmatch(added):
        return original
    return (original or " ") if has_space else ""


def _gap_after_deletion(before: str, after: str, has_space: bool) -> str:
    """Return the whitespace that replaces deleted tokens and the whitespace on both sides."""
    if before and after:
        return after
    return (before or after or " ") if has_space else ""


def _is_word(token: str) -> bool:
    return any(map(str.isalnum, token)) and not NO_SPACE_BEFORE.fullmatch(token)
