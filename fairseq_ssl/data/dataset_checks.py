"""Checks of fairseq's binarised data when it is opened.

fairseq trusts the index of a data set: a damaged one gives other sentences without a word, or a
traceback amid an epoch.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_ssl.errors import DataError

CHUNK = 1 << 22
"""Entries of an index that are checked at once."""


def check_datasets() -> None:
    """Let fairseq reject a damaged index, and close one that it could not open in silence."""
    from fairseq.data.indexed_dataset import MMapIndexedDataset

    index = MMapIndexedDataset.Index
    if not getattr(index, "is_checked", False):
        index.__init__ = _checked(index.__init__)
        for kind in (index, MMapIndexedDataset):
            kind.__del__ = _quiet(kind.__del__)
        index.is_checked = True


def _checked(stock: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(stock)
    def init(self: Any, path: str) -> None:
        try:
            stock(self, path)
            is_whole = _is_whole(self, Path(path).with_suffix(".bin").stat().st_size)
        except OSError:
            raise
        except Exception:  # struct, numpy and asserts, on whatever bytes there are
            is_whole = False
        if not is_whole:
            raise DataError(f"{path} is damaged, or not of its .bin file. Binarise the data again.")

    return init


def _is_whole(index: Any, size: int) -> bool:
    """Return True if the sentences stand one after the other and fill a file of `size` bytes."""
    sizes, starts, width = index._sizes, index._pointers, np.dtype(index._dtype).itemsize
    end = 0
    for first in range(0, len(sizes), CHUNK):
        lengths = sizes[first : first + CHUNK].astype(np.int64) * width
        ends = end + np.cumsum(lengths)
        if (lengths < 0).any() or (starts[first : first + CHUNK] != ends - lengths).any():
            return False
        end = int(ends[-1])
    return end == size


def _quiet(stock: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(stock)
    def close(self: Any) -> None:
        with contextlib.suppress(AttributeError):  # of what was never opened
            stock(self)

    return close
