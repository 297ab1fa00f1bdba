"""HTML page of a report: figures, tables of scores and a sentence browser in one file."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files as resource_files
from math import ceil, floor, log10
from pathlib import Path
from string import Template
from typing import Any

from fairseq_ssl.io.text_files import decode_file_name, json_text
from fairseq_ssl.metrics.metric import BootstrapResult, SeedRange
from fairseq_ssl.report.score_files import (
    Breakdown,
    ReportedScore,
    ReportFiles,
    ScoreComparison,
    metric_direction,
)
from fairseq_ssl.report.sentences import Sentences
from fairseq_ssl.text.m2 import main_type

SIGNIFICANT = 0.05
NO_VALUE = '<td><span class="faint">n/a</span></td>'


Column = tuple[str, str, str]
"""Test set, metric and signature. Scores with different signatures need different columns."""


@dataclass(frozen=True)
class ScoreTable:
    """Table of scores with one row for each system."""

    columns: list[Column]
    rows: dict[str, list[SeedRange | None]]
    """Scores of each system, one for each column, or None for a missing score."""

    def signatures(self) -> list[str]:
        """Return the distinct signatures of the columns."""
        return list(dict.fromkeys(signature for *_, signature in self.columns))

    def headings(self) -> list[tuple[str, str]]:
        """Return the test set and the metric of each column.

        If columns differ only in the signature, the signature's number is appended: `BLEU [2]`.
        """
        counts = Counter(column[:2] for column in self.columns)
        numbers = {signature: number for number, signature in enumerate(self.signatures(), 1)}
        return [
            (
                test_set,
                metric if counts[test_set, metric] == 1 else f"{metric} [{numbers[signature]}]",
            )
            for test_set, metric, signature in self.columns
        ]

    def has(self, test_set: str, metric: str, systems: Iterable[str]) -> bool:
        """Return True if all systems have a score for this test set and metric."""
        key = test_set, metric
        columns = [index for index, column in enumerate(self.columns) if column[:2] == key]
        return all(
            any(self.rows[system][index] for index in columns) if system in self.rows else False
            for system in systems
        )


def score_table(scores: Iterable[ReportedScore]) -> ScoreTable:
    """Return a table of scores, with systems in the order of the scores.

    Seed scores are in one file per run, or in one file for all systems. Both kinds of files can
    contain the same seed, so their scores are not concatenated. The longer list is used.
    """
    rows: dict[str, dict[Column, tuple[dict[str, float], list[float]]]] = {}
    for score in scores:
        column = (score.test_set, score.metric, score.signature)
        runs, together = rows.setdefault(score.system, {}).setdefault(column, ({}, []))
        if score.seed and len(score.values) == 1:
            runs[score.seed] = score.values[0]
        elif len(score.values) > len(together):
            together[:] = score.values

    def seeds(runs: dict[str, float], together: list[float]) -> SeedRange:
        return SeedRange(max(list(runs.values()), together, key=len))

    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    columns.sort(key=lambda column: column[0])
    return ScoreTable(
        columns,
        {
            system: [seeds(*row[column]) if column in row else None for column in columns]
            for system, row in rows.items()
        },
    )


def best_scores(table: ScoreTable) -> list[float | None]:
    """Return the best mean of each column, or None for values without a direction (counts)."""
    columns: Iterable[Sequence[SeedRange | None]] = zip(*table.rows.values(), strict=True)
    best: list[float | None] = []
    for (_, metric, _), column in zip(table.columns, columns, strict=True):
        means = [scores.mean for scores in column if scores]
        sign = metric_direction(metric)
        best.append(sign * max(sign * mean for mean in means) if sign and means else None)
    return best


def score_html(scores: ScoreTable) -> str:
    """Return an HTML section with a table of scores, or "" if there are no scores."""
    if not scores.rows:
        return ""
    header = ["system"]
    for test_set, metric in scores.headings():
        name = escape(metric)
        header.append(f"{escape(test_set)} <br>{name}" if test_set else name)
    best = best_scores(scores)
    rows = []
    for system, ranges in scores.rows.items():
        cells = [escape(system)]
        for score, best_mean in zip(ranges, best, strict=True):
            is_best = len(scores.rows) > 1 and score is not None and score.mean == best_mean
            cells.append(_score(score, is_best))
        rows.append(cells)
    notes = "".join(f"<li>{escape(signature)}</li>" for signature in scores.signatures())
    return "\n".join(
        [
            '<section aria-labelledby="scores"><h2 id="scores">Scores</h2>',
            '<p class="faint">Mean ± standard deviation over seeds, with the number of seeds in '
            "parentheses. The best score of each column is bold.</p>",
            table_html("Table of scores", header, rows),
            f'<details class="faint"><summary>Signatures</summary><ol>{notes}</ol></details>',
            "</section>",
        ]
    )


def _score(score: SeedRange | None, is_best: bool) -> str:
    if score is None:
        return NO_VALUE
    seeds = f' <span class="faint">({len(score.values)})</span>' if len(score.values) > 1 else ""
    best = '<span class="visually-hidden"> best</span>'
    text = f"<strong>{score}{best}</strong>" if is_best else str(score)
    return f'<td data-value="{score.mean}">{text}{seeds}</td>'


def comparison_html(comparison: ScoreComparison, number: int) -> str:
    """Return an HTML section with a plot and a table that compare systems with a baseline."""
    lower = comparison.lower_is_better
    differences = {escape(system): result for system, result in comparison.differences.items()}
    rows = [
        [system, f"<td>{_verdict(result, lower)}</td>", *difference_cells(result)]
        for system, result in differences.items()
    ]
    header = ["system", "result", "difference", "95% interval", "p"]
    return "\n".join(
        [
            f'<section aria-labelledby="against{number}">',
            f'<h2 id="against{number}">{escape(comparison.title)}</h2>',
            '<p class="faint">Paired bootstrap resampling over sentences (Koehn, 2004). Systems '
            f"are better or worse if p is below {SIGNIFICANT}, without correction for multiple "
            "comparisons.</p>",
            interval_plot(differences, lower_is_better=lower),
            table_html(f"Table of {comparison.title}", header, rows),
            "</section>",
        ]
    )


def difference_cells(result: BootstrapResult) -> list[str]:
    """Return table cells with a difference, its interval and its p-value."""
    return [
        f'<td data-value="{result.difference}">{_signed(result.difference)}</td>',
        f'<td data-value="{result.low}">{_signed(result.low)} to {_signed(result.high)}</td>',
        f'<td data-value="{result.p}">{result.p:.4f}</td>',
    ]


def interval_plot(
    differences: Mapping[str, BootstrapResult], *, lower_is_better: bool = False
) -> str:
    """Return a forest plot as HTML. A dot is a difference, and a line is its 95% interval.

    Args:
        differences: bootstrap results by label. Labels are HTML.
        lower_is_better: True to swap the colors, for metrics such as error rates.
    """
    ends = [(result.low, result.difference, result.high) for result in differences.values()]
    low, high = min(0.0, *map(min, ends)), max(0.0, *map(max, ends))
    span = high - low or 1.0
    step = 10.0 ** floor(log10(span))
    step *= next(part for part in (0.2, 0.5, 1, 2) if span / step <= 5 * part)

    def position(value: float) -> str:
        return f"left:{100 * (value - low) / span:.2f}%"

    ticks = [step * index for index in range(ceil(low / step), floor(high / step) + 1)]
    axis = "".join(
        f'<span style="{position(tick)}">{_signed(tick, ".4g") if tick else 0}</span>'
        for tick in ticks
    )
    rows = [
        f"<div>{label}</div><div>{_signed(result.difference)}</div>"
        f'<div class="interval {_verdict(result, lower_is_better)}"><i style="{position(0)}"></i>'
        f'<b style="{position(result.low)};width:{100 * (result.high - result.low) / span:.2f}%">'
        f'</b><b class="dot" style="{position(result.difference)}"></b></div>'
        for label, result in differences.items()
    ]
    axis = f'<div class="axis" aria-hidden="true">{axis}</div>'
    return f'<div class="plot">{"".join(rows)}{axis}</div>'


def _verdict(result: BootstrapResult, lower_is_better: bool) -> str:
    if result.p >= SIGNIFICANT or not result.difference:
        return "no significant difference"
    return "better" if (result.difference > 0) != lower_is_better else "worse"


def _signed(value: float, digits: str = ".2f") -> str:
    return f"{value:+{digits}}".replace("-", "\N{MINUS SIGN}")


def breakdown_html(name: str, breakdown: Breakdown) -> str:
    """Return a collapsed table of scores, with a row for each error type or proficiency level."""
    systems = list(dict.fromkeys(system for row in breakdown.values() for system in row))
    rows = [
        [escape(part), *(_score(row.get(system), is_best=False) for system in systems)]
        for part, row in breakdown.items()
    ]
    table = table_html(f"Table of {name}", ["", *map(escape, systems)], rows)
    return f"<details><summary>{escape(name)}</summary>{table}</details>"


def table_html(label: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return an HTML table that scrolls in narrow windows. Screen readers read `label`.

    In each row, the first item is the content of the row heading. The others are `td` elements.
    """
    first, *columns = header
    corner = f'<th scope="col">{first}</th>' if first else "<td></td>"
    head = corner + "".join(f'<th scope="col">{cell}</th>' for cell in columns)
    body = "".join(
        f'<tr><th scope="row">{heading}</th>{"".join(cells)}</tr>' for heading, *cells in rows
    )
    return (
        f'<div class="wide" role="region" tabindex="0" aria-label="{escape(label)}">'
        f'<table class="sorted"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


ORDERS = {
    "gained": "largest gain of A over B",
    "lost": "largest loss of A to B",
    "apart": "largest score difference",
    "low": "lowest score of A",
}
UNLIKE = {"unlike": "largest word difference"}
MAX_ALWAYS_SHOWN = 2
"""Maximum number of systems without checkboxes. With more systems, checkboxes can hide them."""


def sentences_html(sentences: Sentences) -> str:
    """Return the sentence browser: a filter form, and elements that the page's script fills."""
    against = _sides("nothing", sentences)
    fields = [
        *_texts(sentences),
        *_errors(sentences),
        *_orders(sentences),
        _select("Changes against", "against", against, sentences.against()),
        '<button type="reset">Clear</button>',
        *_hidden_systems(sentences),
    ]
    section = Template(_asset("page.sentences.html"))
    return section.substitute(fields="\n".join(fields), note=_note(sentences)).rstrip("\n")


def _texts(sentences: Sentences) -> list[str]:
    several = len(sentences.systems) > 1
    return [
        '<label>Search <input type="search" name="text" autocomplete="off"></label>',
        _select("Search in", "in", _sides("all texts", sentences)),
        _check("whole", "whole words"),
        _check("changed", "only where changed"),
        _check("differ", "only where systems differ") if several else "",
    ]


def _errors(sentences: Sentences) -> list[str]:
    if sentences.errors is None:
        return []
    types, main = sentences.types(), sentences.types(main_type)
    outcomes = [
        (f"{outcome} {system}", f"{outcome} by {name}")
        for outcome in ("missed", "corrected")
        for system, name in enumerate(sentences.systems)
    ]
    labels = {kind: f"{kind} ({main[kind]})" for kind in sorted(main)}
    if types != main:
        labels |= {kind: f"{kind} ({types[kind]})" for kind in sorted(types) if kind not in main}
    return [
        _select("Error type", "type", {"": "all", **labels}),
        _select("Outcome", "outcome", {"": "any", **dict(outcomes)}),
    ]


def _orders(sentences: Sentences) -> list[str]:
    several, scored = len(sentences.systems) > 1, sentences.scores is not None
    orders = {name: text for name, text in ORDERS.items() if scored and (several or name == "low")}
    orders |= UNLIKE if several else {}
    if not orders:
        return []
    numbers = {str(system): name for system, name in enumerate(sentences.systems)}
    fields = [_select("Sort by", "sort", {"": "line number", **orders})]
    if several:
        fields.append(_select("System A", "first", numbers, str(len(numbers) - 1)))
        fields.append(_select("System B", "second", numbers, "0"))
    return fields


def _hidden_systems(sentences: Sentences) -> list[str]:
    """Return checkboxes that show or hide systems, or [] if all systems are always shown."""
    if len(sentences.systems) <= MAX_ALWAYS_SHOWN:
        return []
    boxes = "".join(
        f'<label class="check"><input type="checkbox" name="show" value="{system}" checked>'
        f"{escape(name)}</label>"
        for system, name in enumerate(sentences.systems)
    )
    return [
        "<details><summary>Systems shown</summary>"
        f'<fieldset><legend class="visually-hidden">Systems shown</legend>{boxes}</fieldset>'
        "</details>"
    ]


def _note(sentences: Sentences) -> str:
    """Return a note about sentence scores and seeds, or "" if there is nothing to explain."""
    notes = []
    if sentences.scores is not None:
        notes.append(
            f"The number next to a system is its {escape(sentences.metric)} for the sentence."
        )
    if sentences.has_seeds:
        notes.append("If a system has several seeds, the output of the first seed is shown.")
    return f'<p class="faint">{" ".join(notes)}</p>' if notes else ""


def _sides(default: str, sentences: Sentences) -> dict[str, str]:
    names = [*sentences.sides(), *sentences.systems]
    return {"": default, **{name: name for name in names}}


def _check(name: str, text: str) -> str:
    return f'<label class="check"><input type="checkbox" name="{name}">{text}</label>'


def _select(label: str, name: str, options: Mapping[str, str], chosen: str = "") -> str:
    choices = "".join(
        f'<option value="{escape(value)}"{" selected" * (value == chosen)}>{escape(text)}</option>'
        for value, text in options.items()
    )
    return f'<label>{label} <select name="{name}">{choices}</select></label>'


MEDIA_TYPES = {
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
}
SCRIPTS = ("tables.js", "changes.js", "sentences.js")
MAX_ANALYSIS_CHARS = 20_000
"""Maximum number of characters shown per analysis. The rest is omitted."""


def report_sections(files: ReportFiles, sentences: Sentences | None) -> list[str]:
    """Return the HTML sections for figures, scores, comparisons, sentences and other results."""
    return [
        _figures(files.figures),
        score_html(score_table(files.scores)),
        *(comparison_html(table, number) for number, table in enumerate(files.comparisons)),
        *(breakdown_html(name, table) for name, table in files.breakdowns.items()),
        "" if sentences is None else sentences_html(sentences),
        _analyses(files.analyses),
    ]


def page_html(
    title: str, sections: Sequence[str], signature: str, sentences: Sentences | None = None
) -> str:
    r"""Return an HTML page with these sections and with embedded styles, scripts and data.

    Empty sections are omitted. `sentences` is the data for the sentence browser. A byte in a file
    name that is not valid UTF-8, such as 0xE9, becomes the text ``\udce9``.
    """
    data = json_text(sentences and sentences.content(), indent=None)
    skip = '<a class="skip" href="#sentences">Skip to sentences</a>' if sentences else ""
    html = Template(_asset("page.html")).substitute(
        title=escape(title),
        style=_asset("page.css"),
        skip=skip,
        script="\n".join(map(_asset, SCRIPTS)),
        sections="\n".join(filter(None, sections)),
        signature=escape(signature),
        data=data.replace("<", "\\u003c"),  # so that texts cannot end the script element
    )
    return decode_file_name(html).encode("utf-8", "backslashreplace").decode("utf-8")


def _asset(name: str) -> str:
    return (resource_files("fairseq_ssl.report") / name).read_text(encoding="utf-8")


def _figures(figures: Mapping[str, Path]) -> str:
    if not figures:
        return ""
    images = []
    for name, path in figures.items():
        content = base64.b64encode(path.read_bytes()).decode("ascii")
        media_type = MEDIA_TYPES[path.suffix.lower()]
        images.append(
            f'<figure><img src="data:{media_type};base64,{content}" alt="Figure {escape(name)}">'
            f"<figcaption>{escape(name)}</figcaption></figure>"
        )
    return "\n".join(
        [
            '<section aria-labelledby="figures"><h2 id="figures">Figures</h2>',
            f'<div class="figures">{"".join(images)}</div></section>',
        ]
    )


def _analyses(analyses: Mapping[str, Any]) -> str:
    if not analyses:
        return ""
    parts = []
    for name, content in analyses.items():
        text = json.dumps(content, indent=2, ensure_ascii=False)
        more = (
            f"\n... ({len(text) - MAX_ANALYSIS_CHARS} more characters)"
            if len(text) > MAX_ANALYSIS_CHARS
            else ""
        )
        region = (
            f'<pre tabindex="0" role="region" aria-label="{escape(name)}">'
            f"{escape(text[:MAX_ANALYSIS_CHARS])}{more}</pre>"
        )
        parts.append(f"<details><summary>{escape(name)}</summary>{region}</details>")
    return "\n".join(
        [
            '<section aria-labelledby="others"><h2 id="others">Other results</h2>',
            *parts,
            "</section>",
        ]
    )
