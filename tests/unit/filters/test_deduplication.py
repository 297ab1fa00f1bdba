"""Deduplication compared with a Python set, also when the table is full."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from fairseq_ssl.filters.deduplication import (
    MIN_MEMORY,
    BoundedHashSet,
    DuplicateFilter,
    memory_for,
)


def by_a_set(blocks: list[list[int]], most: int) -> list[list[bool]]:
    """Return True for each new hash, with a set that stops growing when it is full."""
    seen: set[int] = set()
    results: list[list[bool]] = []
    for block in blocks:
        results.append([])
        for number in block:
            results[-1].append(number not in seen)
            if len(seen) < most:
                seen.add(number)
    return results


@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.integers(0, 120), max_size=8),
    st.integers(1, 400),
    st.sampled_from([1, 128, 128 * 7919]),
    st.sampled_from([16, 128, MIN_MEMORY]),
)
def test_table_equals_a_set(
    seed: int, sizes: list[int], different: int, apart: int, start: int
) -> None:
    """Also when it grows or is full, and for hashes that collide in the last slot of 128."""
    draw = np.random.default_rng(seed)
    blocks = [draw.integers(0, different, size, dtype=np.uint64) * apart + 127 for size in sizes]
    table = BoundedHashSet(MIN_MEMORY, start)
    assert table.max_count == int(0.8 * MIN_MEMORY / 8) == 102
    found = [table.add(block.astype(np.uint64)).tolist() for block in blocks]
    numbers = [block.tolist() for block in blocks]
    assert found == by_a_set(numbers, 102)
    assert table.count == min(102, len({number for block in numbers for number in block}))


def test_many_hashes_in_a_table_of_min_size() -> None:
    rng = np.random.default_rng(1)
    numbers = rng.integers(0, 2**64 - 1, 30_000, dtype=np.uint64)
    drawn = np.append(numbers[rng.integers(0, len(numbers), 100_000)], [0, 5, 0]).astype(np.uint64)
    different = len(np.unique(drawn))
    table = BoundedHashSet(memory_for(different))
    assert table.max_count - different in (0, 1, 2)
    new = np.concatenate([table.add(part) for part in np.array_split(drawn, 70)])
    assert new.tolist() == by_a_set([drawn.tolist()], different)[0]
    assert table.count == different
    assert not table.add(drawn).any()


def test_a_large_table_grows() -> None:
    """The table has more hashes than are moved at a time, and at its end room for all."""
    numbers = np.random.default_rng(1).integers(1, 2**64 - 1, 150_000, dtype=np.uint64)
    table = BoundedHashSet(memory_for(150_000), 2**15)
    for part in np.array_split(numbers, 70):
        assert table.add(part).all()
    assert not table.add(numbers).any()
    assert table.count == 150_000


PAIRS = st.lists(st.tuples(*[st.text("abü\udcff", max_size=3)] * 2), max_size=30)


@given(PAIRS, st.sampled_from(["pair", "source", "target"]))
@example([("ab", "c"), ("a", "bc")], "pair")
def test_equal_rows_have_equal_hashes(rows: list[tuple[str, str]], by: str) -> None:
    side = {"pair": slice(0, 2), "source": slice(0, 1), "target": slice(1, 2)}[by]
    keys = [row[side] for row in rows]
    hashes = DuplicateFilter(2, by).score(rows)
    assert len(set(hashes)) == len(set(keys)) == len(set(zip(hashes, keys, strict=True)))


def test_hashes_do_not_depend_on_the_process() -> None:
    """A resumed run compares with hashes of an earlier run. Values are those of b2sum -l 64."""
    assert DuplicateFilter(1).score([("abc",)]) == [
        int.from_bytes(bytes.fromhex("d8bb14d833d59559"), "little")
    ]
