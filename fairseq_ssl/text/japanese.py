"""What is put right in Japanese output (thesis, sections 5.3.8 and 5.5.4)."""

from __future__ import annotations

import re

JAPANESE = "々〆\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f」』\uff09〉》】"
"""Kana and kanji, and the brackets that close what is written in them."""
DIGIT = "0-9\uff10-\uff19"
WORD = rf"{DIGIT}A-Za-z\uff21-\uff3a\uff41-\uff5a"
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
        (rf"(?<=[{JAPANESE}])\.(?![{STOPS}{WORD}])", "。"),
    )
]
"""What becomes which mark, one after the other."""

KATAKANA = "\u30a1-\u30fa\u30fc-\u30ff\uff66-\uff9f"
LATIN = "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\uff21-\uff3a\uff41-\uff5a"
SIMPLE = r" .,'&\-\u2010-\u2013\u2019\u3000・"
OPEN, CLOSE = r"[(\uff08]", r"[)\uff09]"
BRACKETS = re.compile(rf"(?<=[{KATAKANA}]) *{OPEN}[{SIMPLE}]*[{LATIN}][{LATIN}{SIMPLE}]*{CLOSE}")


def japanese_punctuation(line: str) -> str:
    """Write commas and full stops of English style as 、 and 。, without spaces around.

    English ones count before a space, at the end of the line and beside Japanese letters; wide
    ones (U+FF0C, U+FF0E) everywhere. Those within numbers (3.14, 1,000) and within Latin words
    (example.com) stay, and so do dots in a row.
    """
    for pattern, mark in PUNCTUATION:
        line = pattern.sub(mark, line)
    return line


def without_latin_brackets(line: str) -> str:
    """Take away brackets after katakana that hold Latin letters: a name in its first writing.

    Those with a digit, or anything else but spaces and simple punctuation, stay.
    """
    return BRACKETS.sub("", line)
