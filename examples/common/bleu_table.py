"""Print a table of BLEU, mean and standard deviation over seeds, as Markdown."""

from __future__ import annotations

import argparse
import json
import statistics
from collections import defaultdict
from pathlib import Path

from fairseq_ssl.metrics.metric import cell

PARTS = ("valid", "test")

Scores = dict[tuple[str, str], list[float]]
"""BLEU of each seed, by row and part."""


def collect(runs: Path) -> tuple[Scores, set[str]]:
    """Read RUNS/ROW.SEED/SET.bleu.json. The score of a seed is the mean over the sets of a part."""
    scores: Scores = defaultdict(list)
    signatures = set()
    for run in sorted(runs.iterdir()):
        for part in PARTS:
            found = [json.loads(path.read_text()) for path in run.glob(f"{part}*.bleu.json")]
            signatures |= {str(one["signature"]) for one in found}
            if found:
                mean = statistics.fmean(one["score"] for one in found)
                scores[run.name.rpartition(".")[0], part].append(mean)
    return scores, signatures


def main() -> None:
    """Print a row for each kind of run with our or published scores, and the signature."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip())
    parser.add_argument("runs", type=Path, help="folder of the runs, WORK/runs")
    parser.add_argument(
        "--heads", nargs="+", required=True, help="headers of the columns with the name of a row"
    )
    parser.add_argument(
        "--rows",
        nargs="+",
        required=True,
        help="names of the rows in order, with dots between columns",
    )
    parser.add_argument(
        "--published",
        nargs="+",
        default=[],
        metavar="ROW=BLEU",
        help="published BLEU on the test set, by row",
    )
    args = parser.parse_args()
    scores, signatures = collect(args.runs)
    published = dict(one.split("=") for one in args.published)
    heads = [*args.heads, *PARTS, *["published"] * bool(published)]
    print(f"| {' | '.join(heads)} |\n|{' --- |' * len(heads)}")
    for row in args.rows:
        shown = [cell(scores.get((row, part), [])) for part in PARTS]
        if set(shown) != {"not run"} or row in published:
            shown += [published.get(row, "")] * bool(published)
            print(f"| {' | '.join([*row.split('.'), *shown])} |")
    print(f"\nmean ± sample standard deviation (seeds); {', '.join(sorted(signatures))}")


if __name__ == "__main__":
    main()
