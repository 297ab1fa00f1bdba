"""What ``fairseq-ssl report`` measures by itself: scores of systems, seeds and sentences."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from fairseq_ssl.cli import score_edits, score_metrics
from fairseq_ssl.cli.score import METRICS
from fairseq_ssl.errors import UsageError
from fairseq_ssl.metrics.significance import paired_bootstrap
from fairseq_ssl.report.score_files import Difference, ReportedScore, ScoreComparison, named
from fairseq_ssl.report.sentences import read_all
from fairseq_ssl.report.tables import score_table
from fairseq_ssl.signature import Signature

if TYPE_CHECKING:
    from fairseq_ssl.cli.score_metrics import Metric, Output
    from fairseq_ssl.report.score_files import ReportFiles
    from fairseq_ssl.report.sentences import Sentences

Counted = Mapping[str, list["Output"]]
"""By system, its seeds."""


def measured(
    args: argparse.Namespace, found: ReportFiles, sentences: Sentences, of_set: str
) -> None:
    """Score each seed, and each sentence of the first, and compare systems.

    Scores that files tell of all systems are not told again.
    """
    kind = sentences.metric
    metric = _metric(args, kind)
    counted = {
        name: [metric.count(str(path), read_all(path)) for path in paths]
        for name, paths in found.systems(of_set).items()
    }
    sentences.scores = [
        [round(metric.sentence_score(row), 2) for row in seeds[0].rows]
        for seeds in counted.values()
    ]
    signature = Signature(kind, {"lines": len(sentences.outputs[0]), **metric.parameters()})
    sentences.metric = named(metric.headline, str(signature))
    if not score_table(found.scores).has(of_set, sentences.metric, counted):
        found.scores += _scores(metric, counted, of_set, str(signature))
    if len(counted) > 1:
        found.comparisons.insert(
            0, _comparison(args, metric, counted, f"{of_set}: {sentences.metric}")
        )


def _metric(args: argparse.Namespace, kind: str) -> Metric:
    settings = dict(METRICS[kind])
    for name in ("gold", "source", "reference", "tokenize"):
        if name in settings:
            settings[name] = getattr(args, name) or settings[name]
            if settings[name] is ...:
                raise UsageError(f"--metric {kind} needs --{name}.")
    return {**score_metrics.METRICS, **score_edits.METRICS}[kind](settings, args.reference)


def _scores(
    metric: Metric, counted: Counted, of_set: str, signature: str
) -> Iterator[ReportedScore]:
    for name, seeds in counted.items():
        values = [metric.values(seed.rows) for seed in seeds]
        for value in values[0]:
            numbers = tuple(one[value] for one in values)
            yield ReportedScore(name, of_set, named(value, signature), numbers, signature)


def _comparison(
    args: argparse.Namespace, metric: Metric, counted: Counted, title: str
) -> ScoreComparison:
    """Compare with the baseline, or with the best."""

    def mean(name: str) -> float:
        values = [metric.values(seed.rows)[metric.headline] for seed in counted[name]]
        return sum(values) / len(values)

    baseline = args.baseline or max(counted, key=mean)
    theirs = [seed.rows for seed in counted[baseline]]
    differences = {}
    for name, seeds in counted.items():
        if name != baseline:
            one = paired_bootstrap([seed.rows for seed in seeds], theirs, metric.score)
            differences[name] = Difference(one.difference, one.low, one.high, one.p)
    best = "" if args.baseline else ", the best"
    return ScoreComparison(f"{title} against {baseline}{best}", differences)
