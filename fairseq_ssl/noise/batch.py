"""A batch of tokenized lines laid end to end, and the random numbers of its tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
LINE_STREAM = np.uint64(2**32 - 1)
"""The place of what is drawn for a whole line."""


class Random:
    """Uniform numbers that do not depend on which lines stand side by side in a block.

    A line has a key; the n-th call gives its token at a place mix(key + G (2^32 n + place)):
    the SplitMix64 generator (Steele, Lea and Flood, 2014), started at the key. So a block of
    lines is drawn for at once, and gives each line what it would get alone.
    """

    def __init__(self, keys: NDArray[np.uint64]) -> None:
        self.keys = keys
        self.calls = 0

    @classmethod
    def of(cls, seeds: tuple[int, ...], lines: NDArray[np.int64] | int) -> Random:
        """Take the key of each line from all seeds and its number; an integer: 0, 1, ... of it."""
        numbers = np.arange(lines) if isinstance(lines, int) else lines
        key = np.random.SeedSequence(seeds).generate_state(1, np.uint64)[0]
        return cls(_mixed(GOLDEN * (numbers.astype(np.uint64) + np.uint64(1)) + key))

    def tokens(self, block: TokenBatch, at: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        """Return a number in [0, 1) for each token, or for those `at` these indices alone."""
        line, place = block.line, block.place
        if at is not None:
            line, place = line[at], place[at]
        return self._uniform(self.keys[line], place.astype(np.uint64))

    def lines(self) -> NDArray[np.float64]:
        """Return a number in [0, 1) for each line."""
        return self._uniform(self.keys, LINE_STREAM)

    def normal(self, block: TokenBatch, at: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
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


Tokens = NDArray[Any]
"""Words as objects, or numbers of some kind that stand for them."""
Same = Callable[[Tokens, Tokens], NDArray[Any]]
"""Tells of tokens side by side whether they are the same word."""


@dataclass(frozen=True)
class TokenBatch:
    """Lines of tokens, laid end to end."""

    tokens: Tokens
    lengths: NDArray[np.int64]

    @classmethod
    def of_words(cls, lines: Iterable[str]) -> TokenBatch:
        """Cut each line at its whitespace."""
        cut = list(map(str.split, lines))
        lengths = np.fromiter(map(len, cut), np.int64, len(cut))
        tokens = np.empty(int(lengths.sum()), dtype=object)
        tokens[:] = list(chain.from_iterable(cut))
        return cls(tokens, lengths)

    def to_lines(self) -> list[str]:
        """Join the words of each line with spaces."""
        words, ends = self.tokens.tolist(), self.ends.tolist()
        return [
            " ".join(words[end - n : end])
            for n, end in zip(self.lengths.tolist(), ends, strict=True)
        ]

    @cached_property
    def ends(self) -> NDArray[np.int64]:
        """Where each line ends."""
        return np.cumsum(self.lengths)

    @cached_property
    def line(self) -> NDArray[np.int64]:
        """The line of each token."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    @cached_property
    def place(self) -> NDArray[np.int64]:
        """The place of each token in its line, from 0."""
        return np.arange(len(self.tokens)) - np.repeat(self.ends - self.lengths, self.lengths)

    def lengths_of(
        self, kept: NDArray[np.bool_] | NDArray[np.signedinteger[Any]]
    ) -> NDArray[np.int64]:
        """Return how long each line is when its tokens come so many times."""
        up_to = np.concatenate([[0], np.cumsum(kept, dtype=np.int64)])
        lengths: NDArray[np.int64] = up_to[self.ends] - up_to[self.ends - self.lengths]
        return lengths


@dataclass(frozen=True)
class NoisedBatch:
    """Lines after noise, and from which clean token each of their tokens comes."""

    block: TokenBatch
    origin: NDArray[np.int64]
    """For each noisy token the number of its clean one; -1 where a token was put in."""

    def changed(self, clean: TokenBatch, same: Same = np.equal) -> NDArray[np.bool_]:
        """Tell of each clean token whether it is gone, another, or out of its place.

        It is out of its place where, of those that are left of its line, it is not the same
        n-th as before. Untouched tokens so stand in the noisy line in their order.
        """
        left = np.flatnonzero(self.origin >= 0)
        origin = self.origin[left]
        kept = same(self.block.tokens[left], clean.tokens[origin]).astype(np.bool_)
        if (origin[1:] < origin[:-1]).any():
            present = np.zeros(len(clean.tokens), dtype=np.bool_)
            present[origin] = True
            kept &= np.flatnonzero(present) == origin
        changed = np.ones(len(clean.tokens), dtype=np.bool_)
        changed[origin[kept]] = False
        return changed

    def then(self, noise: Noise, draws: Random) -> NoisedBatch:
        """Put another noise on top."""
        after = noise(self.block, draws)
        origin = np.where(after.origin >= 0, self.origin[after.origin], -1)
        return NoisedBatch(after.block, origin)


class Noise(Protocol):
    """One kind of noise."""

    def __call__(self, clean: TokenBatch, draws: Random) -> NoisedBatch:
        """Return noisy lines, as many as the clean ones; random numbers come from `draws` alone.

        How often it draws does not depend on the lines, so that a line is noised as it would
        be alone.
        """


def unchanged(clean: TokenBatch) -> NoisedBatch:
    """Return the lines as they are."""
    return NoisedBatch(clean, np.arange(len(clean.tokens)))


@dataclass(frozen=True)
class NoiseChain:
    """One noise after another."""

    noises: Sequence[Noise]

    def __call__(self, clean: TokenBatch, draws: Random) -> NoisedBatch:
        """Apply each to what the one before left."""
        noisy = unchanged(clean)
        for noise in self.noises:
            noisy = noisy.then(noise, draws)
        return noisy


def keep_one_per_line(
    block: TokenBatch, deleted: NDArray[np.bool_], draws: Random
) -> NDArray[np.bool_]:
    """Let no line lose all of its tokens: where it would, one at random stays."""
    chosen = choose_one_per_line(block, draws)
    emptied = (block.lengths > 0) & (block.lengths_of(~deleted) == 0)
    deleted = deleted.copy()
    deleted[chosen[emptied]] = False
    return deleted


def choose_one_per_line(block: TokenBatch, draws: Random) -> NDArray[np.int64]:
    """Choose a token of each line, each as likely; an empty line gets one that is not its own."""
    chosen = (draws.lines() * block.lengths).astype(np.int64)
    return block.ends - block.lengths + chosen


def repeated(block: TokenBatch, times: NDArray[np.signedinteger[Any]]) -> NoisedBatch:
    """Let each token come so many times: 0 deletes it, 2 leaves room for another after it."""
    origin = np.repeat(np.arange(len(block.tokens)), times)
    return NoisedBatch(TokenBatch(block.tokens[origin], block.lengths_of(times)), origin)


def sort_by_position(
    block: TokenBatch, shift: NDArray[np.float64], at: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Sort the tokens of each line by place + shift, where the shift is rounded to 2^-20.

    `at` names those to sort, all of some lines (default: all of all lines).
    """
    at = np.arange(len(block.tokens)) if at is None else at
    rounded = np.rint(shift * 2**20).astype(np.int64)
    farthest = 2 * int(np.abs(rounded).max(initial=0)) + 1
    width = farthest + (int(block.lengths.max(initial=0)) << 20)
    return at[np.argsort(block.line[at] * width + (block.place[at] << 20) + rounded, kind="stable")]
