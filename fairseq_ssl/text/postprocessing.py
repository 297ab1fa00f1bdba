"""Fixes for model output: fairseq's log, unknown words, Japanese punctuation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field
from functools import partial

from fairseq_ssl.errors import DataError
from fairseq_ssl.text.tokenization import (
    LineRewriter,
    detruecaser,
    moses_detokenizer,
    subword_joiner,
)


def read_generated_lines(lines: Iterable[str], field: str) -> Iterator[str]:
    """Return fairseq-generate's lines of one kind, the first of each number, by number."""
    found: dict[int, str] = {}
    for line in lines:
        numbered = re.match(rf"{field}-(\d+)\t", line)
        if numbered:
            found.setdefault(int(numbered[1]), line.split("\t", 2 if field == "H" else 1)[-1])
    if not found:
        raise DataError(
            f"There is no line that begins with {field}-0. Expected what fairseq-generate prints."
        )
    missing = next((n for n in range(len(found)) if n not in found), None)
    if missing is not None:
        raise DataError(
            f"There is no {field}-{missing}: the output of fairseq-generate is cut off."
        )
    return iter([found[number] for number in sorted(found)])


UNKNOWN_WORD = "<unk>"


@dataclass
class UnknownCopies:
    """Copies source tokens to the place of ``<unk>``, and counts how often it could and not.

    Candidates are the source tokens that exactly one of the two vocabularies has: the model
    could read such a token and not write it, or the other way round. The first ``<unk>`` takes
    the first of them, the second the second, and so on. An ``<unk>`` for which none is left
    stays.
    """

    source_words: Set[str]
    target_words: Set[str]
    copied: int = field(default=0, init=False)
    left: int = field(default=0, init=False)

    def __call__(self, output: str, source: str) -> str:
        """Return a line of output with tokens of the line it was made of."""
        if UNKNOWN_WORD not in output:
            return output
        rare = (token for token in source.split(" ") if self._in_one(token))
        tokens = output.split(" ")
        for place, token in enumerate(tokens):
            if token == UNKNOWN_WORD:
                tokens[place] = next(rare, UNKNOWN_WORD)
                self.copied += tokens[place] != UNKNOWN_WORD
                self.left += tokens[place] == UNKNOWN_WORD
        return " ".join(tokens)

    def _in_one(self, token: str) -> bool:
        return (token in self.source_words) != (token in self.target_words)


def replace_unknown(output: str, text: str) -> str:
    """Put `text` for every ``<unk>``."""
    return output.replace(UNKNOWN_WORD, text)


JAPANESE = "々〆\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f」』\uff09〉》】"
"""Kana and kanji, and the brackets that close what is written in them."""
DIGIT = "0-9\uff10-\uff19"
LATIN_WORD = rf"{DIGIT}A-Za-z\uff21-\uff3a\uff41-\uff5a"
WIDE_COMMA, WIDE_STOP = "\uff0c", "\uff0e"
STOPS = f".{WIDE_STOP}"
OUTSIDE_NUMBER = rf"(?:(?<![{DIGIT}]){{0}}|{{0}}(?![{DIGIT}]))"
SPACES = r"(?<! ) *"
"""All spaces before a mark; begun in the middle of them, a search would take quadratic time."""

PUNCTUATION = [
    (re.compile(pattern), mark)
    for pattern, mark in (
        (rf"{SPACES}{OUTSIDE_NUMBER.format(WIDE_COMMA)} *", "、"),
        (rf"{SPACES}(?<![{STOPS}]){OUTSIDE_NUMBER.format(WIDE_STOP)}(?![{STOPS}]) *", "。"),
        (rf"{SPACES},(?: +|$)", "、"),
        (rf"{SPACES}(?<![{STOPS}])\.(?: +|$)", "。"),
        (rf"(?<=[{JAPANESE}]),|,(?=[{JAPANESE}])", "、"),
        (rf"(?<=[{JAPANESE}])\.(?![{STOPS}{LATIN_WORD}])", "。"),
    )
]
"""What becomes which mark, one after the other."""

KATAKANA = "\u30a1-\u30fa\u30fc-\u30ff\uff66-\uff9f"
LATIN = "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\uff21-\uff3a\uff41-\uff5a"
SIMPLE = r" .,'&\-\u2010-\u2013\u2019\u3000・"
OPEN, CLOSE = r"[(\uff08]", r"[)\uff09]"
BRACKETS = re.compile(rf"(?<=[{KATAKANA}]) *{OPEN}[{SIMPLE}]*[{LATIN}][{LATIN}{SIMPLE}]*{CLOSE}")


def fix_japanese_punctuation(line: str) -> str:
    """Write commas and full stops of English style as 、 and 。, without spaces around.

    English ones count before a space, at the end of the line and beside Japanese letters; wide
    ones (U+FF0C, U+FF0E) everywhere. Those within numbers (3.14, 1,000) and within Latin words
    (example.com) stay, and so do dots in a row.
    """
    for pattern, mark in PUNCTUATION:
        line = pattern.sub(mark, line)
    return line


def remove_latin_brackets(line: str) -> str:
    """Take away brackets after katakana that hold Latin letters: a name in its first writing.

    Those with a digit, or anything else but spaces and simple punctuation, stay.
    """
    return BRACKETS.sub("", line)


def postprocessor(
    subwords: str | None = None,
    unknown_to: str | None = None,
    detruecase: bool = False,
    moses: str | None = None,
    japanese_punctuation: bool = False,
    remove_brackets: bool = False,
) -> LineRewriter:
    """Return a function that applies these steps to a line of output, in this order.

    Args:
        subwords: the kind of subwords to join, or ``none``
        unknown_to: text that replaces each ``<unk>``
        detruecase: capitalize the first word of each sentence
        moses: language of Moses' detokenizer
        japanese_punctuation: replace English punctuation in Japanese
        remove_brackets: remove brackets with Latin text after katakana
    """
    steps: list[LineRewriter] = [subword_joiner(subwords)]
    if unknown_to is not None:
        steps.append(partial(replace_unknown, text=unknown_to))
    if detruecase:
        steps.append(detruecaser())
    if moses:
        steps.append(moses_detokenizer("none", moses))
    if japanese_punctuation:
        steps.append(fix_japanese_punctuation)
    if remove_brackets:
        steps.append(remove_latin_brackets)

    def process(line: str) -> str:
        for step in steps:
            line = step(line)
        return line

    return process
