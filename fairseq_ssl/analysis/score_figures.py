"""Figures of scores: breakdowns by level or category, and the features of re-ranking."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fairseq_ssl.analysis.figures import figure, grouped_bars
from fairseq_ssl.metrics.tables import ScoreBreakdown


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
