"""Scores and comparisons as tables of HTML, which a script sorts by any column."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from fairseq_ssl.metrics.significance import SeedRange
from fairseq_ssl.report.tables import Table, best
from fairseq_ssl.report.told import Comparison, Difference, Parts

SIGNIFICANT = 0.05
NONE = '<td><span class="faint">none</span></td>'


def scores(scores: Table) -> str:
    """Return all scores by system."""
    if not scores.rows:
        return ""
    header = ["system"]
    for of_set, metric in scores.headings():
        header.append(f"{escape(of_set)} <br>{escape(metric)}" if of_set else escape(metric))
    largest = best(scores)
    rows = []
    for system, spreads in scores.rows.items():
        cells = [escape(system)]
        for spread, most in zip(spreads, largest, strict=True):
            is_best = len(scores.rows) > 1 and spread is not None and spread.mean == most
            cells.append(_score(spread, is_best))
        rows.append(cells)
    notes = "".join(f"<li>{escape(signature)}</li>" for signature in scores.signatures())
    return "\n".join(
        [
            '<section aria-labelledby="scores"><h2 id="scores">Scores</h2>',
            '<p class="faint">Mean ± deviation, and the number of seeds where there are several; '
            "the best of each column in bold.</p>",
            _wide("Table of scores", _table(header, rows)),
            f'<details class="faint"><summary>Signatures</summary><ol>{notes}</ol></details>',
            "</section>",
        ]
    )


def _score(spread: SeedRange | None, is_best: bool) -> str:
    if spread is None:
        return NONE
    seeds = f' <span class="faint">({len(spread.values)})</span>' if len(spread.values) > 1 else ""
    shown = f'<strong>{spread}<span class="heard"> best</span></strong>' if is_best else str(spread)
    return f'<td data-value="{spread.mean}">{shown}{seeds}</td>'


def comparison(found: Comparison, number: int) -> str:
    """Return systems against a baseline, with what can be said of them."""
    rows = [
        [
            escape(system),
            f"<td>{_verdict(told, found.less_is_better)}</td>",
            f'<td data-value="{told.value}">{_signed(told.value)}</td>',
            f'<td data-value="{told.low}">{_signed(told.low)} to {_signed(told.high)}</td>',
            f'<td data-value="{told.p}">{told.p:.4f}</td>',
        ]
        for system, told in found.differences.items()
    ]
    header = ["system", "it is", "difference", "95 % of samples", "p"]
    return "\n".join(
        [
            f'<section aria-labelledby="against{number}">',
            f'<h2 id="against{number}">{escape(found.title)}</h2>',
            '<p class="faint">Paired bootstrap over sentences (Koehn, 2004): better or worse where '
            f"p is below {SIGNIFICANT}, one comparison taken by itself.</p>",
            _wide(f"Table of {found.title}", _table(header, rows)),
            "</section>",
        ]
    )


def _verdict(told: Difference, less_is_better: bool) -> str:
    if told.p >= SIGNIFICANT or not told.value:
        return "not shown to differ"
    return "better" if (told.value > 0) != less_is_better else "worse"


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "\N{MINUS SIGN}")


def parts(name: str, found: Parts) -> str:
    """Return scores by type or by level, folded."""
    systems = list(dict.fromkeys(system for row in found.values() for system in row))
    rows = [
        [escape(part), *(_score(row.get(system), is_best=False) for system in systems)]
        for part, row in found.items()
    ]
    made = _table(["", *map(escape, systems)], rows)
    return f"<details><summary>{escape(name)}</summary>{_wide(f'Table of {name}', made)}</details>"


def _wide(label: str, content: str) -> str:
    """Return what scrolls by itself where the window is narrow."""
    return (
        f'<div class="wide" role="region" tabindex="0" aria-label="{escape(label)}">{content}</div>'
    )


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of cells that are HTML already; the first of each row names it."""
    first, *others = header
    corner = f'<th scope="col">{first}</th>' if first else "<td></td>"
    head = corner + "".join(f'<th scope="col">{cell}</th>' for cell in others)
    body = "".join(
        f'<tr><th scope="row">{first}</th>{"".join(others)}</tr>' for first, *others in rows
    )
    return f'<table class="sorted"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
