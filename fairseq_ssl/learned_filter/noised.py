"""Noisy pairs to learn from: clean ones with one side deleted from, replaced in and shuffled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairseq_ssl.learned_filter.features import Measures
from fairseq_ssl.noise.batch import Random, TokenBatch
from fairseq_ssl.noise.tokens import FilteringNoise, Unigrams

Pair = tuple[str, str]


def noised(
    pairs: Sequence[Pair],
    measures: Measures,
    counts: Sequence[Mapping[str, int]],
    seed: int,
    copies: int = 1,
) -> list[Pair]:
    """Return so many noisy copies of each pair, of which chance chooses the side with noise.

    Args:
        pairs: clean ones
        measures: what cuts lines into words
        counts: of the words of both sides, by which words are drawn
        seed: of all that is random
        copies: of each pair
    """
    made: list[Pair] = []
    for copy in range(copies):
        sides = [
            _noised([pair[side] for pair in pairs], measures, counts[side], side, (seed, copy))
            for side in (0, 1)
        ]
        chosen = Random.of((seed, copy, 2), len(pairs)).lines() < 0.5
        made += [
            (source, pair[1]) if first else (pair[0], target)
            for pair, source, target, first in zip(pairs, *sides, chosen, strict=True)
        ]
    return made


def _noised(
    lines: Sequence[str],
    measures: Measures,
    counts: Mapping[str, int],
    side: int,
    seeds: tuple[int, ...],
) -> list[str]:
    """Return the lines of a side with noise, which nothing but the noise tells from clean ones.

    Where a line has spaces, what stands between them is deleted, replaced and moved; where it has
    none, its words are, and are put together again.
    """
    spaced = [" " in line.strip() for line in lines]
    words = [
        line if has else " ".join(measures.words(line, side))
        for line, has in zip(lines, spaced, strict=True)
    ]
    noise = FilteringNoise(Unigrams.of(counts))
    noisy = noise(
        TokenBatch.of_words(words), Random.of((*seeds, side), len(lines))
    ).block.to_lines()
    return [made if has else made.replace(" ", "") for has, made in zip(spaced, noisy, strict=True)]
