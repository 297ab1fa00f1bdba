"""The English tokenizer: tokens of spaCy, offsets, and its cache."""

# ruff: noqa: RUF001 - quotes and dashes of text
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_ssl.text import english_tokenizer
from fairseq_ssl.text.english_tokenizer import MAX_CACHED_LENGTH, tokenize_english
from fairseq_ssl.text.raw_text import LineSegmenter

SPACY = LineSegmenter.of("spacy").tokenize
LINES = [
    "I don't know, you can't go; they won't've seen it and I'm sure he'd've said: 'isn't'.",
    "dont Im youre its ill well were whats cannot gonna Gotta let's lets C'mon could've this is",
    "You DON'T and CAN'T, I'M here. There're some theses; where's hers? Mary'll go to Anna's.",
    "I’m sure it’s the boys’ and James's, ‘quoted’ “so” ''twice'' `x` \"y\" in the '80s.",
    "A well-known e-mail -- a so-called co-op, 1990-2000, a–b x—y --word word- -5 2-3 3+4.",
    "See http://a-b.com/c-d?e=f, (www.x.co.uk) foo-bar@x-y.com. site.com/a-b and and/or his/her.",
    "Mr. and Mrs. Smith of the U.S.A. and U.K. live in St. Louis, e.g. at 10 p.m. on Jan. 5, etc.",
    "10am 9p.m. 13pm 10:30 5km 20kg 50% 100$ $5.50 5€ £3 +5 10th 6h30 1,000 1.5. 100km/h 20°C.",
    "the end.The end.the one,two 1,two a:b a=b a/b 5/6 so...what what… no!!! yes?! (a) [b] d(s)",
    "Hi :) :-( :D ;) <3 (2017): #tag @me a&b a_b *so* ~a a~b ^_^ C++ +1 (:",
    "It's 'em o'clock ma'am goin' 'cause rock'n'roll y'all not've I've.been she's/he's you and I.",
    "  two  spaces\tand\xa0a tab ",
    "é.É né. Ça va? Kleť. 很 好，it。 ☺ a☺b 🙂🙂",
]


@pytest.mark.parametrize("line", LINES)
def test_tokens_are_those_of_spacy(line: str) -> None:
    sentence = SPACY(line)
    assert tokenize_english(line) == (sentence.tokens, sentence.starts)


@given(st.lists(st.sampled_from("aA1.,:'’\"()-/@$+n t <3=^")).map("".join) | st.text())
def test_tokens_are_the_line_without_spaces(line: str) -> None:
    tokens, starts = tokenize_english(line)
    assert "".join(tokens) == "".join(line.split())
    assert all(tokens)
    assert [
        line[start : start + len(token)] for token, start in zip(tokens, starts, strict=True)
    ] == (tokens)


def test_long_words_are_not_cached() -> None:
    english_tokenizer._split_word.cache_clear()
    tokenize_english("a" * MAX_CACHED_LENGTH + " " + "b" * (MAX_CACHED_LENGTH + 1))
    assert english_tokenizer._split_word.cache_info().currsize == 1
