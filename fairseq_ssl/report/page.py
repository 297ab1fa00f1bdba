"""The page itself: tables, figures and sentences in one file that needs nothing else."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from fairseq_ssl.report.found import Found
from fairseq_ssl.report.html_tables import comparison, parts, scores
from fairseq_ssl.report.sentence_form import section
from fairseq_ssl.report.sentences import Sentences
from fairseq_ssl.report.tables import Table

KINDS = {
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
}
SCRIPTS = ("tables.js", "changes.js", "sentences.js")
MOST = 20_000
"""Characters that are shown of an analysis."""


@dataclass(frozen=True)
class Page:
    """All that is shown."""

    title: str
    found: Found
    scores: Table
    sentences: Sentences | None
    signature: str

    def html(self) -> str:
        """Return the page as HTML."""
        found, sentences = self.found, self.sentences
        sections = [
            scores(self.scores),
            *(comparison(one, number) for number, one in enumerate(found.comparisons)),
            *(parts(name, one) for name, one in found.parts.items()),
            _figures(found.figures),
            "" if sentences is None else section(sentences),
            _analyses(found.analyses),
        ]
        data = json.dumps(sentences and sentences.content(), ensure_ascii=False)
        skip = '<a class="skip" href="#sentences">To the sentences</a>' if sentences else ""
        return Template(_asset("page.html")).substitute(
            title=escape(self.title),
            style=_asset("page.css"),
            skip=skip,
            script="\n".join(map(_asset, SCRIPTS)),
            sections="\n".join(filter(None, sections)),
            signature=escape(self.signature),
            data=data.replace("<", "\\u003c"),  # no text ends the script
        )


def _asset(name: str) -> str:
    return (files("fairseq_ssl.report") / name).read_text(encoding="utf-8")


def _figures(figures: Mapping[str, Path]) -> str:
    if not figures:
        return ""
    drawn = []
    for name, path in figures.items():
        content = base64.b64encode(path.read_bytes()).decode("ascii")
        kind = KINDS[path.suffix.lower()]
        drawn.append(
            f'<figure><img src="data:{kind};base64,{content}" alt="Figure {escape(name)}">'
            f"<figcaption>{escape(name)}</figcaption></figure>"
        )
    return "\n".join(
        [
            '<section aria-labelledby="figures"><h2 id="figures">Figures</h2>',
            f'<div class="figures">{"".join(drawn)}</div></section>',
        ]
    )


def _analyses(analyses: Mapping[str, Any]) -> str:
    if not analyses:
        return ""
    shown = []
    for name, content in analyses.items():
        text = json.dumps(content, indent=2, ensure_ascii=False)
        more = f"\n... and {len(text) - MOST} characters more" if len(text) > MOST else ""
        region = (
            f'<pre tabindex="0" role="region" aria-label="{escape(name)}">'
            f"{escape(text[:MOST])}{more}</pre>"
        )
        shown.append(f"<details><summary>{escape(name)}</summary>{region}</details>")
    return "\n".join(
        [
            '<section aria-labelledby="others"><h2 id="others">What else was written</h2>',
            *shown,
            "</section>",
        ]
    )
