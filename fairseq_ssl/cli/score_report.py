"""What ``fairseq-ssl score`` tells: systems side by side, by type, by level, against a baseline."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_ssl.cli.console import print_table
from fairseq_ssl.cli.score_metrics import Metric, Output, check_lengths
from fairseq_ssl.errors import UsageError
from fairseq_ssl.io.text_files import read_lines
from fairseq_ssl.metrics.errant import (
    UNKNOWN_TYPE,
    TypeTotals,
    by_category,
    errant_scores,
    main_type,
)
from fairseq_ssl.metrics.significance import SAMPLES, SEED, SeedRange, paired_bootstrap
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.m2 import M2Sentence

MOST_FREQUENT = 10
ALL = "all"

Levels = dict[str, list[int]]
"""The sentences of each level."""


@dataclass
class Table:
    """Numbers by what they are of, then by what is compared."""

    key: str
    """In the JSON."""
    unit: str
    columns: list[str]
    rows: dict[str, list[SeedRange]]
    counts: dict[str, list[list[TypeTotals]]] = field(default_factory=dict)
    """The edits that each number of a row comes from, by seed, if it comes from edits."""

    def drawn(self) -> dict[str, list[SeedRange]]:
        """Return the rows of a figure: of categories of edits the most frequent gold ones."""
        if not self.counts:
            return self.rows
        wanted = [kind for kind in self.rows if _gold(self.counts[kind])]
        return {kind: self.rows[kind] for kind in wanted[:MOST_FREQUENT]}


@dataclass
class Report:
    """Scores of systems, and what else was asked for."""

    metric: Metric
    kind: str
    systems: dict[str, list[Output]]
    """By name, their seeds."""
    table: Table | None = None
    comparisons: dict[str, dict[str, float]] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)

    def compare(
        self, baseline: Sequence[Output], samples: int | None = None, seed: int | None = None
    ) -> None:
        """Compare each system with another by a paired bootstrap."""
        samples = SAMPLES if samples is None else samples
        seed = SEED if seed is None else seed
        self.parameters |= {"resamples": samples, "seed": seed}
        theirs = [output.rows for output in baseline]
        for name, outputs in self.systems.items():
            ours = [output.rows for output in outputs]
            found = paired_bootstrap(ours, theirs, self.metric.score, samples, seed)
            self.comparisons[name] = {
                "difference": found.difference,
                "low": found.low,
                "high": found.high,
                "p": found.p,
            }

    def by_level(self, levels: Levels) -> None:
        """Score the sentences of each level by themselves."""
        self.table = Table("levels", self.metric.headline, list(self.systems), {})
        for level, numbers in levels.items():
            self.table.rows[level] = [
                self._spread(outputs, numbers) for outputs in self.systems.values()
            ]

    def by_category(self, tier: str, beta: float) -> None:
        """Score each category of edits, the most frequent gold ones first.

        Args:
            tier: a name of `scoring.errant.TIERS`
            beta: of F
        """
        found = [
            [by_category(output.typed or (), tier) for output in outputs]
            for outputs in self.systems.values()
        ]
        kinds = {kind for seeds in found for seed in seeds for kind in seed}
        counts = {
            kind: [[seed.get(kind, (0, 0, 0)) for seed in seeds] for seeds in found]
            for kind in kinds
        }
        key = f"{tier.replace('-', ' ')}s"
        self.table = Table(key, self.metric.headline, list(self.systems), {})
        for kind in sorted(kinds, key=lambda kind: (-_gold(counts[kind]), kind)):
            self.table.counts[kind] = counts[kind]
            self.table.rows[kind] = [
                SeedRange.of([100 * errant_scores(seed, beta)[2] for seed in seeds])
                for seeds in counts[kind]
            ]

    def shares(self, gold: Sequence[M2Sentence], levels: Levels) -> None:
        """Tell how the gold edits of each level are shared by the most frequent types."""
        counts = {level: _types(gold[n] for n in numbers) for level, numbers in levels.items()}
        total = sum(counts.values(), Counter[str]())
        frequent = sorted(total, key=lambda kind: (-total[kind], kind))[:MOST_FREQUENT]
        self.table = Table("shares", "% of gold edits", list(levels), {})
        for kind in frequent:
            self.table.rows[kind] = [
                SeedRange.of([100 * count[kind] / max(1, count.total())])
                for count in counts.values()
            ]

    def publish(self, form: str, figure: Path | None) -> None:
        """Print everything and draw the figure."""
        if figure and self.table:
            _draw(self.table, figure)
        if form == "json":
            print(json.dumps(self._content(), indent=2, ensure_ascii=False))
            return
        values = self._values()
        if self._is_single():
            for value, (spread,) in values.items():
                print(f"{value}\t{spread}")
        else:
            rows = zip(*values.values(), strict=True)
            named = zip(self.systems, rows, strict=True)
            print_table(["system", *values], [[name, *map(str, row)] for name, row in named])
        if self.table and self.table.counts and self._is_single():
            _print_counts(self.table)
        elif self.table:
            columns = self.table.columns
            _print([f"{self.table.unit} by {self.table.key}", *columns], self.table.rows)
        if self.comparisons:
            print()
            print_table(
                ["against the baseline", "difference", "95 % of samples", "p"],
                [
                    [
                        name,
                        f"{found['difference']:+.2f}",
                        f"{found['low']:+.2f} to {found['high']:+.2f}",
                        f"{found['p']:.4f}",
                    ]
                    for name, found in self.comparisons.items()
                ],
            )
        print(self._signature())

    def _is_single(self) -> bool:
        return len(self.systems) == 1 and len(next(iter(self.systems.values()))) == 1

    def _spread(self, outputs: Sequence[Output], numbers: Sequence[int]) -> SeedRange:
        headline = self.metric.headline
        return SeedRange.of([self.metric.values(each.rows[numbers])[headline] for each in outputs])

    def _values(self) -> dict[str, list[SeedRange]]:
        """Return by value the numbers of each system."""
        found = [
            [self.metric.values(output.rows) for output in outputs]
            for outputs in self.systems.values()
        ]
        return {
            name: [SeedRange.of([seed[name] for seed in seeds]) for seeds in found]
            for name in found[0][0]
        }

    def _content(self) -> dict[str, Any]:
        values = self._values()
        content: dict[str, Any]
        if self._is_single():
            content = {name: spread.mean for name, (spread,) in values.items()}
        else:
            content = {
                "systems": {
                    system: {name: _numbers(spreads[at]) for name, spreads in values.items()}
                    for at, system in enumerate(self.systems)
                }
            }
        if self.table:
            content[self.table.key] = _content_of(self.table)
        if self.comparisons:
            content["against the baseline"] = self.comparisons
        return {**content, "signature": str(self._signature())}

    def _signature(self) -> Signature:
        lines = len(next(iter(self.systems.values()))[0].rows)
        parameters = {"lines": lines, **self.metric.parameters(), **self.parameters}
        return Signature(self.kind, parameters)


def levels(labels: Path | None, sections: str | None, lines: int) -> Levels:
    """Return the sentences of each level, by a file of labels or by sections."""
    found: Levels = {}
    if labels:
        words = [line.strip() for line in read_lines(labels)]
        check_lengths(labels, len(words), "the output", lines)
        for number, word in enumerate(words):
            found.setdefault(word, []).append(number)
        return dict(sorted(found.items()))
    if not sections:
        return {ALL: list(range(lines))}
    start = 0
    for section in sections.split(","):
        level, _, count = section.partition("=")
        if not (level and count.isdecimal() and int(count)) or level in found:
            raise UsageError(
                f"--sections has {section!r}; expected levels, each once, with a number of "
                "sentences above 0, as A=1037,B=1290."
            )
        found[level] = list(range(start, start + int(count)))
        start += int(count)
    if start != lines:
        raise UsageError(f"--sections has {start} sentences in all, but the output has {lines}.")
    return found


def _types(sentences: Iterable[M2Sentence]) -> Counter[str]:
    """Count the gold edits by type, those of all annotators."""
    return Counter(
        main_type(edit.type)
        for sentence in sentences
        for edits in sentence.annotators.values()
        for edit in edits
        if edit.type != UNKNOWN_TYPE
    )


def _gold(systems: Sequence[Sequence[TypeTotals]]) -> int:
    """Return the number of gold edits of a category, over all systems and seeds."""
    return sum(right + missing for seeds in systems for right, _, missing in seeds)


def _content_of(table: Table) -> dict[str, Any]:
    """Return a table for JSON."""
    content: dict[str, Any] = {
        name: {column: _numbers(spread) for column, spread in zip(table.columns, row, strict=True)}
        for name, row in table.rows.items()
    }
    for name, systems in table.counts.items():
        for column, seeds in zip(table.columns, systems, strict=True):
            content[name][column] |= {
                **dict(zip(("tp", "fp", "fn"), map(list, zip(*seeds, strict=True)), strict=True)),
                "precision": [100 * errant_scores(seed)[0] for seed in seeds],
                "recall": [100 * errant_scores(seed)[1] for seed in seeds],
            }
    return content


def _print_counts(table: Table) -> None:
    """Print the categories of edits of a single output, as ``errant_compare -cat`` does."""
    rows = []
    for name, ((counts,),) in table.counts.items():
        precision, recall, _ = errant_scores(counts)
        shown = f"{100 * precision:.2f}", f"{100 * recall:.2f}", str(table.rows[name][0])
        rows.append([name, *map(str, counts), *shown])
    print()
    print_table([table.key, "TP", "FP", "FN", "Precision", "Recall", table.unit], rows)


def _numbers(spread: SeedRange) -> dict[str, Any]:
    return {"mean": spread.mean, "deviation": spread.deviation, "seeds": list(spread.values)}


def _print(header: list[str], rows: dict[str, list[SeedRange]]) -> None:
    print()
    print_table(header, [[name, *map(str, row)] for name, row in rows.items()])


def _draw(table: Table, path: Path) -> None:
    """Draw a group of bars for each row, a bar for each column."""
    from fairseq_ssl.analysis import figures

    rows = table.drawn()
    columns = list(zip(*rows.values(), strict=True))
    bars: dict[str, Sequence[float | None]] = {
        name: [spread.mean for spread in column]
        for name, column in zip(table.columns, columns, strict=True)
    }
    deviations: dict[str, Sequence[float]] = {
        name: [spread.deviation for spread in column]
        for name, column in zip(table.columns, columns, strict=True)
    }
    seeds = bool(np.any(list(deviations.values())))
    with figures.figure(path, width=max(6.0, 0.9 * len(rows))) as (ax,):
        figures.grouped_bars(ax, list(rows), bars, deviations if seeds else None)
        ax.tick_params(axis="x", rotation=30)
        ax.set_ylabel(table.unit)
