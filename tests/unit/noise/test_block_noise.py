"""Noise for blocks of bytes: the results with word ids and with strings are equal."""

from __future__ import annotations

import gzip
from dataclasses import replace
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_ssl.io.blocks import ByteBlock
from fairseq_ssl.noise import block_noise
from fairseq_ssl.noise.block_noise import corpus_noise
from fairseq_ssl.noise.byte_words import split_words
from fairseq_ssl.noise.tokens import Unigrams

UNIGRAMS = Unigrams.of({"a": 3, "the": 1, "naïve": 2, "…": 1})
RESOURCES = {"unigrams": UNIGRAMS, "mask_token": "<mask>"}
WORDS = st.sampled_from(["a", "b", "the", "tha", "naïve", "…", "<mask>", "日本", "€"])
SPACES = st.sampled_from([" ", "  ", "\t", " \r", "\x0b", "\x1c"])
LINE = st.lists(st.tuples(WORDS, SPACES), min_size=1, max_size=9).map(
    lambda pairs: "".join(word + space for word, space in pairs)
)
LINES = st.lists(LINE, min_size=1, max_size=9)


CHAINS = (
    *("direct", "denoise:mean=0.4", "filtering", "direct,denoise", "spelling:rate=0.2"),
    *("spelling:rate=0.5:letters=aé", "direct,spelling:rate=0.3,spelling:rate=0.3,denoise"),
)


@pytest.mark.parametrize("words", CHAINS)
@given(lines=LINES, newline=st.booleans())
def test_ids_and_strings_give_the_same_bytes(words: str, lines: list[str], newline: bool) -> None:
    noise = corpus_noise(block_noise.parse_noise(words), RESOURCES, 7)
    data = ("\n".join(lines) + "\n" * newline).encode()
    assert split_words(data, 10_000) is not None
    block = ByteBlock(3, 0, data)
    assert noise(block) == replace(noise, numbered=None)(block)


@pytest.mark.parametrize("words", ["direct", "spelling"])
def test_long_and_short_blocks_share_a_table(words: str) -> None:
    noise = corpus_noise(block_noise.parse_noise(words), RESOURCES, 7)
    for number, copies in enumerate((1, 4000, 2, 5000)):
        block = ByteBlock(number, 0, "the ab\tnaïve\n".encode() * copies)
        assert noise(block) == replace(noise, numbered=None)(block)


@pytest.mark.parametrize("wide", ["", "\u3000"])
def test_noisy_lines_have_no_other_line_ends(wide: str) -> None:
    """fairseq ends a line at CR."""
    noise = corpus_noise(block_noise.parse_noise("direct:keep=1:mask=0"), RESOURCES, 7)
    block = ByteBlock(0, 0, f"the\ra{wide}\nb\r\nthe\n".encode())
    assert noise(block).output == b"the a\nb\nthe\n"


def test_noises_are_applied_in_order() -> None:
    chain = block_noise.parse_noise("direct:mask=1:keep=0,filtering:delete=0:replace=1")
    assert [str(one) for one in chain] == [
        "direct:keep=0.0:mask=1.0",
        "filtering:delete=0.0:replace=1.0:distance=3.0",
    ]
    assert str(block_noise.parse_noise("direct")[0]) == "direct:keep=0.2:mask=0.3"
    noise = corpus_noise(chain, RESOURCES, 7)
    assert b"<mask>" not in cast(bytes, noise(ByteBlock(0, 0, b"a b c\n" * 9)).output)


def test_blocks_and_their_first_bad_lines_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_noise, "MAX_TOKENS", 4)
    noise = corpus_noise(block_noise.parse_noise("spelling:rate=0.5"), RESOURCES, 7, True)
    lines = b"first line\nfour words of this\n"
    good, bad = noise(ByteBlock(2, 5, lines)), noise(ByteBlock(3, 40, b"any\na b c d e\n\n"))
    assert len(gzip.decompress(cast(bytes, good.output)).splitlines()) == 2
    assert (good.bad, bad.output) == (None, b"")
    assert bad.bad is not None
    assert (bad.bad.place, bad.bad.what) == (2, "has 5 tokens. The maximum is 4")
    both = good.and_then(good)
    assert (both.lines, both.tokens, both.changed) == (4, 12, 2 * good.changed)
    assert both.end == good.end == 5 + len(lines)
    first = good.and_then(bad).and_then(bad).bad
    assert first is not None
    assert first.place == 4


@pytest.mark.parametrize("char", [*"\0\x01\u00a0\u3000\u2003\u2028\u0085", "\udce9"])
def test_unusual_lines_use_strings(char: str) -> None:
    block = f"a b\na{char}b\nc d\n".encode("utf-8", "surrogateescape")
    assert split_words(block, 30) is None


@pytest.mark.parametrize("line", ["", "  ", "x " * 31])
def test_blank_and_long_lines_use_strings(line: str) -> None:
    assert split_words(f"a b\n{line}\nc d\n".encode(), 30) is None
    assert split_words(b"x " * 30 + b"\n", 30) is not None


def test_bytes_are_split_as_strings() -> None:
    for code in {*range(1, 0x3001)} - {ord("\n")}:
        line = f"a{chr(code)}b c"
        found = split_words(line.encode() + b"\n", 30)
        if found is None:
            assert chr(code).isspace() or code < 32
        else:
            words, lengths = found
            assert words.strings(np.arange(lengths[0])) == line.split(), code
