"""Noise for blocks of bytes: the results of split bytes and split strings are equal."""

from __future__ import annotations

import gzip
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_ssl.io.blocks import ByteBlock
from fairseq_ssl.noise import NoiseResources, block_noise
from fairseq_ssl.noise.block_noise import NOISE_OUTPUTS, CorpusNoise, corpus_noise
from fairseq_ssl.noise.byte_words import split_words

COUNTS = {"a": 3, "the": 1, "naïve": 2, "…": 1}
WORDS = st.sampled_from(["a", "b", "the", "tha", "naïve", "…", "<mask>", "日本", "€"])
SPACES = st.sampled_from([" ", "  ", "\t", " \r", "\x0b", "\x1c", "\u3000", "\u2003 "])
LINE = st.lists(st.tuples(WORDS, SPACES), min_size=1, max_size=9).map(
    lambda pairs: "".join(word + space for word, space in pairs)
)
LINES = st.lists(LINE, min_size=1, max_size=9)


CHAINS = (
    *("direct", "denoise:mean=0.4", "filtering", "direct,denoise", "spelling:rate=0.2"),
    *("spelling:rate=0.5:letters=aé", "direct,spelling:rate=0.3,spelling:rate=0.3,denoise"),
)


def build(words: str, outputs: dict[str, bool]) -> CorpusNoise:
    method = block_noise.parse_noise(words)
    return corpus_noise(method, NoiseResources().load(method, COUNTS), 7, outputs)


@pytest.mark.parametrize("words", CHAINS)
@given(lines=LINES, newline=st.booleans())
def test_bytes_and_strings_give_the_same_noise(words: str, lines: list[str], newline: bool) -> None:
    noise = build(words, dict.fromkeys(NOISE_OUTPUTS, False))
    data = ("\n".join(lines) + "\n" * newline).encode()
    assert split_words(data, 10_000) is not None
    block = ByteBlock(3, 0, data)
    result = noise(block)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(block_noise, "split_words", lambda *_: None)
        assert noise(block) == result


@pytest.mark.parametrize("words", ["direct", "spelling"])
def test_long_and_short_blocks_share_a_table(words: str) -> None:
    noise = build(words, {"noisy": False})
    for number, copies in enumerate((1, 4000, 2, 5000)):
        block = ByteBlock(number, 0, "the ab\tnaïve\n".encode() * copies)
        assert noise(block) == build(words, {"noisy": False})(block)


@pytest.mark.parametrize("wide", ["", "\u3000"])
def test_clean_and_noisy_lines_are_aligned_for_fairseq(wide: str) -> None:
    """fairseq ends a line at CR."""
    noise = build("direct:keep=1:mask=0", {"noisy": False, "clean": False})
    block = ByteBlock(0, 0, f"the\ra{wide}\nb\r\nthe\n".encode())
    noisy, clean = (cast(bytes, one).decode() for one in noise(block).outputs)
    assert noisy == "the a\nb\nthe\n"
    assert clean == f"the a{wide}\nb \nthe\n"


def test_noises_are_applied_in_order() -> None:
    words = "direct:mask=1:keep=0,filtering:delete=0:replace=1"
    chain = block_noise.parse_noise(words)
    assert [str(one) for one in chain] == [
        "direct:keep=0.0:mask=1.0",
        "filtering:delete=0.0:replace=1.0:distance=3.0",
    ]
    assert str(block_noise.parse_noise("direct")[0]) == "direct:keep=0.2:mask=0.3"
    noise = build(words, {"noisy": False})
    assert b"<mask>" not in cast(bytes, noise(ByteBlock(0, 0, b"a b c\n" * 9)).outputs[0])


def test_bad_lines_do_not_change_the_noise_of_other_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_noise, "MAX_TOKENS", 4)
    noise = build("spelling:rate=0.5", {"noisy": True, "clean": False})
    lines = [b"first line\n", b"\n", b"a b c d e\n", b"four words of this\n", b"caf\xe9\n"]
    good = [line if number in (0, 3) else b"any\n" for number, line in enumerate(lines)]
    result, other = (noise(ByteBlock(2, 5, b"".join(block))) for block in (lines, good))
    noisy, clean = result.outputs
    assert clean == b"first line\nfour words of this\n"
    expected = gzip.decompress(cast(bytes, other.outputs[0])).splitlines()
    assert gzip.decompress(cast(bytes, noisy)).splitlines() == [expected[0], expected[3]]
    assert [bad.place for bad in result.bad] == [2, 3, 5]
    both = result.and_then(result)
    assert [bad.place for bad in both.bad] == [2, 3, 5, 7, 8, 10]
    assert (both.lines, both.tokens, both.changed) == (10, 12, 2 * result.changed)
    assert both.end == result.end == 5 + sum(map(len, lines))


@pytest.mark.parametrize("line", ["", "  ", "x " * 31, "a\0b", "a\x01b", "a\udce9b"])
def test_bad_lines_and_control_characters_use_strings(line: str) -> None:
    data = f"a b\n{line}\nc d\n".encode("utf-8", "surrogateescape")
    assert split_words(data, 30) is None
    assert split_words(b"x " * 30 + b"\n", 30) is not None


def test_bytes_are_split_as_strings() -> None:
    for code in {*range(1, 0x3001)} - {ord("\n")}:
        line = f"a{chr(code)}b c"
        found = split_words(line.encode() + b"\n", 30)
        if found is None:
            assert code < 32
        else:
            words, lengths = found
            assert words.strings(np.arange(lengths[0])) == line.split(), code
