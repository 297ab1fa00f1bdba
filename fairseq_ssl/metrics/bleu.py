"""BLEU and chrF, computed with sacreBLEU from texts or from summed sentence statistics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.errors import UsageError, check_choice, check_integer, import_optional, nearest
from fairseq_ssl.metrics.metric import HYPOTHESES, ReferenceMetric, SentenceStatistics, TextSource
from fairseq_ssl.text.tokenization import LineRewriter


def bleu_metric(tokenizer: str = "13a") -> Any:
    """Return sacreBLEU's BLEU metric, without the warning for tokenized text.

    Raise UsageError if the tokenizer is unknown or cannot be created.
    """
    metrics = import_optional("sacrebleu.metrics.bleu", "BLEU")
    if tokenizer not in metrics.BLEU.TOKENIZERS:
        known = list(metrics.BLEU.TOKENIZERS)
        raise UsageError(
            f"sacreBLEU has no tokenizer {tokenizer!r}.{nearest(tokenizer, known)} Expected "
            f"one of {', '.join(known)}."
        )
    try:
        return metrics.BLEU(tokenize=tokenizer, force=True)
    except (ImportError, RuntimeError, OSError) as error:  # MeCab is missing, or a download failed
        what = f"tokenizer {tokenizer} cannot be created ({' '.join(str(error).split())})"
        raise UsageError(f"sacreBLEU's {what}. Choose a different tokenizer.") from None


def bleu_words(tokenizer: str) -> LineRewriter:
    """Return a function that tokenizes lines as in sacreBLEU. For ``none``, lines are unchanged."""
    if tokenizer == "none":
        return str
    tokenize = bleu_metric(tokenizer).tokenizer
    return lambda line: str(tokenize(line.rstrip()))


SUM_METRICS = ("bleu", "chrf", "chrf++")
"""Metrics that re-ranking can maximize, because summed statistics determine their scores."""
SentenceSums = NDArray[np.int64]
ScoreArray = NDArray[np.float64]
Lists = Sequence[Sequence[str]]


class SumMetric(ABC):
    """SacreBLEU corpus metric, computed from summed sentence counts.

    `pickle` and `copy` store only the constructor's argument, because sacreBLEU's metric cannot be
    pickled.
    """

    def __init__(self, metric: Any, option: str | int) -> None:
        self._metric, self._option = metric, option

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._option,)

    def signature(self) -> str:
        """Return sacreBLEU's signature for the metric."""
        if not hasattr(self._metric, "num_refs"):  # nothing has been scored
            self._metric.num_refs = 1
        return str(self._metric.get_signature())

    def counts(self, lists: Lists, references: Lists) -> Iterable[list[list[int]]]:
        """Yield sacreBLEU's segment statistics for each sentence, [candidates][counts].

        Args:
            lists: candidates for each sentence
            references: one list of references per annotator
        """
        metric = self._metric
        for texts, reference in zip(lists, metric._cache_references(references), strict=True):
            yield [
                metric._compute_segment_statistics(metric._preprocess_segment(text), reference)
                for text in texts
            ]

    def exact(self, sums: SentenceSums) -> float:
        """Compute the corpus score with sacreBLEU's own code, from summed counts [counts]."""
        return float(self._metric._compute_score_from_stats(sums.tolist()).score)

    @abstractmethod
    def values(self, sums: ScoreArray | SentenceSums) -> ScoreArray:
        """Map summed counts [..., counts] to corpus scores in percent [...]."""

    @abstractmethod
    def by_sentence(self, counts: SentenceSums) -> ScoreArray:
        """Map counts [..., counts] to sentence scores in percent [...]."""


class BleuSums(SumMetric):
    """BLEU with sacreBLEU's default smoothing (exp).

    Counts: hypothesis length, length of the closest reference, correct n-grams for n = 1 to 4, and
    total n-grams for n = 1 to 4.
    """

    def __init__(self, tokenizer: str = "13a") -> None:
        super().__init__(bleu_metric(tokenizer), tokenizer)

    def values(self, sums: ScoreArray | SentenceSums) -> ScoreArray:
        """Map summed counts [..., counts] to corpus BLEU [...]."""
        return _bleu(np.asarray(sums, np.float64), effective_order=False)

    def by_sentence(self, counts: SentenceSums) -> ScoreArray:
        """Map counts [..., counts] to sentence BLEU [...], with ``effective_order``."""
        return _bleu(counts.astype(np.float64), effective_order=True)


