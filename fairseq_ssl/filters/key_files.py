"""Files of row keys and of dropped rows, for duplicates in a corpus of many parts.

Three steps decide which rows to drop. The calls of a step can run in different processes or on
different machines:

1. `pack_keys` returns the keys of a part, and the rows that are duplicates within the part.
2. `pack_dropped` reads a range of keys from the files of all parts, and returns the rows that have
   a key of an earlier part. `plan_ranges` divides the keys into ranges that fit into memory.
3. `read_dropped` returns the dropped rows of a part.

The files contain little-endian integers: rows of 4 bytes, other numbers of 8 bytes. A key file has
`KEYS_MAGIC`, the offsets of `BUCKETS` and of the end, the number of dropped rows, the keys with
their rows, sorted by key, and the dropped rows. The first 12 bits of a key are its bucket. A key is
in a file once, so that a frequent line does not make its bucket large. A file of dropped rows has
`ROWS_MAGIC`, the number of parts, the offsets of the parts and of the end, and the rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairseq_ssl.errors import DataError
from fairseq_ssl.filters.deduplication import Hashes, Integers
from fairseq_ssl.io.text_files import open_bytes

BUCKETS = 2**12
SHIFT = np.uint64(64 - 12)
"""Number of bits to shift the first half of a key for its bucket."""
MAX_KEYS = 8_000_000
"""Default max number of keys in a range."""
KEYS_MAGIC = int.from_bytes(b"SSLkeys1", "little")
ROWS_MAGIC = int.from_bytes(b"SSLrows1", "little")
RECORD = np.dtype([("key", "<u8", 2), ("row", "<u4")])
RECORDS = 8 * (BUCKETS + 3)
"""Position of the records in a key file, in bytes."""
MAX_ROWS = 2**32
WRITTEN = 2**18
"""Number of records written at a time."""


def pack_keys(keys: Hashes, rows: NDArray[np.int64]) -> Iterator[bytes]:
    """Yield the bytes of the key file of a part.

    This needs about 50 bytes of memory per key, `keys` included.

    Args:
        keys: result of `DuplicateFilter.keys`, [rows, keys, 2]
        rows: index of each row in the part, ascending
    """
    if len(rows) and rows[-1] >= MAX_ROWS:
        raise DataError(f"A part has more than {MAX_ROWS:,} lines. Split it.")
    flat, per_row = keys.reshape(-1, 2), keys.shape[1]
    order, is_repeated = _sort(flat)
    dropped = _distinct(rows[order[is_repeated] // per_row])
    order = order[~is_repeated]
    offsets = np.searchsorted(flat[order, 0] >> SHIFT, np.arange(BUCKETS + 1, dtype=np.uint64))
    yield _pack([KEYS_MAGIC, *offsets.tolist(), len(dropped)], "<u8")
    for start in range(0, len(order), WRITTEN):
        part = order[start : start + WRITTEN]
        records = np.empty(len(part), RECORD)
        records["key"], records["row"] = flat[part], rows[part // per_row]
        yield records.tobytes()
    yield _pack(dropped, "<u4")


def plan_ranges(paths: Sequence[Path], max_keys: int = MAX_KEYS) -> list[range]:
    """Divide the buckets into ranges. Read only the tables of the key files.

    `pack_dropped` needs about 45 bytes of memory per key of its range.

    Args:
        paths: key files of all parts
        max_keys: max number of keys in all files per range, unless a single bucket has more
    """
    counts = np.zeros(BUCKETS, np.int64)
    for path in paths:
        with open_bytes(path, "") as file:
            counts += np.diff(_read_offsets(file, path, range(BUCKETS)))
    ranges, start, total = [], 0, 0
    for bucket, count in enumerate(counts.tolist()):
        if total + count > max_keys and bucket > start:
            ranges.append(range(start, bucket))
            start, total = bucket, 0
        total += count
    return [*ranges, range(start, BUCKETS)]


def pack_dropped(key_files: Sequence[Path], buckets: range) -> bytes:
    """Return the bytes of the file of the rows that have a key of an earlier part.

    Args:
        key_files: key files of all parts, in the order of the parts
        buckets: an item of `plan_ranges`
    """
    parts = [_read_records(part, buckets) for part in key_files]
    ends = np.cumsum([len(records) for records in parts])
    keys = np.concatenate([records["key"] for records in parts])
    rows = np.concatenate([records["row"] for records in parts])
    del parts
    order, is_repeated = _sort(keys)
    dropped = order[is_repeated]
    part_of = np.searchsorted(ends, dropped, side="right").astype(np.uint64)
    places = _distinct(part_of << np.uint64(32) | rows[dropped])
    offsets = np.searchsorted(
        places >> np.uint64(32), np.arange(len(key_files) + 1, dtype=np.uint64)
    )
    head = _pack([ROWS_MAGIC, len(key_files), *offsets.tolist()], "<u8")
    return head + _pack(places & np.uint64(MAX_ROWS - 1), "<u4")


def read_rows(key_file: Path) -> NDArray[np.int64]:
    """Return the rows of a key file, ascending."""
    with open_bytes(key_file, "") as file:
        keys, count = _read_counts(file, key_file)
        found = [_read(file, key_file, "<u4", count, RECORDS + RECORD.itemsize * keys)]
        for start in range(0, keys, WRITTEN):
            size, position = min(WRITTEN, keys - start), RECORDS + RECORD.itemsize * start
            found.append(_read(file, key_file, RECORD, size, position)["row"].copy())
    return _distinct(np.concatenate(found)).astype(np.int64)


def read_dropped(part: int, key_file: Path, dropped_files: Sequence[Path]) -> Integers:
    """Return the dropped rows of a part, ascending.

    Args:
        part: index of the part
        key_file: key file of the part
        dropped_files: results of `pack_dropped` for all ranges
    """
    with open_bytes(key_file, "") as file:
        keys, count = _read_counts(file, key_file)
        found = [_read(file, key_file, "<u4", count, RECORDS + RECORD.itemsize * keys)]
    for path in dropped_files:
        with open_bytes(path, "") as file:
            magic, parts = _read(file, path, "<u8", 2, 0).tolist()
            first = 8 * (3 + parts)
            [count] = _read(file, path, "<u8", 1, first - 8).tolist()
            size = file.seek(0, os.SEEK_END)
            if magic != ROWS_MAGIC or part >= parts or size != first + 4 * count:
                raise _damaged(path)
            start, end = _read(file, path, "<u8", 2, 8 * (2 + part)).tolist()
            found.append(_read(file, path, "<u4", end - start, first + 4 * start))
    return _distinct(np.concatenate(found))


def _read_records(path: Path, buckets: range) -> NDArray[Any]:
    """Return the records of a range of buckets of a key file."""
    with open_bytes(path, "") as file:
        start, *_, end = _read_offsets(file, path, buckets).tolist()
        records = _read(file, path, RECORD, end - start, RECORDS + start * RECORD.itemsize)
    found = records["key"][:, 0] >> SHIFT
    if len(found) and (found.min() < buckets.start or found.max() >= buckets.stop):
        raise _damaged(path)
    return records


def _read_offsets(file: IO[bytes], path: Path, buckets: range) -> NDArray[np.int64]:
    """Return the offsets of buckets of a key file and of their end."""
    _read_counts(file, path)
    offsets = _read(file, path, "<u8", len(buckets) + 1, 8 * (1 + buckets.start))
    if (offsets[1:] < offsets[:-1]).any():
        raise _damaged(path)
    return offsets.astype(np.int64)


def _read_counts(file: IO[bytes], path: Path) -> tuple[int, int]:
    """Return the numbers of keys and of dropped rows of a key file. Check the size of the file."""
    [magic] = _read(file, path, "<u8", 1, 0).tolist()
    keys, dropped = _read(file, path, "<u8", 2, RECORDS - 16).tolist()
    size = RECORDS + RECORD.itemsize * keys + 4 * dropped
    if magic != KEYS_MAGIC or file.seek(0, os.SEEK_END) != size:
        raise _damaged(path)
    return keys, dropped


def _read(file: IO[bytes], path: Path, kind: Any, count: int, position: int) -> NDArray[Any]:
    """Return an array that begins at a position of a file. Raise DataError if it is not there."""
    kind = np.dtype(kind)
    if not 0 <= count * kind.itemsize <= file.seek(0, os.SEEK_END) - position:
        raise _damaged(path)
    file.seek(position)
    return np.frombuffer(file.read(count * kind.itemsize), kind)


def _sort(keys: Hashes) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the order of the keys, and which of them, in this order, are equal to an earlier key.

    Only keys with equal first halves, which are few, are compared by their second halves.
    """
    order = np.argsort(keys[:, 0])
    ranked = keys[order, 0]
    is_equal = ranked[1:] == ranked[:-1]
    del ranked
    places = np.flatnonzero(np.append(is_equal, False) | np.append(False, is_equal))
    some = order[places]
    some = some[np.lexsort((some, keys[some, 1], keys[some, 0]))]
    order[places] = some
    is_repeated = np.zeros(len(keys), np.bool_)
    is_repeated[places[1:]] = (keys[some[1:]] == keys[some[:-1]]).all(axis=1)
    return order, is_repeated


def _distinct(numbers: NDArray[Any]) -> NDArray[Any]:
    """Return the distinct numbers, ascending. `np.unique` of NumPy 2.4 takes ten times as long."""
    ordered = np.sort(numbers)
    is_new = np.ones(len(ordered), np.bool_)
    is_new[1:] = ordered[1:] != ordered[:-1]
    return np.extract(is_new, ordered)


def _pack(numbers: ArrayLike, kind: str) -> bytes:
    return np.asarray(numbers).astype(kind).tobytes()


def _damaged(path: Path) -> DataError:
    return DataError(f"{path} is damaged or truncated. Delete it, and run the job again.")
