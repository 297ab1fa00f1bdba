"""Duplicates over parts, compared with a set of all earlier keys."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from fairseq_ssl.errors import DataError
from fairseq_ssl.filters.deduplication import DuplicateFilter, Hashes, HashSet
from fairseq_ssl.filters.key_files import (
    BUCKETS,
    pack_dropped,
    pack_keys,
    plan_ranges,
    read_dropped,
    read_rows,
)

ALPHABET = "abcdef "
RECORDS = 8 * (BUCKETS + 3)
"""Position of the records in a key file."""


def write_keys(path: Path, keys: Hashes, rows: NDArray[np.int64]) -> None:
    path.write_bytes(b"".join(pack_keys(keys, rows)))


def write_dropped(path: Path, key_files: Sequence[Path], buckets: range) -> None:
    path.write_bytes(b"".join(pack_dropped(key_files, buckets)))


def by_a_set(parts: list[Hashes]) -> list[list[int]]:
    """Return the rows of each part that have a key of an earlier row."""
    seen: set[tuple[int, int]] = set()
    dropped: list[list[int]] = []
    for keys in parts:
        rows = [set(map(tuple, row)) for row in keys.tolist()]
        dropped.append([])
        for index, row in enumerate(rows):
            if row & seen:
                dropped[-1].append(index)
            seen |= row
    return dropped


def dropped_rows(folder: Path, parts: list[Hashes], max_keys: int) -> list[list[int]]:
    """Return the dropped rows of each part. The index of a row is its double and one."""
    paths = [folder / f"keys-{part}" for part in range(len(parts))]
    for path, keys in zip(paths, parts, strict=True):
        write_keys(path, keys, np.arange(len(keys)) * 2 + 1)
        assert read_rows(path).tolist() == list(range(1, 2 * len(keys), 2))
    ranges = plan_ranges(paths, max_keys)
    assert list(itertools.chain(*ranges)) == list(range(BUCKETS))
    outputs = [folder / f"dropped-{index}" for index in range(len(ranges))]
    for output, buckets in zip(outputs, ranges, strict=True):
        write_dropped(output, paths, buckets)
    found = [read_dropped(part, path, outputs) for part, path in enumerate(paths)]
    assert all((rows % 2 == 1).all() for rows in found)
    return [(rows // 2).tolist() for rows in found]


@pytest.mark.parametrize("per_row", [1, 3])
@pytest.mark.parametrize("buckets", [2, 4096])
@pytest.mark.parametrize("max_keys", [1, 60, 10_000])
def test_dropped_rows_equal_those_of_a_set(
    tmp_path: Path, per_row: int, buckets: int, max_keys: int
) -> None:
    """Half of the keys differ only in their second half. Parts may be empty."""
    draw = np.random.default_rng(per_row + buckets)
    numbers = draw.integers(0, 2**64 - 1, (150, per_row, 2), dtype=np.uint64)
    numbers[:, :, 0] >>= np.uint64(12)
    numbers[:, :, 0] |= draw.integers(0, buckets, (150, per_row), dtype=np.uint64) << np.uint64(52)
    numbers[75:, :, 0] = numbers[:75, :, 0]
    parts = []
    for rows in (0, 40, 1, 0, 120, 90):
        drawn = draw.integers(0, 150, (rows, per_row))
        parts.append(numbers[drawn, np.arange(per_row)])
    expected = by_a_set(parts)
    assert 0 < len(expected[1]) < 40
    assert len(expected[-1]) > 0
    assert dropped_rows(tmp_path, parts, max_keys) == expected


@pytest.mark.parametrize("near", [0.0, 0.7])
def test_parts_of_text_equal_one_table(tmp_path: Path, near: float) -> None:
    """Dropped rows do not depend on the parts, and are those of the hashes in memory."""
    if near:
        pytest.importorskip("datasketch")
    draw = np.random.default_rng(1)
    texts = ["".join(draw.choice(list(ALPHABET), draw.integers(0, 9))) for _ in range(60)]
    texts += [f"{text}{text[-1:]}" * 3 for text in texts]
    rows = [(texts[index].encode(),) for index in draw.integers(0, 120, 200)]
    duplicates = DuplicateFilter(1, near=near)
    keys = duplicates.keys(rows)
    hashes = HashSet()
    new = np.concatenate([hashes.add_rows(part) for part in np.array_split(keys, 7)])
    for count in (1, 9):
        parts = np.array_split(keys, count)
        (tmp_path / str(count)).mkdir()
        dropped = dropped_rows(tmp_path / str(count), parts, 50)
        assert dropped == by_a_set(parts)
        starts = np.cumsum([0, *map(len, parts)])
        flat = [start + row for start, part in zip(starts, dropped, strict=False) for row in part]
        assert flat == np.flatnonzero(~new).tolist()


def test_a_frequent_key_is_stored_once_per_part(tmp_path: Path) -> None:
    keys = np.tile(np.array([7, 8], np.uint64), (5000, 1, 1))
    for part in range(3):
        write_keys(tmp_path / str(part), keys, np.arange(5000))
    paths = [tmp_path / str(part) for part in range(3)]
    assert [path.stat().st_size for path in paths] == [RECORDS + 20 * 5000] * 3
    write_dropped(tmp_path / "dropped", paths, range(BUCKETS))
    rows = [read_dropped(part, path, [tmp_path / "dropped"]) for part, path in enumerate(paths)]
    assert [len(part) for part in rows] == [4999, 5000, 5000]


def test_a_part_has_at_most_2_to_the_32_lines(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="more than 4,294,967,296 lines"):
        write_keys(tmp_path / "keys", np.zeros((1, 1, 2), np.uint64), np.array([2**32]))


def number(value: int) -> bytes:
    return value.to_bytes(8, "little")


def written(folder: Path) -> tuple[Path, Path]:
    """Return the key file of a part of eight rows, one of them dropped, and a decision on it."""
    keys = np.random.default_rng(0).integers(0, 2**64 - 1, (8, 1, 2), dtype=np.uint64)
    keys[5] = keys[2]
    write_keys(folder / "keys", keys, np.arange(8))
    write_dropped(folder / "dropped", [folder / "keys"] * 2, range(BUCKETS))
    return folder / "keys", folder / "dropped"


def read_all(path: Path) -> None:
    """Read the two halves of a key file."""
    for buckets in (range(BUCKETS // 2), range(BUCKETS // 2, BUCKETS)):
        write_dropped(path.with_name("x"), [path], buckets)


@pytest.mark.parametrize(
    ("position", "data"),
    [
        (0, number(BUCKETS + 2)),
        (0, number(2**64 - 1)),
        (8, number(2**63)),
        (8 * 2049, number(2**60)),
        (RECORDS - 16, number(2**63)),
        (0, b""),
        (8, b""),
        (RECORDS, b""),
        (RECORDS + 20 * 6, b""),
        (RECORDS + 20 * 6 + 3, b""),
    ],
)
def test_damaged_key_files(tmp_path: Path, position: int, data: bytes) -> None:
    """`data` replaces bytes of the file, or the file ends at the position."""
    path, _ = written(tmp_path)
    content = path.read_bytes()
    end = content[position + len(data) :] if data else b""
    path.write_bytes(content[:position] + data + end)
    with pytest.raises(DataError) as error:
        read_all(path)
    assert str(error.value) == f"{path} is damaged or truncated. Delete it, and run the job again."


@pytest.mark.parametrize(
    ("position", "data"),
    [
        (0, number(4)),
        (0, number(2**62)),
        (8 * 2, number(2**40)),
        (8 * 3, number(2**61)),
        (0, b""),
        (8 * 3, b""),
        (8 * 4 + 4, b""),
    ],
)
def test_damaged_files_of_dropped_rows(tmp_path: Path, position: int, data: bytes) -> None:
    keys, path = written(tmp_path)
    assert read_dropped(0, keys, [path]).tolist() == [5]
    assert read_dropped(1, keys, [path]).tolist() == list(range(8))
    content = path.read_bytes()
    end = content[position + len(data) :] if data else b""
    path.write_bytes(content[:position] + data + end)
    with pytest.raises(DataError) as error:
        read_dropped(1, keys, [path])
    assert str(error.value) == f"{path} is damaged or truncated. Delete it, and run the job again."


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    path, _ = written(tmp_path)
    write_dropped(tmp_path / "of one part", [path], range(BUCKETS))
    with pytest.raises(DataError, match="of one part is damaged"):
        read_dropped(1, path, [tmp_path / "of one part"])
    with pytest.raises(DataError, match="missing does not exist"):
        write_dropped(tmp_path / "x", [path, tmp_path / "missing"], range(BUCKETS))
