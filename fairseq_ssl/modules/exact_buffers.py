"""Numbers beside the weights of a model that half precision would spoil."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn


class ExactBuffers(nn.Module):
    """A module whose own buffers go wherever it goes, and keep their type.

    ``half()`` would round large numbers and lose small ones in them. As integers they would be
    safe too, but a moving average of the weights, fairseq's --store-ema, stops at those.
    """

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        before = dict(self._buffers)
        moved = super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, kept in before.items():
            now = self._buffers[name]
            if kept is not None and now is not None and now.dtype != kept.dtype:
                self._buffers[name] = kept.to(now.device)
        return moved
