"""Print tables of BLEU and chrF with a column for each held-out set, as Markdown."""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from fairseq_ssl.metrics.metric import cell

KINDS = {"scores": "", "char": "of characters"}
"""Kinds of sacreBLEU's files SET.KIND.json, and the suffix of the metric's name for each."""

Table = dict[tuple[str, str], list[float]]
"""Scores of all seeds, by row and set."""


def collect(runs: Path, sets: list[str]) -> dict[str, tuple[str, Table]]:
    """Read RUNS/ROW.SEED/SET.KIND.json. Return signature and scores of each metric."""
    found: dict[str, tuple[str, Table]] = {}
    for run in sorted(runs.iterdir()):
        for name in sets:
            for kind, remark in KINDS.items():
                path = run / f"{name}.{kind}.json"
                for score in _read(path) if path.exists() else []:
                    title = f"{score['name']} {remark}".strip()
                    _, table = found.setdefault(title, (score["signature"], defaultdict(list)))
                    table[run.name.rpartition(".")[0], name].append(float(score["score"]))
    return found


def _read(path: Path) -> list[dict[str, Any]]:
    """Return the scores in a file, which has a list or a single score."""
    content = json.loads(path.read_text("utf-8"))
    return content if isinstance(content, list) else [content]


def main() -> None:
    """Print a table for each metric."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip())
    parser.add_argument("runs", type=Path, help="folder with ROW.SEED/SET.scores.json")
    parser.add_argument("--head", required=True, help="header of the column with the names of rows")
    parser.add_argument("--columns", nargs="+", required=True, metavar="SET=TITLE")
    parser.add_argument(
        "--rows", nargs="+", required=True, metavar="ROW", help="names of the rows in order"
    )
    args = parser.parse_args()
    columns = dict(column.split("=", 1) for column in args.columns)
    for title, (signature, table) in collect(args.runs, list(columns)).items():
        heads = [args.head, *columns.values()]
        print(f"{title} ({signature}), mean ± standard deviation (seeds)\n")
        print(f"| {' | '.join(heads)} |\n|{' --- |' * len(heads)}")
        for row in args.rows:
            scores = [table.get((row, name), []) for name in columns]
            if any(scores):
                print(f"| {row} | {' | '.join(map(cell, scores))} |")
        print()


if __name__ == "__main__":
    main()
