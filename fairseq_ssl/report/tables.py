"""Scores of systems as rows and columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fairseq_ssl.metrics.significance import SeedRange
from fairseq_ssl.report.score_files import ReportedScore, direction

Column = tuple[str, str, str]
"""A set, a metric, and the signature of the numbers: what was made otherwise stands apart."""


@dataclass(frozen=True)
class ScoreTable:
    """Means over seeds."""

    columns: list[Column]
    rows: dict[str, list[SeedRange | None]]
    """By system; None where it has no such score."""

    def signatures(self) -> list[str]:
        """Return what made the numbers."""
        return list(dict.fromkeys(signature for *_, signature in self.columns))

    def headings(self) -> list[tuple[str, str]]:
        """Return sets and metrics; those that are there twice have the number of the signature."""
        counts = Counter(column[:2] for column in self.columns)
        numbers = {signature: at for at, signature in enumerate(self.signatures(), 1)}
        return [
            (of, metric if counts[of, metric] == 1 else f"{metric} [{numbers[signature]}]")
            for of, metric, signature in self.columns
        ]

    def has(self, of_set: str, metric: str, systems: Iterable[str]) -> bool:
        """Tell whether all systems have such a score."""
        columns = [at for at, column in enumerate(self.columns) if column[:2] == (of_set, metric)]
        return all(
            any(self.rows[system][at] for at in columns) if system in self.rows else False
            for system in systems
        )


def score_table(scores: Iterable[ReportedScore]) -> ScoreTable:
    """Put scores into rows by system, in the order in which they come.

    Scores of single values are seeds of one system; a score of several values has all of them.
    Where there are both, the larger number of seeds is taken, not all together.
    """
    rows: dict[str, dict[Column, tuple[list[float], list[float]]]] = {}
    for score in scores:
        column = (score.set, score.metric, score.signature)
        singles, together = rows.setdefault(score.system, {}).setdefault(column, ([], []))
        if len(score.values) == 1:
            singles += score.values
        elif len(score.values) > len(together):
            together[:] = score.values
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    columns.sort(key=lambda column: column[0])
    return ScoreTable(
        columns,
        {
            system: [
                SeedRange.of(max(row[column], key=len)) if column in row else None
                for column in columns
            ]
            for system, row in rows.items()
        },
    )


def best_scores(table: ScoreTable) -> list[float | None]:
    """Return the best mean of each column, if its metric has one."""
    columns: Iterable[Sequence[SeedRange | None]] = zip(*table.rows.values(), strict=True)
    found: list[float | None] = []
    for (_, metric, _), column in zip(table.columns, columns, strict=True):
        means = [one.mean for one in column if one]
        way = direction(metric)
        found.append(way * max(way * mean for mean in means) if way and means else None)
    return found
