"""GLEU of corrected text (Napoles et al., 2015, as simplified in 2016: without tuning)."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Grams = list[Counter[tuple[str, ...]]]
"""How often each n-gram is in a sentence, by n from 1."""
GleuCounts = NDArray[np.float64]
"""Words of the output, words of the reference; then by n: n-grams right, n-grams there are."""

MAX_N = 4


@dataclass(frozen=True)
class Gleu:
    """Percentages."""

    score: float
    """The mean over samples of one reference for each sentence."""
    deviation: float
    """Of the samples."""
    by_reference: tuple[float, ...]
    """Against each file of references alone."""


def gleu(
    outputs: Sequence[str],
    sources: Sequence[str],
    references: Sequence[Sequence[str]],
    samples: int = 500,
) -> Gleu:
    """Score outputs, a tokenised sentence each.

    As BLEU, but an n-gram that the output has of the source, where the reference has it not, takes
    one that is right away. References are drawn as the authors' script draws them, so that its
    numbers come out.

    Args:
        outputs: what is scored
        sources: what it was made of
        references: by annotator, what it should be
        samples: how many times to draw a reference for each sentence, where there are several
    """
    return gleu_of_counts(gleu_counts(outputs, sources, references), samples)


def gleu_of_counts(counts: GleuCounts, samples: int = 500) -> Gleu:
    """Score sentences by their counts, [sentences, annotators, 10]."""
    lines, annotators = counts.shape[:2]
    alone = tuple(gleu_of(counts[:, annotator].sum(0)) for annotator in range(annotators))
    if annotators == 1:
        return Gleu(alone[0], 0.0, alone)
    every = np.arange(lines)
    scores = [
        gleu_of(counts[every, _draw(sample, lines, annotators)].sum(0)) for sample in range(samples)
    ]
    return Gleu(float(np.mean(scores)), float(np.std(scores)), alone)


def gleu_counts(
    outputs: Sequence[str], sources: Sequence[str], references: Sequence[Sequence[str]]
) -> GleuCounts:
    """Return the counts of each sentence against each annotator: [sentences, annotators, 10]."""
    counts = np.zeros((len(outputs), len(references), 2 + 2 * MAX_N))
    for number, (output, source) in enumerate(zip(outputs, sources, strict=True)):
        ours, before = _grams(output), _grams(source)
        for annotator, lines in enumerate(references):
            counts[number, annotator] = _match_counts(ours, before, _grams(lines[number]))
    return counts


def _draw(sample: int, lines: int, references: int) -> NDArray[np.int64]:
    """Draw a reference for each line, with the seed that the authors' script has for a sample."""
    draw = random.Random(101 * sample)
    return np.array([int(draw.random() * references) for _ in range(lines)])


def _grams(line: str) -> Grams:
    words = line.split()
    return [
        Counter(zip(*(words[start:] for start in range(n)), strict=False))
        for n in range(1, MAX_N + 1)
    ]


def _match_counts(output: Grams, source: Grams, reference: Grams) -> list[int]:
    """Return the counts of one sentence against one reference."""
    length = output[0].total()
    counts = [length, reference[0].total()]
    for n, (ours, before, wanted) in enumerate(zip(output, source, reference, strict=True)):
        right = (ours & wanted).total()
        kept = sum(min(ours[gram], before[gram]) for gram in before.keys() - wanted.keys())
        counts += [max(right - kept, 0), max(length - n, 0)]
    return counts


def gleu_of(counts: GleuCounts) -> float:
    """Return the score in percent of counts that were added up over a corpus."""
    if not counts.all():
        return 0.0
    length, wanted = counts[:2]
    precision = np.log(counts[2::2] / counts[3::2]).mean()
    return 100 * math.exp(min(0.0, 1 - wanted / length) + precision)
