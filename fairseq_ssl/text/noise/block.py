"""What every noise takes and gives: lines of tokens laid end to end, and where tokens went."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.text.noise.draws import Draws

Tokens = NDArray[Any]
"""Words as objects, or numbers of some kind that stand for them."""
Same = Callable[[Tokens, Tokens], NDArray[Any]]
"""Tells of tokens side by side whether they are the same word."""


@dataclass(frozen=True)
class Block:
    """Lines of tokens, laid end to end."""

    tokens: Tokens
    lengths: NDArray[np.int64]

    @classmethod
    def of_words(cls, lines: Iterable[str]) -> Block:
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
class Noisy:
    """Lines after noise, and from which clean token each of their tokens comes."""

    block: Block
    origin: NDArray[np.int64]
    """For each noisy token the number of its clean one; -1 where a token was put in."""

    def touched(self, clean: Block, same: Same = np.equal) -> NDArray[np.bool_]:
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
        touched = np.ones(len(clean.tokens), dtype=np.bool_)
        touched[origin[kept]] = False
        return touched

    def then(self, noise: Noise, draws: Draws) -> Noisy:
        """Put another noise on top."""
        after = noise(self.block, draws)
        origin = np.where(after.origin >= 0, self.origin[after.origin], -1)
        return Noisy(after.block, origin)


class Noise(Protocol):
    """One kind of noise."""

    def __call__(self, clean: Block, draws: Draws) -> Noisy:
        """Return noisy lines, as many as the clean ones; random numbers come from `draws` alone.

        How often it draws does not depend on the lines, so that a line is noised as it would
        be alone.
        """


def untouched(clean: Block) -> Noisy:
    """Return the lines as they are."""
    return Noisy(clean, np.arange(len(clean.tokens)))


@dataclass(frozen=True)
class Chain:
    """One noise after another."""

    noises: Sequence[Noise]

    def __call__(self, clean: Block, draws: Draws) -> Noisy:
        """Apply each to what the one before left."""
        noisy = untouched(clean)
        for noise in self.noises:
            noisy = noisy.then(noise, draws)
        return noisy


def spare_one(block: Block, deleted: NDArray[np.bool_], draws: Draws) -> NDArray[np.bool_]:
    """Let no line lose all of its tokens: where it would, one at random stays."""
    chosen = one_of_each(block, draws)
    emptied = (block.lengths > 0) & (block.lengths_of(~deleted) == 0)
    deleted = deleted.copy()
    deleted[chosen[emptied]] = False
    return deleted


def one_of_each(block: Block, draws: Draws) -> NDArray[np.int64]:
    """Choose a token of each line, each as likely; an empty line gets one that is not its own."""
    chosen = (draws.lines() * block.lengths).astype(np.int64)
    return block.ends - block.lengths + chosen


def repeated(block: Block, times: NDArray[np.signedinteger[Any]]) -> Noisy:
    """Let each token come so many times: 0 deletes it, 2 leaves room for another after it."""
    origin = np.repeat(np.arange(len(block.tokens)), times)
    return Noisy(Block(block.tokens[origin], block.lengths_of(times)), origin)


def sorted_by_place(
    block: Block, shift: NDArray[np.float64], at: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Sort the tokens of each line by place + shift, where the shift is rounded to 2^-20.

    `at` names those to sort, all of some lines (default: all of all lines).
    """
    at = np.arange(len(block.tokens)) if at is None else at
    rounded = np.rint(shift * 2**20).astype(np.int64)
    farthest = 2 * int(np.abs(rounded).max(initial=0)) + 1
    width = farthest + (int(block.lengths.max(initial=0)) << 20)
    return at[np.argsort(block.line[at] * width + (block.place[at] << 20) + rounded, kind="stable")]
