"""The page itself: tables, figures and sentences in one file that needs nothing else."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from fairseq_ssl.report.found import Found
from fairseq_ssl.report.sentences import REFERENCE, SOURCE, Sentences
from fairseq_ssl.report.tables import Table, best

KINDS = {".png": "image/png", ".svg": "image/svg+xml", ".jpg": "image/jpeg"}
ORDERS = {
    "gained": "first gained most",
    "lost": "first lost most",
    "apart": "furthest apart",
    "low": "first scored lowest",
}


def page(
    title: str,
    found: Found,
    scores: Table,
    comparisons: Mapping[str, Mapping[str, Any]],
    sentences: Sentences | None,
    signature: str,
) -> str:
    """Return the page as HTML."""
    sections = [
        *_scores(scores),
        *(part for name, one in comparisons.items() for part in _comparison(name, one)),
        *_figures(found.figures),
        *_analyses(found.analyses),
        *_sentences(sentences),
    ]
    data = json.dumps(None if sentences is None else sentences.content(), ensure_ascii=False)
    return Template(_asset("page.html")).substitute(
        title=escape(title),
        style=_asset("page.css"),
        script=_asset("page.js"),
        sections="\n".join(sections),
        signature=escape(signature),
        data=data.replace("<", "\\u003c"),  # no text ends the script
    )


def _asset(name: str) -> str:
    return (files("fairseq_ssl.report") / name).read_text(encoding="utf-8")


def _wide(label: str, content: str) -> str:
    """Return what scrolls by itself where the window is narrow."""
    return (
        f'<div class="wide" role="region" tabindex="0" aria-label="{escape(label)}">{content}</div>'
    )


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of cells that are HTML already; the first of each row names it."""
    head = "".join(f'<th scope="col">{cell}</th>' for cell in header)
    body = "".join(
        f'<tr><th scope="row">{first}</th>{"".join(others)}</tr>' for first, *others in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _scores(scores: Table) -> list[str]:
    if not scores.rows:
        return []
    header = ["system"]
    for of_set, metric in scores.columns:
        header.append(f"{escape(of_set)}<br>{escape(metric)}" if of_set else escape(metric))
    largest = best(scores)
    rows = []
    for system, spreads in scores.rows.items():
        cells = [escape(system)]
        for spread, most in zip(spreads, largest, strict=True):
            if spread is None:
                cells.append('<td><span class="faint">none</span></td>')
                continue
            seeds = f' <span class="faint">({len(spread.values)})</span>'
            shown = f"{spread}{seeds if len(spread.values) > 1 else ''}"
            is_best = len(scores.rows) > 1 and spread.mean == most
            cells.append(f"<td{' class=best' * is_best}>{shown}</td>")
        rows.append(cells)
    notes = "".join(
        f"<li>{escape(signature)} <span>({escape(_named(columns))})</span></li>"
        for signature, columns in scores.signatures.items()
    )
    return [
        '<section aria-labelledby="scores"><h2 id="scores">Scores</h2>',
        '<p class="faint">Mean ± deviation, and the number of seeds where there are several; the '
        "largest of each column in bold.</p>",
        _wide("Scores", _table(header, rows)),
        f'<details class="faint"><summary>Signatures</summary><ul>{notes}</ul></details></section>',
    ]


def _named(columns: Sequence[tuple[str, str]]) -> str:
    return ", ".join(" ".join(filter(None, column)) for column in columns)


def _comparison(name: str, systems: Mapping[str, Any]) -> list[str]:
    rows = [
        [
            escape(system),
            f"<td>{told['difference']:+.2f}</td>",
            f"<td>{told['low']:+.2f} to {told['high']:+.2f}</td>",
            f"<td>{told['p']:.4f}</td>",
        ]
        for system, told in systems.items()
    ]
    header = ["system", "difference", "95 % of samples", "p"]
    return [
        f"<section><h2>{escape(name)}</h2>",
        '<p class="faint">Paired bootstrap over sentences (Koehn, 2004).</p>',
        f"{_wide(name, _table(header, rows))}</section>",
    ]


def _figures(figures: Sequence[Path]) -> list[str]:
    if not figures:
        return []
    drawn = []
    for path in figures:
        content = base64.b64encode(path.read_bytes()).decode("ascii")
        name = escape(path.stem)
        drawn.append(
            f'<figure><img src="data:{KINDS[path.suffix]};base64,{content}" alt="Figure {name}">'
            f"<figcaption>{name}</figcaption></figure>"
        )
    return ["<section><h2>Figures</h2>", *drawn, "</section>"]


def _analyses(analyses: Mapping[str, Any]) -> list[str]:
    if not analyses:
        return []
    shown = []
    for name, content in analyses.items():
        text = escape(json.dumps(content, indent=2, ensure_ascii=False))
        region = f'<pre tabindex="0" role="region" aria-label="{escape(name)}">{text}</pre>'
        shown.append(f"<details><summary>{escape(name)}</summary>{region}</details>")
    return ["<section><h2>What else was written</h2>", *shown, "</section>"]


def _sentences(sentences: Sentences | None) -> list[str]:
    if sentences is None:
        return []
    return [
        '<section aria-labelledby="sentences"><h2 id="sentences">Sentences</h2>',
        '<form id="filter">',
        '<label>Text <input type="search" name="text"></label>',
        *_types(sentences),
        *_orders(sentences),
        *_against(sentences),
        '<label class="check"><input type="checkbox" name="differ">systems differ</label>'
        if len(sentences.systems) > 1
        else "",
        '</form><p id="told" role="status"></p><ol id="list"></ol>',
        '<nav class="pages" aria-label="Pages"><button type="button" id="before">Before</button>',
        '<span id="place"></span><button type="button" id="after">After</button></nav></section>',
    ]


def _select(label: str, name: str, options: Mapping[str, str], chosen: str = "") -> str:
    made = "".join(
        f'<option value="{escape(value)}"{" selected" * (value == chosen)}>{escape(text)}</option>'
        for value, text in options.items()
    )
    return f'<label>{label} <select name="{name}">{made}</select></label>'


def _types(sentences: Sentences) -> list[str]:
    if sentences.types is None:
        return []
    counts: dict[str, int] = {}
    for kinds in sentences.types:
        for kind in kinds:
            counts[kind] = counts.get(kind, 0) + 1
    found = {kind: f"{kind} ({counts[kind]})" for kind in sorted(counts)}
    return [_select("Error type", "type", {"": "all", **found})]


def _orders(sentences: Sentences) -> list[str]:
    if sentences.scores is None:
        return []
    numbers = {str(at): name for at, name in enumerate(sentences.systems)}
    several = len(numbers) > 1
    orders = {name: text for name, text in ORDERS.items() if several or name == "low"}
    found = [_select(f"Order, by {escape(sentences.metric)}", "sort", {"": "as given", **orders})]
    if several:
        found.append(_select("First system", "first", numbers, str(len(numbers) - 1)))
        found.append(_select("Second system", "second", numbers, "0"))
    else:
        found.append('<input type="hidden" name="first" value="0">')
    return found


def _against(sentences: Sentences) -> list[str]:
    count = len(sentences.references)
    given = [SOURCE] * (sentences.source is not None)
    wanted = [REFERENCE] if count == 1 else [f"{REFERENCE} {at + 1}" for at in range(count)]
    names = [*given, *wanted, *sentences.systems]
    options = {"": "nothing", **{name: name for name in names}}
    return [_select("Changes against", "against", options, sentences.against())]
