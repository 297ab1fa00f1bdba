"""Random numbers for lines of tokens, each a function of its line's key and its place alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from fairseq_ssl.text.noise.block import Block

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
OF_THE_LINE = np.uint64(2**32 - 1)
"""The place of what is drawn for a whole line."""


class Draws:
    """Uniform numbers that do not depend on which lines stand side by side in a block.

    A line has a key; the n-th call gives its token at a place mix(key + G (2^32 n + place)):
    the SplitMix64 generator (Steele, Lea and Flood, 2014), started at the key. So a block of
    lines is drawn for at once, and gives each line what it would get alone.
    """

    def __init__(self, keys: NDArray[np.uint64]) -> None:
        self.keys = keys
        self.calls = 0

    @classmethod
    def of(cls, seeds: tuple[int, ...], lines: NDArray[np.int64] | int) -> Draws:
        """Take the key of each line from all seeds and its number; an integer: 0, 1, ... of it."""
        numbers = np.arange(lines) if isinstance(lines, int) else lines
        key = np.random.SeedSequence(seeds).generate_state(1, np.uint64)[0]
        return cls(_mixed(GOLDEN * (numbers.astype(np.uint64) + np.uint64(1)) + key))

    def tokens(self, block: Block, at: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        """Return a number in [0, 1) for each token, or for those `at` these indices alone."""
        line, place = block.line, block.place
        if at is not None:
            line, place = line[at], place[at]
        return self._uniform(self.keys[line], place.astype(np.uint64))

    def lines(self) -> NDArray[np.float64]:
        """Return a number in [0, 1) for each line."""
        return self._uniform(self.keys, OF_THE_LINE)

    def normal(self, block: Block, at: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        """Return a standard normal number for each token."""
        return _normal(self.tokens(block, at), self.tokens(block, at))

    def normal_lines(self) -> NDArray[np.float64]:
        """Return a standard normal number for each line."""
        return _normal(self.lines(), self.lines())

    def _uniform(
        self, key: NDArray[np.uint64], place: NDArray[np.uint64] | np.uint64
    ) -> NDArray[np.float64]:
        counter = np.atleast_1d(place + np.uint64(self.calls << 32)) * GOLDEN
        self.calls += 1
        return (_mixed(key + counter) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _normal(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """Turn two uniform numbers into a normal one (Box and Muller, 1958), of 24 bits for speed."""
    radius: NDArray[np.float32] = np.sqrt(-2 * np.log((1 - one).astype(np.float32)))
    turned = radius * np.cos((2 * np.pi * other).astype(np.float32))
    return turned.astype(np.float64)


def _mixed(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Turn states into random bits; works in place."""
    state ^= state >> np.uint64(30)
    state *= np.uint64(0xBF58476D1CE4E5B9)
    state ^= state >> np.uint64(27)
    state *= np.uint64(0x94D049BB133111EB)
    state ^= state >> np.uint64(31)
    return state
