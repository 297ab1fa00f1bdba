"""Scores of systems as rows and columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fairseq_ssl.report.found import Score
from fairseq_ssl.scoring.seeds import Spread

Column = tuple[str, str]
"""A set and a metric."""


@dataclass(frozen=True)
class Table:
    """Means over seeds."""

    columns: list[Column]
    rows: dict[str, list[Spread | None]]
    """By system; None where it has no such score."""
    signatures: dict[str, list[Column]]
    """What made the numbers, and of which columns."""


def table(scores: Iterable[Score]) -> Table:
    """Put scores into rows by system, in the order in which they come."""
    values: dict[str, dict[Column, list[float]]] = {}
    signatures: dict[str, list[Column]] = {}
    for score in scores:
        column = (score.set, score.metric)
        values.setdefault(score.system, {}).setdefault(column, []).extend(score.values)
        if column not in signatures.setdefault(score.signature, []):
            signatures[score.signature].append(column)
    columns = list(dict.fromkeys(column for row in values.values() for column in row))
    columns.sort(key=lambda column: column[0])
    rows = {
        system: [Spread.of(row[column]) if column in row else None for column in columns]
        for system, row in values.items()
    }
    return Table(columns, rows, signatures)


def best(table: Table) -> list[float | None]:
    """Return the largest mean of each column."""
    columns: Iterable[Sequence[Spread | None]] = zip(*table.rows.values(), strict=True)
    return [max((one.mean for one in column if one), default=None) for column in columns]
