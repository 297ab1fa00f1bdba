"""Print a table of precision, recall, F and GLEU, mean and standard deviation over seeds."""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path

from fairseq_ssl.metrics.metric import cell

Scores = dict[str, dict[str, list[float]]]
"""Scores of all seeds, by system and column."""

NAMES = {"m2": "M2", "errant": "ERRANT", "gleu": ""}


def collect(runs: Path, sets: list[str]) -> tuple[Scores, list[str], set[str]]:
    """Read RUNS/SYSTEM.SEED/SET.METRIC.json. Return scores, columns and signatures."""
    scores: Scores = defaultdict(lambda: defaultdict(list))
    columns: dict[str, None] = {}
    signatures = set()
    for name in sets:
        for metric, shown in NAMES.items():
            for path in sorted(runs.glob(f"*/{name}.{metric}.json")):
                found = json.loads(path.read_text(encoding="utf-8"))
                signatures.add(found.pop("signature"))
                kept = {"GLEU": found["GLEU"]} if metric == "gleu" else found
                for value, number in kept.items():
                    column = " ".join(filter(None, (name, shown, value)))
                    columns[column] = None
                    scores[path.parent.name.rpartition(".")[0]][column].append(number)
    return scores, list(columns), signatures


def main() -> None:
    """Print a row for each system with a score, ensembles last."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip())
    parser.add_argument("runs", type=Path, help="folder of the runs, WORK/runs")
    parser.add_argument("--rows", nargs="+", required=True, help="systems in the order of the rows")
    parser.add_argument("--sets", nargs="+", required=True)
    args = parser.parse_args()
    scores, columns, signatures = collect(args.runs, args.sets)
    last = [name for name in sorted(scores) if name.startswith(("ensemble", "reranked"))]
    heads = ["system", "runs", *columns]
    print(f"| {' | '.join(heads)} |\n|{' --- |' * len(heads)}")
    for row in dict.fromkeys([*args.rows, *last]):
        if row in scores:
            seeds = max(len(values) for values in scores[row].values())
            cells = [cell(scores[row][column]) for column in columns]
            print(f"| {' | '.join([row, str(seeds), *cells])} |")
    print(f"\nmean ± sample standard deviation; {', '.join(sorted(signatures))}")


if __name__ == "__main__":
    main()
