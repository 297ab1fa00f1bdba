"""Files of row keys and of dropped rows, to deduplicate a corpus that is split into parts.

Three steps decide which rows to drop. The calls of a step can run in different processes or on
different machines:

1. `pack_keys` creates a part's key file, with its row keys and the duplicates within the part.
2. `pack_dropped` reads a range of keys from the key files of all parts, and creates a file with the
   rows that share a key with an earlier part. `plan_ranges` divides the keys into ranges that fit
   into memory.
3. `read_dropped` returns the dropped rows of a part.

A file contains little-endian integers: the number of groups, the record offset of each group and of
the end (8 bytes each), and the records, sorted by group. A key file contains `BUCKETS` groups of
keys with their rows, and one group of dropped rows. The first 12 bits of a key are the index of its
bucket. A key file contains each key once, so that a frequent line does not make its bucket large. A
file of dropped rows contains one group per part.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fairseq_ssl.errors import DataError
from fairseq_ssl.filters.deduplication import Hashes, Integers
from fairseq_ssl.io.text_files import open_bytes

BUCKETS = 2**12
SHIFT = np.uint64(64 - 12)
"""Right shift, in bits, that maps the first half of a key to its bucket index."""
MAX_KEYS = 8_000_000
"""Default maximum number of keys in a range."""
RECORD = np.dtype([("key", "<u8", 2), ("row", "<u4")])
MAX_ROWS = 2**32
WRITTEN = 2**18
"""Number of records written at a time."""


def pack_keys(keys: Hashes, rows: NDArray[np.int64]) -> Iterator[bytes]:
    """Yield the bytes of a part's key file.

    The function needs about 60 bytes of memory per key, including `keys`.

    Args:
        keys: result of `DuplicateFilter.keys`, [rows, keys, 2]
        rows: row indices in the part, in ascending order, [rows]
    """
    if len(rows) and rows[-1] >= MAX_ROWS:
        raise DataError(
            f"A part contains more than {MAX_ROWS:,} lines, the maximum. Use smaller parts."
        )
    flat, per_row = keys.reshape(-1, 2), keys.shape[1]
    order, is_repeated = _sort(flat)
    dropped = _distinct(rows[order[is_repeated] // per_row])
    order = order[~is_repeated]
    records = np.zeros(len(order) + len(dropped), RECORD)
    records["key"][: len(order)] = flat[order]
    records["row"] = np.append(rows[order // per_row], dropped)
    groups = records["key"][:, 0] >> SHIFT
    groups[len(order) :] = BUCKETS
    yield from _pack_groups(records, groups, BUCKETS + 1)


def plan_ranges(key_files: Sequence[Path], max_keys: int = MAX_KEYS) -> list[range]:
    """Divide the buckets into ranges with about `max_keys` keys or fewer in all files together.

    `pack_dropped` needs about 60 bytes of memory per key in its range.
    """
    keys = sum(path.stat().st_size for path in key_files) // RECORD.itemsize
    count = min(keys // max_keys + 1, BUCKETS)
    return [range(*pair) for pair in pairwise(BUCKETS * n // count for n in range(count + 1))]


def pack_dropped(key_files: Sequence[Path], buckets: range) -> Iterator[bytes]:
    """Yield the bytes of a file with the rows that share a key with an earlier part.

    Args:
        key_files: key files of all parts, in part order
        buckets: range of buckets, from `plan_ranges`
    """
    parts = [_read_groups(path, RECORD, buckets) for path in key_files]
    ends = np.cumsum([len(records) for records in parts])
    keys = np.concatenate([records["key"] for records in parts])
    rows = np.concatenate([records["row"] for records in parts])
    del parts
    order, is_repeated = _sort(keys)
    dropped = order[is_repeated]
    part_of = np.searchsorted(ends, dropped, side="right").astype(np.uint64)
    places = _distinct(part_of << np.uint64(32) | rows[dropped])
    yield from _pack_groups(places.astype("<u4"), places >> np.uint64(32), len(key_files))


def read_rows(key_file: Path) -> NDArray[np.int64]:
    """Return the row indices in a key file, in ascending order."""
    return _distinct(_read_groups(key_file, RECORD, range(BUCKETS + 1))["row"]).astype(np.int64)


def read_dropped(part: int, key_file: Path, dropped_files: Sequence[Path]) -> Integers:
    """Return the indices of the dropped rows of a part, in ascending order.

    Args:
        part: part index
        key_file: the part's key file, which lists the duplicates within the part
        dropped_files: files from `pack_dropped`, one for each range of buckets
    """
    in_part = _read_groups(key_file, RECORD, range(BUCKETS, BUCKETS + 1))["row"]
    others = (_read_groups(path, "<u4", range(part, part + 1)) for path in dropped_files)
    return _distinct(np.concatenate([in_part, *others]))


def _pack_groups(records: NDArray[Any], groups: Hashes, count: int) -> Iterator[bytes]:
    """Yield the bytes of a file. `groups` contains the sorted group indices of the records."""
    offsets = np.searchsorted(groups, np.arange(count + 1, dtype=np.uint64))
    yield np.array([count, *offsets], "<u8").tobytes()
    for start in range(0, len(records), WRITTEN):
        yield records[start : start + WRITTEN].tobytes()


def _read_groups(path: Path, kind: DTypeLike, groups: range) -> NDArray[Any]:
    """Return the records in a range of groups from a file."""
    kind, number = np.dtype(kind), np.dtype("<u8")
    with open_bytes(path, "") as file:
        [count] = _read(file, path, number, 1, 0).tolist()
        [total] = _read(file, path, number, 1, 8 * (1 + count)).tolist()
        if file.seek(0, os.SEEK_END) != 8 * (2 + count) + total * kind.itemsize:
            raise _damaged(path)
        start, *_, end = _read(file, path, number, len(groups) + 1, 8 * (1 + groups.start)).tolist()
        return _read(file, path, kind, end - start, 8 * (2 + count) + start * kind.itemsize)


def _read(
    file: IO[bytes], path: Path, kind: np.dtype[Any], count: int, position: int
) -> NDArray[Any]:
    """Read an array at a byte position of a file. Raise DataError if the file is too short."""
    if not 0 <= count * kind.itemsize <= file.seek(0, os.SEEK_END) - position:
        raise _damaged(path)
    file.seek(position)
    return np.frombuffer(file.read(count * kind.itemsize), kind)


def _sort(keys: Hashes) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return the indices that sort the keys, and a mask of sorted keys that equal the previous key.

    The sort is stable: of equal keys, all except the first one in the input are marked.
    """
    order = np.argsort(keys[:, 0], kind="stable")
    is_equal = _equals_previous(keys[order])
    if (is_equal[:, 0] & ~is_equal[:, 1]).any():  # rare, and three times as slow
        order = np.lexsort((keys[:, 1], keys[:, 0]))
        is_equal = _equals_previous(keys[order])
    return order, np.asarray(is_equal.all(axis=1))


def _equals_previous(keys: Hashes) -> NDArray[np.bool_]:
    """Return a mask of key halves that equal the same half of the previous key, [keys, 2]."""
    is_equal = np.zeros(keys.shape, np.bool_)
    np.equal(keys[1:], keys[:-1], out=is_equal[1:])
    return is_equal


def _distinct(numbers: NDArray[Any]) -> NDArray[Any]:
    """Return the sorted distinct numbers. `np.unique` in NumPy 2.4 takes ten times as long."""
    ordered = np.sort(numbers)
    is_new = np.ones(len(ordered), np.bool_)
    is_new[1:] = ordered[1:] != ordered[:-1]
    return np.extract(is_new, ordered)


def _damaged(path: Path) -> DataError:
    return DataError(f"{path} is damaged or truncated. Delete it, and run the job again.")
