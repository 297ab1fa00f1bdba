"""sacreBLEU's BLEU and chrF: of a corpus, by length, and as sums over sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.errors import UsageError, import_optional, nearest
from fairseq_ssl.text.tokenization import LineRewriter


@dataclass(frozen=True)
class Bucket:
    """The numbers from `first` to `last`, both included."""

    first: int
    last: int | None
    """None: no end."""

    def __contains__(self, number: int) -> bool:
        return self.first <= number and (self.last is None or number <= self.last)

    def __str__(self) -> str:
        """Return ``11-20``, or ``71-`` for the last."""
        return f"{self.first}-{'' if self.last is None else self.last}"


def buckets(ends: Sequence[int]) -> list[Bucket]:
    """Return the buckets 1 to the first end, and so on; the last goes on without end."""
    starts = [1, *(end + 1 for end in ends)]
    return [Bucket(start, end) for start, end in zip(starts, [*ends, None], strict=True)]


def bleu_metric(tokenizer: str = "13a") -> Any:
    """Return sacreBLEU's metric; it takes text as it is, tokenised or not."""
    metrics = import_optional("sacrebleu.metrics.bleu", "BLEU", "fairseq")
    if tokenizer not in metrics.BLEU.TOKENIZERS:
        known = list(metrics.BLEU.TOKENIZERS)
        raise UsageError(
            f"sacreBLEU has no tokenizer {tokenizer!r}.{nearest(tokenizer, known)} Expected "
            f"one of {', '.join(known)}."
        )
    try:
        return metrics.BLEU(tokenize=tokenizer, force=True)
    except (ImportError, RuntimeError, OSError) as error:  # MeCab, or a model to download
        told = " ".join(str(error).split())
        raise UsageError(f"sacreBLEU's tokenizer {tokenizer} can not start: {told}") from None


def bleu_words(tokenizer: str) -> LineRewriter:
    """Return what puts spaces between words as BLEU tells them apart; `none` lets a line be."""
    if tokenizer == "none":
        return str
    cut = bleu_metric(tokenizer).tokenizer
    return lambda line: str(cut(line.rstrip()))


@dataclass(frozen=True)
class BleuResult:
    """A score in percent, and how sacreBLEU names the way it was made."""

    score: float
    signature: str


def bleu(
    translations: Sequence[str], references: Sequence[str], tokenizer: str = "13a"
) -> BleuResult:
    """Score detokenised lines against one reference each."""
    metric = bleu_metric(tokenizer)
    score = metric.corpus_score(list(translations), [list(references)]).score
    return BleuResult(float(score), str(metric.get_signature()))


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


SUM_METRICS = ("bleu", "chrf", "chrf++")
"""What can be aimed at."""
SentenceSums = NDArray[np.int64]
ScoreArray = NDArray[np.float64]
Lists = Sequence[Sequence[str]]


class SumMetric(Protocol):
    """A score of a corpus that follows from sums of counts."""

    def signature(self) -> str:
        """Return how sacreBLEU names the way a score is made."""

    def counts(self, lists: Lists, references: Lists) -> Iterable[list[list[int]]]:
        """Yield each sentence's counts, [candidates][counts].

        Args:
            lists: the texts of each sentence's candidates
            references: the files of references, a line a sentence each
        """

    def values(self, sums: ScoreArray | SentenceSums) -> ScoreArray:
        """Return the corpus scores in percent, [...], of sums of counts, [..., counts]."""

    def exact(self, sums: SentenceSums) -> float:
        """Return what sacreBLEU itself makes of one row of sums."""

    def by_sentence(self, counts: SentenceSums) -> ScoreArray:
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

    def exact(self, sums: SentenceSums) -> float:
        """Return what sacreBLEU itself makes of one row of sums."""
        return float(self._metric._compute_score_from_stats(sums.tolist()).score)


class BleuSums(_OfMetric):
    """BLEU, smoothed as sacreBLEU does by default.

    Counts: length, length of the nearest reference, right n-grams by n, n-grams by n.
    """

    def __init__(self, tokenizer: str = "13a") -> None:
        super().__init__(bleu_metric(tokenizer))

    def values(self, sums: ScoreArray | SentenceSums) -> ScoreArray:
        """Return corpus BLEU, [...], of sums of counts, [..., counts]."""
        return _bleu(np.asarray(sums, np.float64), effective_order=False)

    def by_sentence(self, counts: SentenceSums) -> ScoreArray:
        """Return BLEU of sentences, n-grams as long as there are (sacreBLEU's effective order)."""
        return _bleu(counts.astype(np.float64), effective_order=True)


def _bleu(sums: ScoreArray, effective_order: bool) -> ScoreArray:
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


class ChrfSums(_OfMetric):
    """chrF2 of characters up to 6, with words up to so many; of several references the best.

    Counts, by order: n-grams of the candidate, of the reference, right ones.
    """

    def __init__(self, words: int = 0) -> None:
        metrics = import_optional("sacrebleu.metrics.chrf", "chrF", "fairseq")
        super().__init__(metrics.CHRF(word_order=words))
        self._weight = float(self._metric.beta**2)

    def values(self, sums: ScoreArray | SentenceSums) -> ScoreArray:
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

    def by_sentence(self, counts: SentenceSums) -> ScoreArray:
        """Return the scores of sentences alone."""
        return self.values(counts)


def sum_metric(name: str, tokenizer: str = "13a") -> SumMetric:
    """Return an aim by its name; the tokenizer is BLEU's."""
    if name == "bleu":
        return BleuSums(tokenizer)
    return ChrfSums({"chrf": 0, "chrf++": 2}[name])
