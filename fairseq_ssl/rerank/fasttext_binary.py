"""The structure of a ``.bin`` file of fastText, checked before gensim reads it.

gensim reads a file that ends within a word forever, and allocates what the file claims to hold.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

import numpy as np

from fairseq_ssl.errors import DataError

MAGIC, VERSION = 793712314, 12
HEADER = struct.Struct("<14id")
"""Magic number, version, 12 settings and the sampling threshold."""
DIM, BUCKETS, MIN_N, MAX_N = 2, 10, 11, 12
"""Positions in the header: dimensions, buckets of n-grams, and the lengths of n-grams."""
VOCABULARY = struct.Struct("<3i2q")
"""Entries, words, labels, tokens and the size of the pruning index, -1 for none."""
COUNT = struct.Struct("<qb")
"""Behind each word: its count, and whether it is a label."""
MATRIX = struct.Struct("<?2q")
"""Whether it is quantized, rows and columns."""
MAX_GRAM = 100
CHUNK = 1 << 22


class _DamagedError(Exception):
    """A fault in the bytes of a file."""


def check_fasttext(path: Path) -> None:
    """Reject a file that is cut off, or whose sizes do not go together.

    Raises:
        DataError: if a file is not a whole, unquantized model of fastText
    """
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            _check(data)
    except (_DamagedError, ValueError, struct.error) as error:  # ValueError: an empty file
        reason = str(error) if isinstance(error, _DamagedError) else "it is truncated"
        raise DataError(f"{path} is not a complete fastText model: {reason}.") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None


def _check(data: mmap.mmap) -> None:
    header = HEADER.unpack_from(data)
    if header[:2] != (MAGIC, VERSION):
        raise _DamagedError("it has another format or version")
    grams = header[MIN_N], header[MAX_N]
    if not (0 <= grams[0] <= MAX_GRAM and 0 <= grams[1] <= MAX_GRAM and header[BUCKETS] >= 0):
        raise _DamagedError(f"it has n-grams of {grams[0]} to {grams[1]} letters")
    if grams[1] and not header[BUCKETS]:
        raise _DamagedError("it has n-grams and no buckets for them")
    entries, words, labels, _, pruned = VOCABULARY.unpack_from(data, HEADER.size)
    if labels or entries != words or entries < 1 or pruned > 0:
        raise _DamagedError("it is not a model of words, or it is pruned")
    end = _after_words(data, HEADER.size + VOCABULARY.size, entries)
    is_quantized, rows, columns = MATRIX.unpack_from(data, end)
    if is_quantized or (rows, columns) != (words + header[BUCKETS], header[DIM]):
        raise _DamagedError("its matrix is quantized or has another size than its settings say")
    start, count = end + MATRIX.size, rows * columns
    if count < 1 or start + 4 * count > len(data):
        raise _DamagedError("it is truncated")
    for first in range(0, count, CHUNK):
        some = min(CHUNK, count - first)
        values = np.frombuffer(data, "<f4", some, start + 4 * first)
        is_finite = bool(np.isfinite(values).all())
        del values  # or the file could not be closed
        if not is_finite:
            raise _DamagedError("it has infinite numbers")


def _after_words(data: mmap.mmap, start: int, entries: int) -> int:
    """Return where the vocabulary ends."""
    for _ in range(entries):
        end = data.find(b"\0", start)
        if end < 0:
            raise _DamagedError("it is truncated")
        start = end + 1 + COUNT.size
    return start
