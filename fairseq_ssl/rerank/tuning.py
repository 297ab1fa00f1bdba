"""Tuning of re-ranking weights on a validation set, and analysis of features."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from typing import Any

import numpy as np

from fairseq_ssl._version import __version__
from fairseq_ssl.errors import DataError, UsageError, nearest
from fairseq_ssl.io.jobs import ProgressFactory, silent_progress
from fairseq_ssl.metrics.bleu import SUM_METRICS, sum_metric
from fairseq_ssl.metrics.metric import TextSource, text_label, text_lines
from fairseq_ssl.options import check, option
from fairseq_ssl.rerank.candidates import (
    Candidates,
    CandidateStatistics,
    Weights,
    choices,
    equal_weights,
    named_weights,
    whole_weights,
)
from fairseq_ssl.rerank.nbest import NBest
from fairseq_ssl.rerank.weights import (
    FeatureValue,
    WeightSearch,
    check_weights,
    cross_validate,
    feature_values,
    score_bounds,
)
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.tokenization import moses_detokenizer, moses_option, subwords_option

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TuningConfig:
    """Options of `tune` and `analyze`: metric, text processing, features and cross-validation."""

    metric: str = option(
        "bleu", "corpus score to maximize, computed with sacreBLEU", choices=SUM_METRICS
    )
    tokenize: str = option(
        "13a",
        "sacreBLEU tokenizer for bleu, such as ja-mecab, zh or none",
        metavar="NAME",
    )
    subwords: str = subwords_option("none")
    moses: str | None = moses_option()
    features: tuple[str, ...] | None = option(
        None,
        "comma-separated names of the scores to combine",
        usual="all scores that every candidate has",
        parse=lambda words: tuple(words.split(",")),
        metavar="NAME,NAME,...",
    )
    folds: int = option(
        5,
        "number of cross-validation folds, 2 or more, for estimating the gain on unseen sentences; "
        "0 disables cross-validation",
        metavar="K",
    )

    def __post_init__(self) -> None:
        check(self)
        if self.folds < 0 or self.folds == 1:
            raise UsageError(f"`folds` is {self.folds}. Expected 0, or 2 or more.")
        if self.metric != "bleu" and self.tokenize != "13a":
            raise UsageError(
                f"`tokenize` needs the metric bleu, but the metric is {self.metric}. Remove "
                "`tokenize`, or set `metric` to bleu."
            )
        if self.features is not None and not self.features:
            raise UsageError("`features` is empty. Expected the name of at least one score.")


@dataclass(frozen=True)
class TuningData:
    """Scores of an n-best list, and metric counts of its candidates against references."""

    candidates: Candidates
    statistics: CandidateStatistics
    metric: str
    list_name: str
    reference_names: list[str]

    @classmethod
    def of(
        cls,
        nbest: NBest,
        references: Sequence[TextSource],
        config: TuningConfig,
        weights: Mapping[str, float] | None = None,
    ) -> TuningData:
        """Collect the scores of all candidates and compute their metric counts.

        Args:
            nbest: list whose candidates are scored
            references: one text per annotator, one sentence per line
            config: metric, text processing and features
            weights: weights by score name. The list must contain these names (default: no weights)
        """
        if not isinstance(nbest, NBest):
            raise TypeError(
                f"`nbest` has the type {type(nbest).__name__}. Expected NBest, as from NBest.read."
            )
        if not references:
            raise UsageError("`references` is empty. Expected at least one text.")
        sums = sum_metric(config.metric, config.tokenize)
        rewrite = moses_detokenizer(config.subwords, config.moses)
        names = _shared_features(nbest) if config.features is None else list(config.features)
        known = nbest.sentences[0].candidates[0].scores
        for name in names if weights is None else {**dict.fromkeys(names), **weights}:
            if name not in known:
                raise UsageError(
                    f"{nbest.name}:1 contains no score {name!r}.{nearest(name, known)} Available "
                    f"scores: {', '.join(known) or 'none'}."
                )
        labels = [text_label(text, f"reference {n}") for n, text in enumerate(references)]
        texts = [text_lines(*pair) for pair in zip(references, labels, strict=True)]
        for label, lines in zip(labels, texts, strict=True):
            if len(lines) != len(nbest.sentences):
                raise DataError(
                    f"{label} has {len(lines)} lines but {nbest.name} has {len(nbest.sentences)} "
                    "sentences. Expected one reference per sentence."
                )
        lists = [[candidate.scores for candidate in group.candidates] for group in nbest.sentences]
        candidates = Candidates.of(lists, list(dict.fromkeys(names)), nbest.name)
        outputs = [
            [rewrite(candidate.text) for candidate in group.candidates] for group in nbest.sentences
        ]
        statistics = CandidateStatistics.of(sums, outputs, texts)
        return cls(candidates, statistics, config.metric, nbest.name, labels)

    def score(self, weights: Weights) -> float:
        """Return the corpus score of the candidates that the weights select."""
        return self.statistics.score(choices(self.candidates, weights))

    def first_score(self) -> float:
        """Return the corpus score of the first candidate of each sentence."""
        return self.statistics.score(np.zeros(len(self.candidates.scores), np.intp))

    def parameters(self, search: WeightSearch) -> dict[str, Any]:
        """Describe the data, the search and the metric as parameters for a signature."""
        return {
            "list": self.list_name,
            "references": self.reference_names,
            "sentences": len(self.candidates.scores),
            "candidates": int(self.candidates.sizes.sum()),
            "features": ",".join(self.candidates.names),
            **search.parameters(),
            "metric": self.metric,
            "sacrebleu": self.statistics.metric.signature(),
        }


def _shared_features(nbest: NBest) -> list[str]:
    """Return the names of the scores that all candidates have. Log a warning for other scores.

    If no score is shared, return the score names of the first candidate.
    """
    scores = [candidate.scores for group in nbest.sentences for candidate in group.candidates]
    shared = nbest.features
    for name in dict.fromkeys(chain.from_iterable(scores)) if shared else ():
        if name not in shared:
            lines = [line for line, row in enumerate(scores, 1) if name not in row]
            logger.warning(
                f"score {name} is not used: {len(lines)} of {len(scores)} candidates lack it, the "
                f"first one in line {lines[0]}"
            )
    return shared or list(scores[0])


def _short_signature(method: str, parameters: Mapping[str, Any]) -> str:
    """Return the short form of a signature, without file names."""
    files = ("list", "references")
    named = {name: value for name, value in parameters.items() if name not in files}
    return str(Signature(method, named))


@dataclass(frozen=True)
class TunedWeights:
    """Tuned weights and their scores. `str` returns the short signature."""

    weights: dict[str, float]
    scores: dict[str, float]
    """Scores in percent and gains in percentage points on the tuning sentences, by name."""
    parameters: dict[str, Any] = field(default_factory=dict)

    def content(self) -> dict[str, Any]:
        """Return a JSON-serializable dictionary in the format that `read_weights` reads."""
        return {
            "method": "rerank-tune",
            "version": __version__,
            "weights": self.weights,
            "scores": {name: round(score, 4) for name, score in self.scores.items()},
            **self.parameters,
        }

    def __str__(self) -> str:
        return _short_signature("rerank-tune", self.parameters)


def tune(
    nbest: NBest,
    references: Sequence[TextSource],
    config: TuningConfig | None = None,
    *,
    search: WeightSearch | None = None,
    progress: ProgressFactory = silent_progress,
) -> TunedWeights:
    """Search for the weights that maximize the corpus score of the selected candidates.

    See Kiyono (2022), eq. 5.2.

    Args:
        nbest: n-best list of the validation set
        references: one text per annotator, one sentence per line
        config: metric, text processing, features and cross-validation
        search: search method (default: line search with 20 restarts)
        progress: creates the progress report of the evaluated points or starts

    Example:
        >>> nbest = NBest.parse(["0 ||| a cat ||| s= -1 t= -4", "0 ||| cat ||| s= -2 t= -1"])
        >>> tune(nbest, [["cat"]], TuningConfig("chrf", folds=0)).weights
        {'s': 1.0, 't': 1.0}
    """
    config, search = config or TuningConfig(), search or WeightSearch()
    data, folds = TuningData.of(nbest, references, config), config.folds
    candidates, statistics = data.candidates, data.statistics
    if len(candidates.scores) < folds:
        raise DataError(
            f"`folds` is {folds}, but the number of sentences is {len(candidates.scores)}. "
            "Expected at least one sentence per fold. Set `folds` to a smaller number."
        )
    done = progress("rerank tune", "trials")
    weights = search(candidates, statistics, done)
    first = data.first_score()
    scores = {
        "first candidates": first,
        "equal weights": data.score(equal_weights(candidates)),
        "these weights": data.score(weights),
        "gain": data.score(weights) - first,
    }
    if folds:
        unseen = cross_validate(search, candidates, statistics, folds, done)
        scores |= {"cross-validated": unseen, "cross-validated gain": unseen - first}
    parameters = {**data.parameters(search), "folds": int(folds)}
    return TunedWeights(named_weights(candidates.names, weights), scores, parameters)


@dataclass(frozen=True)
class FeatureAnalysis:
    """Scores of weights, oracles and single features. `str` returns the short signature."""

    scores: dict[str, float]
    """Corpus scores of first, random and oracle candidates and of weights, in percent, by name."""
    weights: dict[str, float]
    features: dict[str, FeatureValue]
    parameters: dict[str, Any] = field(default_factory=dict)

    def content(self) -> dict[str, Any]:
        """Return the result as a JSON-serializable dictionary."""
        return {
            "scores": self.scores,
            "weights": self.weights,
            "features": {name: asdict(feature) for name, feature in self.features.items()},
            "signature": str(self),
        }

    def table(self) -> Iterator[str]:
        """Yield lines: the corpus scores, a table of weights and ablations, and the signature."""
        for name, score in self.scores.items():
            yield f"{name}\t{score:.2f}"
        yield from ("", "feature\tweight\talone\twithout\tlost")
        full = self.scores["these weights"]
        for name, value in self.features.items():
            lost = None if value.without is None else full - value.without
            numbers = (value.alone, value.without, lost)
            cells = ["-" if number is None else f"{number:.2f}" for number in numbers]
            yield "\t".join([name, f"{self.weights[name]:.6g}", *cells])
        yield str(self)

    def __str__(self) -> str:
        return _short_signature("rerank-report", self.parameters)


def analyze(
    nbest: NBest,
    references: Sequence[TextSource],
    weights: Mapping[str, float],
    config: TuningConfig | None = None,
    *,
    search: WeightSearch | None = None,
    progress: ProgressFactory = silent_progress,
) -> FeatureAnalysis:
    """Compare the score of weights with oracle scores, and compute each feature's ablation scores.

    Args:
        nbest: n-best list of the validation set
        references: one text per annotator, one sentence per line
        weights: weights by score name, 0 or more, such as those of `tune`
        config: metric, text processing and features
        search: search method for the ablations (default: line search with 20 restarts)
        progress: creates the progress report of the evaluated points or starts

    Example:
        >>> nbest = NBest.parse(["0 ||| a cat ||| s= -1 t= -4", "0 ||| cat ||| s= -2 t= -1"])
        >>> analyze(nbest, [["cat"]], {"t": 1}, TuningConfig("chrf")).scores["best by corpus"]
        100.0
    """
    config, search = config or TuningConfig(), search or WeightSearch()
    data = TuningData.of(nbest, references, config, weights)
    candidates, statistics = data.candidates, data.statistics
    done = progress("rerank tune", "trials")
    named = dict.fromkeys(candidates.names, 0.0) | check_weights(weights)
    if unknown := [name for name in named if name not in candidates.names]:
        raise UsageError(
            f"`weights` contains weights above 0 for {', '.join(unknown)}, but the features are "
            f"{', '.join(candidates.names)}. Expected weights for features only."
        )
    chosen = whole_weights(named)
    bounds = score_bounds(candidates, statistics, search.seed)
    oracles = {name: bounds.pop(name) for name in ("best by sentence", "best by corpus")}
    scores = {
        **bounds,
        "equal weights": data.score(equal_weights(candidates)),
        "these weights": data.score(chosen),
        **oracles,
    }
    values = feature_values(search, candidates, statistics, done)
    parameters = {**data.parameters(search), "given_weights": dict(weights)}
    return FeatureAnalysis(scores, named, values, parameters)
