"""Matplotlib figures for analyses and scores. No display is needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_ssl.errors import DataError, import_optional
from fairseq_ssl.io.outputs import atomic_path
from fairseq_ssl.metrics.tables import ScoreBreakdown
from fairseq_ssl.rerank.tuning import FeatureAnalysis

COLORS = ("#4c72b0", "#dd8452", "#55a868", "#c44e52", "#8172b3", "#937860")
SHADE = "#e8e8e8"


@contextmanager
def figure(
    path: str | Path, columns: int = 1, width: float = 6.0, height: float = 3.8
) -> Iterator[Any]:
    """Yield a list of axes, one for each column. Write the figure to `path` on exit."""
    path = Path(path)
    package = import_optional("matplotlib.figure", "Drawing figures", "plot")
    drawing = package.Figure(figsize=(width * columns, height), layout="constrained")
    axes = drawing.subplots(1, columns, squeeze=False)[0]
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
    yield list(axes)
    with atomic_path(path, path.suffix) as temporary:
        try:
            drawing.savefig(temporary, dpi=150)
        except ValueError as error:
            raise DataError(f"{path} cannot be drawn: {error}. Use .pdf, .png or .svg.") from None


def heat_map(
    ax: Any,
    cells: Sequence[Sequence[float | None]],
    rows: Sequence[str],
    columns: Sequence[str],
    limits: tuple[float, float],
) -> None:
    """Draw a table of numbers as a heat map. None becomes a white cell with n/a."""
    numbers = [[float("nan") if cell is None else cell for cell in row] for row in cells]
    ax.imshow(numbers, cmap="RdYlGn", vmin=limits[0], vmax=limits[1], aspect="auto")
    ax.set_xticks(range(len(columns)), columns)
    ax.set_yticks(range(len(rows)), rows)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    low, high = limits
    for y, row in enumerate(cells):
        for x, cell in enumerate(row):
            label = "n/a" if cell is None else f"{cell:.2f}"
            is_dark = cell is not None and abs(2 * cell - low - high) > 0.6 * (high - low)
            color = "white" if is_dark else "black"
            ax.text(x, y, label, ha="center", va="center", fontsize=8, color=color)


def grouped_bars(
    ax: Any,
    groups: Sequence[str],
    bars: dict[str, Sequence[float | None]],
    errors: dict[str, Sequence[float]] | None = None,
) -> None:
    """Draw groups of bars. Each group has a bar for each key of `bars`, and a gap for None.

    `errors` contains the lengths of the error bars, by the same keys.
    """
    width = 0.8 / len(bars)
    for index, (name, values) in enumerate(bars.items()):
        positions = [x - 0.4 + width * (index + 0.5) for x in range(len(groups))]
        heights = [float("nan") if value is None else value for value in values]
        ax.bar(
            *(positions, heights, width),
            yerr=errors[name] if errors else None,
            label=name,
            color=COLORS[index % len(COLORS)],
            error_kw={"elinewidth": 0.8},
        )
    ax.set_xticks(range(len(groups)), groups)
    legend_above(ax)


def legend_above(ax: Any, columns: int = 2) -> None:
    """Draw the legend above the axes, where it does not hide any data."""
    ax.legend(frameon=False, ncols=columns, loc="lower center", bbox_to_anchor=(0.5, 1.0))


def draw_breakdown(table: ScoreBreakdown, path: Path) -> None:
    """Draw a table of scores as bars, with a group for each row and a bar for each column.

    Raise DataError if the rows are error types and there are no gold edits.
    """
    rows = table.figure_rows()
    if not rows:
        raise DataError(f"{path} cannot be drawn: there are no gold edits to score.")
    columns = list(zip(*rows.values(), strict=True))
    bars: dict[str, Sequence[float | None]] = {
        name: [scores and scores.mean for scores in column]
        for name, column in zip(table.columns, columns, strict=True)
    }
    stds: dict[str, Sequence[float]] = {
        name: [scores.std if scores else 0.0 for scores in column]
        for name, column in zip(table.columns, columns, strict=True)
    }
    seeds = bool(np.any(list(stds.values())))
    with figure(path, width=max(6.0, 0.9 * len(rows))) as (ax,):
        grouped_bars(ax, list(rows), bars, stds if seeds else None)
        ax.tick_params(axis="x", rotation=30)
        ax.set_ylabel(table.unit)


def draw_features(analysis: FeatureAnalysis, metric: str, path: Path) -> None:
    """Draw two bars for each feature: the score of the feature alone, and the score without it.

    Horizontal lines show the score of the first candidates and the score with the given weights.
    """
    features, scores = analysis.features, analysis.scores
    names = list(features)
    bars: dict[str, Sequence[float | None]] = {
        "alone": [features[name].alone for name in names],
        "all others": [features[name].without for name in names],
    }
    values = [value for row in bars.values() for value in row if value is not None]
    lines = ("first candidates", "these weights")
    heights = [*values, *(scores[name] for name in lines)]
    margin = 0.1 * max(max(heights) - min(heights), 0.1)
    with figure(path, width=max(6.0, 1.2 * len(names))) as (ax,):
        grouped_bars(ax, names, bars)
        for name, style in zip(lines, (":", "--"), strict=True):
            ax.axhline(scores[name], color="black", linestyle=style, linewidth=0.8, label=name)
        ax.set_ylim(min(heights) - margin, max(heights) + margin)
        ax.set_ylabel(metric.upper() if metric == "bleu" else metric.replace("chrf", "chrF"))
        legend_above(ax, columns=4)
