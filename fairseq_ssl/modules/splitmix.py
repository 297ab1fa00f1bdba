"""Numbers made random by SplitMix64's mixer (Steele, Lea and Flood, 2014), on any device.

`text.noise.draws` does the same with numpy, which has unsigned integers; torch has none, so its
signed ones wrap around.
"""

from __future__ import annotations

from torch import Tensor

_FACTORS = (0xBF58476D1CE4E5B9 - (1 << 64), 0x94D049BB133111EB - (1 << 64))


def mixed(bits: Tensor) -> Tensor:
    """Spread each bit of integers over all of theirs."""
    for shift, factor in zip((30, 27), _FACTORS, strict=True):
        bits = (bits ^ shifted_right(bits, shift)) * factor
    return bits ^ shifted_right(bits, 31)


def shifted_right(bits: Tensor, count: int) -> Tensor:
    """Shift integers to the right, zeros coming in."""
    return (bits >> count) & ((1 << (64 - count)) - 1)
