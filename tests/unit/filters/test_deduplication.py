"""Deduplication compared with a Python set."""

from __future__ import annotations

import sys
from hashlib import blake2b

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fairseq_ssl.errors import MissingPackageError, UsageError
from fairseq_ssl.filters.deduplication import DuplicateFilter, HashSet, encode_line


def by_a_set(blocks: list[list[int]]) -> list[list[bool]]:
    """Return True for the first of each hash."""
    seen: set[int] = set()
    results: list[list[bool]] = []
    for block in blocks:
        results.append([])
        for number in block:
            results[-1].append(number not in seen)
            seen.add(number)
    return results


@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.integers(0, 120), max_size=20),
    st.integers(1, 4000),
    st.sampled_from([1, 2**52]),
)
def test_hashes_equal_a_set(seed: int, sizes: list[int], different: int, apart: int) -> None:
    draw = np.random.default_rng(seed)
    blocks = [draw.integers(0, different, size, dtype=np.uint64) * apart for size in sizes]
    hashes = HashSet()
    found = [hashes.add(block.astype(np.uint64)).tolist() for block in blocks]
    assert found == by_a_set([block.tolist() for block in blocks])


def test_arrays_of_hashes_are_few() -> None:
    """Their number grows with the logarithm of the number of hashes."""
    rng = np.random.default_rng(1)
    numbers = rng.integers(0, 2**64 - 1, 30_000, dtype=np.uint64)
    drawn = np.append(numbers[rng.integers(0, len(numbers), 100_000)], [0, 5, 0]).astype(np.uint64)
    hashes = HashSet()
    new = np.concatenate([hashes.add(part) for part in np.array_split(drawn, 700)])
    assert new.tolist() == by_a_set([drawn.tolist()])[0]
    lengths = list(map(len, hashes._arrays))
    assert sum(lengths) == len(np.unique(drawn))
    assert len(lengths) <= np.log(30_000) / np.log(8) + 1
    assert not hashes.add(drawn).any()


PAIRS = st.lists(st.tuples(*[st.text("abü\udcff", max_size=3)] * 2), max_size=30)


@given(PAIRS, st.sampled_from(["pair", "source", "target"]))
@example([("ab", "c"), ("a", "bc")], "pair")
def test_equal_rows_have_equal_keys(rows: list[tuple[str, str]], by: str) -> None:
    side = {"pair": slice(0, 2), "source": slice(0, 1), "target": slice(1, 2)}[by]
    texts = [row[side] for row in rows]
    keys = DuplicateFilter(2, by).keys([tuple(map(encode_line, row)) for row in rows])
    assert keys.shape == (len(rows), 1, 2)
    for half in (0, 1):
        halves = keys[:, 0, half].tolist()
        assert len(set(halves)) == len(set(texts)) == len(set(zip(halves, texts, strict=True)))


def test_keys_do_not_depend_on_the_process() -> None:
    """Other processes compare these keys. Values are those of b2sum -l 128."""
    digest = bytes.fromhex("cf4ab791c62b8d2b2109c90275287816")
    halves = [int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little")]
    assert DuplicateFilter(1).keys([(b"abc",)]).tolist() == [[halves]]


def test_a_row_is_new_if_all_its_keys_are() -> None:
    """A row that is dropped drops others. The second halves are not compared."""
    hashes = HashSet()
    first = [[1, 2], [3, 1], [4, 3], [5, 6]]
    keys = np.stack([first, np.zeros((4, 2))], axis=2).astype(np.uint64)
    assert hashes.add_rows(keys).tolist() == [True, False, False, True]
    assert hashes.add_rows(keys[2:] + np.uint64(2)).tolist() == [False, True]


NEAR = 0.7
LINES = [
    "a small cat sat on the old mat .",
    "",
    "x",
    "äöü \udcff",
    "日本語の短い文です。",
    "x" * 500,
]


def hash_ngram(codes: list[int]) -> int:
    """Return the hash of an n-gram before datasketch mixes its bits."""
    state = 0
    for code in codes:
        state = (state + code) * 0x9E3779B97F4A7C15 % 2**64
        state ^= state >> 32
    return state % 2**32


def ngrams(line: bytes) -> set[int]:
    """Return the hashes of the 4-grams of a line in lower case, without those in its padding."""
    codes = [10, *map(ord, line.decode("utf-8", "surrogateescape").lower()), 10, 10, 10]
    return {hash_ngram(codes[start : start + 4]) for start in range(len(codes) - 3)}


@given(st.lists(st.text("abÜ\udcff\U0001f600 \n", max_size=20), max_size=6))
@example(LINES)
def test_near_keys_are_bands_of_datasketch(lines: list[str]) -> None:
    datasketch = pytest.importorskip("datasketch")
    index = datasketch.MinHashLSH(threshold=NEAR, num_perm=128)
    encoded = list(map(encode_line, lines))
    keys = DuplicateFilter(1, near=NEAR).keys([(line,) for line in encoded])
    assert keys.shape == (len(lines), index.b, 2)
    for line, row in zip(encoded, keys, strict=True):
        sketch = datasketch.MinHash(128, seed=1, hashfunc=int, scheme="affine32")
        sketch.update_batch(ngrams(line))
        for band, (start, end) in enumerate(index.hashranges):
            data = np.array([band, *sketch.hashvalues[start:end]], "<u4").tobytes()
            assert row[band].astype("<u8").tobytes() == blake2b(data, digest_size=16).digest()


def test_near_keys_do_not_depend_on_versions() -> None:
    """The bands, the seed and the hash functions. Other values need another key file."""
    pytest.importorskip("datasketch")
    keys = DuplicateFilter(1, near=NEAR).keys([(encode_line(line),) for line in LINES])
    assert keys.shape == (6, 14, 2)
    assert blake2b(keys.astype("<u8").tobytes(), digest_size=8).hexdigest() == "4f1ae6cc0be47b76"
    shapes = [DuplicateFilter(1, near=near).keys([]).shape for near in (0.5, 0.6, 0.8, 0.98)]
    assert shapes == [(0, 25, 2), (0, 18, 2), (0, 9, 2), (0, 2, 2)]


def test_near_duplicates_are_dropped() -> None:
    pytest.importorskip("datasketch")
    text = "the council approved the budget for the next year on monday"
    lines = [text, f"{text.upper()} .", text.replace("monday", "friday"), f"other {text[20:50]}"]
    hashes = HashSet()
    keys = DuplicateFilter(2, "source", near=NEAR).keys([(line.encode(), b"") for line in lines])
    assert hashes.add_rows(keys).tolist() == [True, False, False, True]


@pytest.mark.parametrize("near", [-0.1, 0.99, float("nan")])
def test_near_is_a_similarity(near: float) -> None:
    with pytest.raises(UsageError, match=r"`near` is .*\. Expected 0 to 0\.98"):
        DuplicateFilter(1, near=near)


def test_near_needs_datasketch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasketch", None)
    with pytest.raises(MissingPackageError, match=r"fairseq-ssl\[scale\]"):
        DuplicateFilter(1, near=0.123)
