"""BLEU and chrF of a corpus, from counts of its sentences that add up: no text is scored twice.

The counts come from sacreBLEU's own metric, so any tokenizer and any number of references are as
there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.errors import import_optional
from fairseq_ssl.scoring.bleu_metric import bleu_metric

AIMS = ("bleu", "chrf", "chrf++")
"""What can be aimed at."""
Counts = NDArray[np.int64]
Values = NDArray[np.float64]
Lists = Sequence[Sequence[str]]


class Aim(Protocol):
    """A score of a corpus that follows from sums of counts."""

    def signature(self) -> str:
        """Return how sacreBLEU names the way a score is made."""

    def counts(self, lists: Lists, references: Lists) -> Iterable[list[list[int]]]:
        """Yield each sentence's counts, [candidates][counts].

        Args:
            lists: the texts of each sentence's candidates
            references: the files of references, a line a sentence each
        """

    def values(self, sums: Values | Counts) -> Values:
        """Return the corpus scores in percent, [...], of sums of counts, [..., counts]."""

    def exact(self, sums: Counts) -> float:
        """Return what sacreBLEU itself makes of one row of sums."""

    def by_sentence(self, counts: Counts) -> Values:
        """Return the scores of sentences alone, [...], of their counts, [..., counts]."""


class _OfMetric:
    """What the aims share: a metric of sacreBLEU's."""

    def __init__(self, metric: Any) -> None:
        self._metric = metric

    def __getstate__(self) -> dict[str, Any]:
        """Go to other processes without the metric: they only need the arithmetic."""
        return {**self.__dict__, "_metric": None}

    def signature(self) -> str:
        """Return how sacreBLEU names the way a score is made."""
        return str(self._metric.get_signature())

    def counts(self, lists: Lists, references: Lists) -> Iterable[list[list[int]]]:
        """Yield each sentence's counts, [candidates][counts]."""
        metric = self._metric
        known = metric._cache_references(references)
        for texts, reference in zip(lists, known, strict=True):
            yield [
                metric._compute_segment_statistics(metric._preprocess_segment(text), reference)
                for text in texts
            ]

    def exact(self, sums: Counts) -> float:
        """Return what sacreBLEU itself makes of one row of sums."""
        return float(self._metric._compute_score_from_stats(sums.tolist()).score)


class BleuAim(_OfMetric):
    """BLEU, smoothed as sacreBLEU does by default.

    Counts: length, length of the nearest reference, right n-grams by n, n-grams by n.
    """

    def __init__(self, tokenizer: str = "13a") -> None:
        super().__init__(bleu_metric(tokenizer))

    def values(self, sums: Values | Counts) -> Values:
        """Return corpus BLEU, [...], of sums of counts, [..., counts]."""
        return _bleu(np.asarray(sums, np.float64), effective_order=False)

    def by_sentence(self, counts: Counts) -> Values:
        """Return BLEU of sentences, n-grams as long as there are (sacreBLEU's effective order)."""
        return _bleu(counts.astype(np.float64), effective_order=True)


def _bleu(sums: Values, effective_order: bool) -> Values:
    """Return BLEU, [...]: an order without right n-grams counts 1/2, the next 1/4, and so on."""
    length, wanted = sums[..., 0], sums[..., 1]
    right, all_ = np.split(sums[..., 2:], 2, axis=-1)
    none = (right == 0) & (all_ > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        smoothed = np.where(none, np.exp2(-none.cumsum(-1)), right)
        logs = np.log(smoothed / all_)
        if effective_order:
            logs = np.where(all_ > 0, logs, 0).sum(-1) / (all_ > 0).sum(-1)
        else:
            logs = logs.mean(-1)
        scores = 100 * np.exp(np.minimum(0, 1 - wanted / length) + logs)
    possible = right.any(-1) & (effective_order | (all_ > 0).all(-1))
    return np.where(possible, scores, 0.0)


class ChrfAim(_OfMetric):
    """chrF2 of characters up to 6, with words up to so many; of several references the best.

    Counts, by order: n-grams of the candidate, of the reference, right ones.
    """

    def __init__(self, words: int = 0) -> None:
        metrics = import_optional("sacrebleu.metrics.chrf", "chrF", "fairseq")
        super().__init__(metrics.CHRF(word_order=words))
        self._weight = float(self._metric.beta**2)

    def values(self, sums: Values | Counts) -> Values:
        """Return corpus chrF, [...], of sums of counts, [..., counts]."""
        made, wanted, right = np.moveaxis(
            np.asarray(sums, np.float64).reshape(*sums.shape[:-1], -1, 3), -1, 0
        )
        both = (made > 0) & (wanted > 0)
        orders = np.maximum(both.sum(-1), 1)
        precision = np.divide(right, made, out=np.zeros_like(right), where=both).sum(-1) / orders
        recall = np.divide(right, wanted, out=np.zeros_like(right), where=both).sum(-1) / orders
        below = self._weight * precision + recall
        above = 100 * (1 + self._weight) * precision * recall
        return np.asarray(np.divide(above, below, out=np.zeros_like(above), where=below > 0))

    def by_sentence(self, counts: Counts) -> Values:
        """Return the scores of sentences alone."""
        return self.values(counts)


def aim_named(name: str, tokenizer: str = "13a") -> Aim:
    """Return an aim by its name; the tokenizer is BLEU's."""
    if name == "bleu":
        return BleuAim(tokenizer)
    return ChrfAim({"chrf": 0, "chrf++": 2}[name])