def _bleu(sums: ScoreArray, effective_order: bool) -> ScoreArray:
    """Compute BLEU in percent. Successive zero counts of correct n-grams become 1/2, 1/4, ..."""
    length, reference_length = sums[..., 0], sums[..., 1]
    correct, total = np.split(sums[..., 2:], 2, axis=-1)
    missing = (correct == 0) & (total > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        smoothed = np.where(missing, np.exp2(-missing.cumsum(-1)), correct)
        logs = np.log(smoothed / total)
        if effective_order:
            logs = np.where(total > 0, logs, 0).sum(-1) / (total > 0).sum(-1)
        else:
            logs = logs.mean(-1)
        scores = 100 * np.exp(np.minimum(0, 1 - reference_length / length) + logs)
    possible = correct.any(-1) & (effective_order | (total > 0).all(-1))
    return np.where(possible, scores, 0.0)


class ChrfSums(SumMetric):
    """chrF2 with character n-grams up to order 6 and word n-grams up to order `word_order`.

    Counts for each n: n-grams in the hypothesis, n-grams in the best reference, and matches.
    """

    def __init__(self, word_order: int = 0) -> None:
        metrics = import_optional("sacrebleu.metrics.chrf", "chrF")
        super().__init__(metrics.CHRF(word_order=word_order), word_order)
        self._weight = float(self._metric.beta**2)

    def values(self, sums: ScoreArray | SentenceSums) -> ScoreArray:
        """Map summed counts [..., counts] to corpus chrF [...]."""
        candidate, reference, shared = np.moveaxis(
            np.asarray(sums, np.float64).reshape(*sums.shape[:-1], -1, 3), -1, 0
        )
        both = (candidate > 0) & (reference > 0)
        orders = np.maximum(both.sum(-1), 1)
        precisions = np.divide(shared, candidate, out=np.zeros_like(shared), where=both)
        recalls = np.divide(shared, reference, out=np.zeros_like(shared), where=both)
        precision, recall = precisions.sum(-1) / orders, recalls.sum(-1) / orders
        below = self._weight * precision + recall
        above = 100 * (1 + self._weight) * precision * recall
        return np.asarray(np.divide(above, below, out=np.zeros_like(above), where=below > 0))

    def by_sentence(self, counts: SentenceSums) -> ScoreArray:
        """Map counts [..., counts] to sentence chrF [...]."""
        return self.values(counts)


def sum_metric(name: str, tokenizer: str = "13a") -> SumMetric:
    """Create a metric by its name in `SUM_METRICS`. `tokenizer` is used for BLEU only."""
    check_choice("metric", name, SUM_METRICS)
    if name == "bleu":
        return BleuSums(tokenizer)
    return ChrfSums({"chrf": 0, "chrf++": 2}[name])


class SacreBleuMetric(ReferenceMetric):
    """Base class of metrics that are computed with sacreBLEU."""

    def __init__(self, sums: SumMetric, references: Sequence[TextSource] | None) -> None:
        super().__init__(references)
        self._sums = sums

    def statistics(self, hypotheses: Sequence[str], label: str = HYPOTHESES) -> SentenceStatistics:
        """Return sacreBLEU's segment statistics for each hypothesis, [sentences, counts]."""
        self.check_references(hypotheses, label)
        counts = self._sums.counts([[line] for line in hypotheses], self.references)
        return np.array([row for (row,) in counts], np.float64)

    def values(self, rows: SentenceStatistics) -> dict[str, float]:
        """Return the corpus score, keyed by the metric name."""
        return {self.name: self._sums.exact(rows.sum(0).astype(np.int64))}

    def sentence_values(self, row: SentenceStatistics) -> dict[str, float]:
        """Return the sentence score, keyed by the metric name. BLEU uses ``effective_order``."""
        return {self.name: float(self._sums.by_sentence(row.astype(np.int64)))}

    def _sacrebleu_parameters(self) -> dict[str, str]:
        """Parse sacreBLEU's signature into a dict."""
        pairs = (pair.partition(":") for pair in self._sums.signature().split("|"))
        return {key: value for key, _, value in pairs}


class Bleu(SacreBleuMetric):
    """BLEU, computed with sacreBLEU.

    Args:
        references: one text per annotator (default: passed to each call)
        tokenize: name of a sacreBLEU tokenizer

    Example:
        >>> print(Bleu().corpus_score(["the cat sat on the mat"], [["the cat sat on a mat"]]))
        BLEU = 53.73
        >>> Bleu().sentence_score("the cat sat", ["the cat sat"]).score
        100.0
    """

    method = "bleu"
    name = "BLEU"

    def __init__(
        self, references: Sequence[TextSource] | None = None, tokenize: str = "13a"
    ) -> None:
        super().__init__(BleuSums(tokenize), references)
        self.tokenize = tokenize

    def parameters(self) -> dict[str, Any]:
        """Return the signature's parameters: references, tokenizer and sacreBLEU version."""
        by = f"sacrebleu-{self._sacrebleu_parameters()['version']}"
        return {**super().parameters(), "tokenize": self.tokenize, "by": by}


class Chrf(SacreBleuMetric):
    """chrF2 or chrF2++ (Popovic, 2015, 2017), computed with sacreBLEU.

    Args:
        references: one text per annotator (default: passed to each call)
        word_order: maximum order of word n-grams, 0 for chrF or 2 for chrF++

    Example:
        >>> print(Chrf(word_order=2).corpus_score(["the cat sat"], [["the cat sat"]]))
        chrF2++ = 100.00
    """

    def __init__(self, references: Sequence[TextSource] | None = None, word_order: int = 0) -> None:
        check_integer("word_order", word_order, 0)
        super().__init__(ChrfSums(word_order), references)
        self.method = f"chrf{'+' * word_order}"
        self.name = f"chrF2{'+' * word_order}"

    def parameters(self) -> dict[str, Any]:
        """Return the signature's parameters: references and sacreBLEU's parameters."""
        parameters = self._sacrebleu_parameters()
        version = parameters.pop("version")
        parameters.pop("nrefs", None)
        return {**super().parameters(), **parameters, "by": f"sacrebleu-{version}"}
