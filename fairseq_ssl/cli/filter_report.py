"""The table that ``fairseq-ssl filter`` ends with: what each filter dropped, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairseq_ssl.filters.corpus import Dropped, Example

WIDTH = 100
"""Characters of an example."""


def table(dropped: Sequence[tuple[str, Dropped]], kept: int, rows: int) -> str:
    """Return a line for each filter and one for what is kept."""
    names = [name for name, _ in dropped]
    width = max(map(len, [*names, "filter"]))
    digits = max(len(str(rows)), len("dropped"))
    lines = [f"{'filter':{width}}  {'dropped':>{digits}}   share  example"]
    for name, one in dropped:
        shown = example(one.examples[0]) if one.examples else ""
        line = f"{name:{width}}  {one.count:{digits}}  {_share(one.count, rows)}  {shown}"
        lines.append(line.rstrip())
    lines.append(f"{'kept':{width}}  {kept:{digits}}  {_share(kept, rows)}  of {rows}")
    return "\n".join(lines)


def example(dropped: Example) -> str:
    """Show a dropped row: its number, what the filter saw, and how it begins."""
    score = _score(dropped.score)
    text = " | ".join(dropped.text)
    whole = f"{dropped.line}: {f'({score}) ' if score else ''}{text}"
    return whole if len(whole) <= WIDTH else f"{whole[: WIDTH - 1]}\u2026"


def _score(score: Any) -> str:
    if isinstance(score, dict):
        return ", ".join(f"{name} {_score(one)}" for name, one in score.items())
    if isinstance(score, (list, tuple)):
        return " ".join(_score(one) or "-" for one in score)
    return "" if score is True else str(score)


def _share(part: int, whole: int) -> str:
    return f"{part / whole:6.1%}"
