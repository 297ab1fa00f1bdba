"""sacreBLEU of a corpus, whole and by the length of the source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU

from fairseq_ssl.scoring.bleu_metric import bleu_metric
from fairseq_ssl.scoring.buckets import Bucket

ORDER = 4
"""Words of the longest n-grams."""


@dataclass(frozen=True)
class Bleu:
    """A score in percent, and how sacreBLEU names the way it was made."""

    score: float
    signature: str


def bleu(translations: Sequence[str], references: Sequence[str], tokenizer: str = "13a") -> Bleu:
    """Score detokenised lines against one reference each."""
    metric = bleu_metric(tokenizer)
    score = metric.corpus_score(list(translations), [list(references)]).score
    return Bleu(float(score), str(metric.get_signature()))


def bleu_by_length(
    translations: Sequence[str],
    references: Sequence[str],
    lengths: Sequence[int],
    within: Sequence[Bucket],
    tokenizer: str = "13a",
) -> list[float | None]:
    """Score the lines of each bucket by themselves; None where there are none."""
    scores: list[float | None] = []
    for bucket in within:
        chosen = [i for i, length in enumerate(lengths) if length in bucket]
        some = [translations[i] for i in chosen], [references[i] for i in chosen]
        scores.append(bleu(*some, tokenizer).score if chosen else None)
    return scores


class BleuStatistics:
    """What adds up to the score of a corpus, sentence by sentence."""

    def __init__(self, tokenizer: str = "13a") -> None:
        self._metric = bleu_metric(tokenizer)

    def rows(
        self, translations: Sequence[str], references: Sequence[Sequence[str]]
    ) -> NDArray[np.float64]:
        """Return the statistics of each line, against references by annotator."""
        return np.array(
            self._metric._extract_corpus_statistics(
                list(translations), list(map(list, references))
            ),
            dtype=np.float64,
        )

    def score(self, totals: NDArray[np.float64]) -> float:
        """Return the score in percent of statistics that were added up."""
        return float(self._metric._compute_score_from_stats([int(n) for n in totals]).score)

    def sentence_score(self, row: NDArray[np.float64]) -> float:
        """Return the score of one sentence: n-grams longer than it is do not count."""
        ours, theirs, *grams = map(int, row)
        right, made = grams[:ORDER], grams[ORDER:]
        found = BLEU.compute_bleu(right, made, ours, theirs, "exp", effective_order=True)
        return float(found.score)

    def signature(self) -> str:
        """Return how sacreBLEU names the way; known after the first rows."""
        return str(self._metric.get_signature())
