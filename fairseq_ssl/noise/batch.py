"""Batches of tokenized lines as flat arrays, and reproducible random numbers for their tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
LINE_STREAM = np.uint64(2**32 - 1)
"""Position used instead of a token position for random numbers that are drawn once per line."""


class Random:
    """Generator of random numbers that do not depend on how lines are grouped into batches.

    Each line has a key. In call n, counted from 0, the token at `position` in its line gets the
    number mix(key + GOLDEN * (2^32 n + position)), as in the SplitMix64 generator (Steele, Lea and
    Flood, 2014) seeded with the key. A line therefore gets the same numbers in any batch.
    """

    def __init__(self, keys: NDArray[np.uint64]) -> None:
        self.keys = keys
        self.calls = 0

    @classmethod
    def of(cls, seeds: tuple[int, ...], lines: NDArray[np.int64] | int) -> Random:
        """Create a generator whose line keys are derived from the seeds and the line indices.

        `lines` is an array of line indices, or the number n of lines with the indices 0 to n - 1.
        """
        numbers = np.arange(lines) if isinstance(lines, int) else lines
        key = np.random.SeedSequence(seeds).generate_state(1, np.uint64)[0]
        return cls(_mix_bits(GOLDEN * (numbers.astype(np.uint64) + np.uint64(1)) + key))

    def tokens(self, block: TokenBatch, at: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        """Return one uniform random number in [0, 1) per token of a batch.

        `at` contains the indices of the tokens in the batch (default: all tokens).
        """
        # key + G (2^32 n + position) is start + G index for the token at `index` of the batch
        starts = (block.ends - block.lengths).astype(np.uint64)
        starts = self.keys + GOLDEN * (np.uint64(self.calls << 32) - starts)
        if at is None:
            state = np.arange(len(block.tokens), dtype=np.uint64)
            state *= GOLDEN
            state += np.repeat(starts, block.lengths)
        else:
            state = starts[block.line_of(at)] + GOLDEN * at.astype(np.uint64)
        self.calls += 1
        return _to_uniform(state)

    def lines(self) -> NDArray[np.float64]:
        """Return one uniform random number in [0, 1) per line, [lines]."""
        state = self.keys + np.atleast_1d(LINE_STREAM + np.uint64(self.calls << 32)) * GOLDEN
        self.calls += 1
        return _to_uniform(state)

    def normal(self, block: TokenBatch, at: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        """Return one standard normal number per token, or only for tokens at the indices `at`."""
        return _normal(self.tokens(block, at), self.tokens(block, at))

    def normal_lines(self) -> NDArray[np.float64]:
        """Return one standard normal number per line, [lines]."""
        return _normal(self.lines(), self.lines())


def _to_uniform(state: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Convert generator states to numbers in [0, 1). The states are overwritten."""
    mixed = _mix_bits(state)
    mixed >>= np.uint64(11)
    uniform = mixed.astype(np.float64)
    uniform *= 2.0**-53
    return uniform


