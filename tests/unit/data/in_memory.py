"""An in-memory replacement of a binarized dataset."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray


class Rows(list[torch.Tensor]):
    """Sentences as ids, with their lengths."""

    def __init__(self, rows: Iterable[Sequence[int]]) -> None:
        super().__init__(torch.tensor(row) for row in rows)
        self.sizes: NDArray[np.int32] = np.array([len(row) for row in self], np.int32)
