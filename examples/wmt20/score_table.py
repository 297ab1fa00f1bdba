"""Print tables of BLEU and chrF, a column for each held-out set, as Markdown."""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from fairseq_ssl.metrics.metric import cell

KINDS = {"scores": "", "char": "of characters"}
"""Files SET.KIND.json that sacreBLEU wrote, and what to add to the name of a metric."""

Table = dict[tuple[str, str], list[float]]
"""Scores of the seeds by row and set."""


def collect(runs: Path, sets: list[str]) -> dict[str, tuple[str, Table]]:
    """Read RUNS/ROW.SEED/SET.KIND.json; return the signature and the scores of each metric."""
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
    """Return the scores in a file: a list, or one by itself."""
    content = json.loads(path.read_text("utf-8"))
    return content if isinstance(content, list) else [content]


def main() -> None:
    """Print a table for each metric."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip())
    parser.add_argument("runs", type=Path, help="folder of ROW.SEED/SET.scores.json")
    parser.add_argument("--head", required=True, help="title of the column that names the rows")
    parser.add_argument("--columns", nargs="+", required=True, metavar="SET=TITLE")
    parser.add_argument("--rows", nargs="+", required=True, metavar="ROW", help="in their order")
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