def _normal(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """Map pairs of uniform numbers to standard normal numbers (Box and Muller, 1958).

    The computation uses float32 for speed.
    """
    radius: NDArray[np.float32] = np.sqrt(-2 * np.log((1 - first).astype(np.float32)))
    turned = radius * np.cos((2 * np.pi * second).astype(np.float32))
    return turned.astype(np.float64)


def _mix_bits(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Apply SplitMix64's output function to `state` in place, and return `state`."""
    state ^= state >> np.uint64(30)
    state *= np.uint64(0xBF58476D1CE4E5B9)
    state ^= state >> np.uint64(27)
    state *= np.uint64(0x94D049BB133111EB)
    state ^= state >> np.uint64(31)
    return state


Tokens = NDArray[Any]
"""Array of word ids, which are indices in a word table or hashes of subword ids."""
Same = Callable[[Tokens, Tokens], NDArray[Any]]
"""Function that compares two arrays of word ids elementwise. It returns True for equal words."""


@dataclass(frozen=True)
class TokenBatch:
    """Tokenized lines, concatenated into one array."""

    tokens: Tokens
    lengths: NDArray[np.int64]
    """Number of tokens in each line, [lines]."""

    @cached_property
    def ends(self) -> NDArray[np.int64]:
        """End index of each line in `tokens`, exclusive, [lines]."""
        return np.cumsum(self.lengths)

    @cached_property
    def line(self) -> NDArray[np.int64]:
        """Line index of each token, [tokens]."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    @cached_property
    def place(self) -> NDArray[np.int64]:
        """Position of each token in its line, starting at 0, [tokens]."""
        return np.arange(len(self.tokens)) - np.repeat(self.ends - self.lengths, self.lengths)

    def line_of(self, at: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the line index of each token in `at`, an array of token indices."""
        return np.searchsorted(self.ends, at, side="right")

    def lengths_of(
        self, kept: NDArray[np.bool_] | NDArray[np.signedinteger[Any]]
    ) -> NDArray[np.int64]:
        """Return the length of each line after repeating token i `kept[i]` times, [lines].

        `kept` can also be a mask of the tokens that remain.
        """
        up_to = np.zeros(len(kept) + 1, np.int64)
        np.cumsum(kept, out=up_to[1:])
        lengths: NDArray[np.int64] = up_to[self.ends] - up_to[self.ends - self.lengths]
        return lengths


@dataclass(frozen=True)
class NoisedBatch:
    """Noisy lines, with the index of the clean token for each noisy token."""

    block: TokenBatch
    origin: NDArray[np.int64]
    """Index of the clean token for each noisy token; -1 for an inserted token."""

    def changed(self, clean: TokenBatch, same: Same = np.equal) -> NDArray[np.bool_]:
        """Return a mask of the clean tokens that are deleted, replaced or moved, [clean tokens].

        A token is moved if its rank among the remaining clean tokens changes. The unchanged tokens
        therefore keep their order in the noisy line.
        """
        tokens, origin = self.block.tokens, self.origin
        if (origin < 0).any():
            left = np.flatnonzero(origin >= 0)
            tokens, origin = tokens.take(left), origin.take(left)
        kept = same(tokens, clean.tokens.take(origin)).astype(np.bool_)
        if (origin[1:] < origin[:-1]).any():
            present = np.zeros(len(clean.tokens), dtype=np.bool_)
            present[origin] = True
            kept &= np.flatnonzero(present) == origin
        changed = np.ones(len(clean.tokens), dtype=np.bool_)
        changed[origin.take(np.flatnonzero(kept))] = False
        return changed

    def then(self, noise: Noise, draws: Random) -> NoisedBatch:
        """Apply `noise` to the noisy lines. Origins still refer to the clean lines."""
        after = noise(self.block, draws)
        origin = np.where(after.origin >= 0, self.origin[after.origin], -1)
        return NoisedBatch(after.block, origin)


class Noise(Protocol):
    """Function that adds noise to a batch of lines."""

    def __call__(self, clean: TokenBatch, draws: Random) -> NoisedBatch:
        """Return one noisy line for each clean line.

        Implementations take all random numbers from `draws`. The number of calls must not depend
        on the lines, so that the noise of a line does not depend on the rest of the batch.
        """


def unchanged(clean: TokenBatch) -> NoisedBatch:
    """Return the clean lines as a `NoisedBatch` without noise."""
    return NoisedBatch(clean, np.arange(len(clean.tokens)))


@dataclass(frozen=True)
class NoiseChain:
    """A sequence of noises, each applied to the output of the previous one."""

    noises: Sequence[Noise]

    def __call__(self, clean: TokenBatch, draws: Random) -> NoisedBatch:
        """Apply all noises in order. The origins in the result refer to `clean`."""
        noisy = unchanged(clean)
        for noise in self.noises:
            noisy = noisy.then(noise, draws)
        return noisy


def keep_one_per_line(
    block: TokenBatch, deleted: NDArray[np.bool_], draws: Random
) -> NDArray[np.bool_]:
    """Return a copy of the mask `deleted` in which each nonempty line keeps at least one token.

    If all tokens of a line are deleted, a random token is kept.
    """
    chosen = choose_one_per_line(block, draws)
    emptied = (block.lengths > 0) & (block.lengths_of(~deleted) == 0)
    deleted = deleted.copy()
    deleted[chosen[emptied]] = False
    return deleted


def choose_one_per_line(block: TokenBatch, draws: Random) -> NDArray[np.int64]:
    """Return the index of one token per line, drawn from a uniform distribution, [lines].

    The index for an empty line is invalid, so callers have to exclude empty lines.
    """
    chosen = (draws.lines() * block.lengths).astype(np.int64)
    return block.ends - block.lengths + chosen


def repeated(block: TokenBatch, times: NDArray[np.signedinteger[Any]]) -> NoisedBatch:
    """Repeat token i `times[i]` times: 0 deletes it, 2 adds a copy, which callers replace."""
    origin = _repeated_indices(times)
    return NoisedBatch(TokenBatch(block.tokens.take(origin), block.lengths_of(times)), origin)


def _repeated_indices(times: NDArray[np.signedinteger[Any]]) -> NDArray[np.int64]:
    """Return each index i `times[i]` times, like `np.repeat` but faster if no value exceeds 2."""
    if times.max(initial=0) > 2:
        return np.repeat(np.arange(len(times)), times)
    copies = np.empty((len(times), 2), np.bool_)
    np.greater(times, 0, out=copies[:, 0])
    np.greater(times, 1, out=copies[:, 1])
    indices: NDArray[np.int64] = np.flatnonzero(copies)
    indices >>= 1
    return indices


def sort_by_position(
    block: TokenBatch, shift: NDArray[np.float64], at: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Return token indices, sorted by position + `shift` within each line.

    `at` contains the indices of the tokens to sort (default: all tokens). For each line, it must
    contain either all tokens or none. Shifts are rounded to multiples of 2^-20.
    """
    at = np.arange(len(block.tokens)) if at is None else at
    rounded = np.rint(shift * 2**20).astype(np.int64)
    farthest = 2 * int(np.abs(rounded).max(initial=0)) + 1
    width = farthest + (int(block.lengths.max(initial=0)) << 20)
    return at[np.argsort(block.line[at] * width + (block.place[at] << 20) + rounded, kind="stable")]
