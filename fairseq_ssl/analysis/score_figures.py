"""Figures of scores: breakdowns by level or category, and the features of re-ranking."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fairseq_ssl.analysis.figures import figure, grouped_bars, legend_above
from fairseq_ssl.metrics.tables import ScoreBreakdown
from fairseq_ssl.rerank.tuning import FeatureAnalysis


def draw_breakdown(table: ScoreBreakdown, path: Path) -> None:
    """Draw a group of bars for each row, one bar for each column."""
    rows = table.figure_rows()
    columns = list(zip(*rows.values(), strict=True))
    bars: dict[str, Sequence[float | None]] = {
        name: [scores.mean for scores in column]
        for name, column in zip(table.columns, columns, strict=True)
    }
    deviations: dict[str, Sequence[float]] = {
        name: [scores.deviation for scores in column]
        for name, column in zip(table.columns, columns, strict=True)
    }
    seeds = bool(np.any(list(deviations.values())))
    with figure(path, width=max(6.0, 0.9 * len(rows))) as (ax,):
        grouped_bars(ax, list(rows), bars, deviations if seeds else None)
        ax.tick_params(axis="x", rotation=30)
        ax.set_ylabel(table.unit)


def draw_features(analysis: FeatureAnalysis, metric: str, path: Path) -> None:
    """Draw the scores of each feature alone and of all others, with lines for their bounds."""
    features, scores = analysis.features, analysis.scores
    names = list(features)
    bars: dict[str, Sequence[float | None]] = {
        "alone": [features[name].alone for name in names],
        "all others": [features[name].without for name in names],
    }
    values = [value for row in bars.values() for value in row if value is not None]
    lines = ("first candidates", "these weights")
    shown = [*values, *(scores[name] for name in lines)]
    margin = 0.1 * max(max(shown) - min(shown), 0.1)
    with figure(path, width=max(6.0, 1.2 * len(names))) as (ax,):
        grouped_bars(ax, names, bars)
        for name, style in zip(lines, (":", "--"), strict=True):
            ax.axhline(scores[name], color="black", linestyle=style, linewidth=0.8, label=name)
        ax.set_ylim(min(shown) - margin, max(shown) + margin)
        ax.set_ylabel(metric.upper() if metric == "bleu" else metric.replace("chrf", "chrF"))
        legend_above(ax, columns=4)
