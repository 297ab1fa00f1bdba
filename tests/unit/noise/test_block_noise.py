"""Noise for blocks of bytes: bad lines, and the results of bytes and of strings."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_ssl.errors import DataError
from fairseq_ssl.io.blocks import Block, Span
from fairseq_ssl.noise import NoiseResources, block_noise
from fairseq_ssl.noise.batch import Random
from fairseq_ssl.noise.block_noise import CorpusNoise, build_noise
from fairseq_ssl.noise.byte_words import split_words

COUNTS = {"a": 3, "the": 1, "naïve": 2, "…": 1}
WORDS = st.sampled_from(["a", "b", "the", "tha", "naïve", "…", "<mask>", "日本", "€"])
SPACES = st.sampled_from([" ", "  ", "\t", " \r", "\x0b", "\x1c", "\x01", "\u3000", "\u2003 "])
LINE = st.lists(st.tuples(WORDS, SPACES), min_size=1, max_size=9).map(
    lambda pairs: "".join(word + space for word, space in pairs)
)
LINES = st.lists(LINE, min_size=1, max_size=9)


CHAINS = (
    *("direct", "shuffle:mean=0.4", "negatives", "direct,shuffle", "characters:rate=0.2"),
    *("characters:rate=0.5:letters=aé", "direct,characters:rate=0.3,characters:rate=0.3,shuffle"),
)


def block_of(number: int, data: bytes) -> Block:
    return Block(Span((None,)), number, (0,), (data,))


def build(words: str) -> CorpusNoise:
    method = block_noise.parse_noise(words)
    loaded = NoiseResources().load(method, COUNTS)
    return CorpusNoise(build_noise(method, loaded), loaded["table"], 7)


@pytest.mark.parametrize("words", CHAINS)
@given(lines=LINES, newline=st.booleans())
def test_noise_of_bytes_equals_noise_of_strings(
    words: str, lines: list[str], newline: bool
) -> None:
    result = build(words)(block_of(3, ("\n".join(lines) + "\n" * newline).encode()))
    noise = build(words)
    clean = noise.table.start_lines(lines)
    noisy = noise.noise(clean, Random.of((7, 3), len(lines)))
    expected = noise.table.to_lines(noisy.block)
    assert result.outputs == ("".join(f"{line}\n" for line in expected).encode(),)
    changed = int(noisy.changed(clean, noise.table.words.same).sum())
    assert result.counts == Counter(lines=len(lines), tokens=len(clean.tokens), changed=changed)


@pytest.mark.parametrize("words", ["direct", "characters"])
def test_long_and_short_blocks_share_a_table(words: str) -> None:
    noise = build(words)
    for number, copies in enumerate((1, 4000, 2, 5000)):
        block = block_of(number, "the ab\tnaïve\n".encode() * copies)
        assert noise(block) == build(words)(block)


@pytest.mark.parametrize("wide", ["", "\u3000"])
def test_noisy_lines_have_no_other_line_ends(wide: str) -> None:
    """fairseq ends a line at CR."""
    noise = build("direct:keep=1:mask=0")
    block = block_of(0, f"the\ra{wide}\nb\r\nthe\n".encode())
    assert noise(block).outputs == (b"the a\nb\nthe\n",)


def test_noises_are_applied_in_order() -> None:
    words = "direct:mask=1:keep=0,negatives:delete=0:replace=1"
    chain = block_noise.parse_noise(words)
    assert [str(one) for one in chain] == [
        "direct:keep=0.0:mask=1.0",
        "negatives:delete=0.0:replace=1.0:distance=3.0",
    ]
    assert str(block_noise.parse_noise("direct")[0]) == "direct:keep=0.2:mask=0.3"
    assert b"<mask>" not in build(words)(block_of(0, b"a b c\n" * 9)).outputs[0]


def test_the_first_bad_line_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_noise, "MAX_TOKENS", 4)
    noise = build("characters:rate=0.5")
    lines = b"first line\nfour words of this\n"
    good = noise(block_of(2, lines))
    assert len(good.outputs[0].splitlines()) == 2
    with pytest.raises(DataError, match=r"stdin:2 contains 5 tokens\. The maximum is 4"):
        noise(block_of(0, b"any\na b c d e\n\n"))


@pytest.mark.parametrize("line", ["", "  ", "x " * 31, "a\0b", "a\udce9b"])
def test_bad_lines_are_rejected(line: str) -> None:
    data = f"a b\n{line}\nc d\n".encode("utf-8", "surrogateescape")
    assert split_words(data, 30) is None
    assert split_words(b"x " * 30 + b"\n", 30) is not None


def test_bytes_are_split_as_strings() -> None:
    for code in {*range(1, 0x3001)} - {ord("\n")}:
        line = f"a{chr(code)}b c"
        found = split_words(line.encode() + b"\n", 30)
        assert found is not None
        words, lengths = found
        assert words.strings(np.arange(lengths[0])) == line.split(), code
