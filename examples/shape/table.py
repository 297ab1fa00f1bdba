"""Print the table of scores, mean and deviation over the seeds, as Markdown."""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
from collections import defaultdict
from pathlib import Path

DATASETS = ("vanilla", "extrapolate", "interpolate")
KINDS = ("absolute", "shifted", "relative")

Scores = dict[tuple[str, str, str], list[float]]


def collect(runs: Path) -> tuple[Scores, set[str]]:
    """Read RUNS/DATASET.KIND.SEED/SET.bleu.json; a seed's score is the mean over its sets."""
    scores: Scores = defaultdict(list)
    signatures = set()
    for run in sorted(runs.iterdir()):
        dataset, kind, _ = run.name.rsplit(".", 2)
        for part in ("valid", "test"):
            found = [json.loads(path.read_text()) for path in run.glob(f"{part}*.bleu.json")]
            signatures |= {str(one["signature"]) for one in found}
            if found:
                mean = statistics.fmean(one["score"] for one in found)
                scores[dataset, kind, part].append(mean)
    return scores, signatures


def cell(values: list[float]) -> str:
    """Show mean, sample deviation and how many seeds; what has no score was not run."""
    if not values:
        return "not run"
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.fmean(values):.2f} ± {deviation:.2f} ({len(values)})"


def main() -> None:
    """Print a row for each data set and kind of positions, and sacreBLEU's signature."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip())
    parser.add_argument("runs", type=Path, help="WORK/runs")
    scores, signatures = collect(parser.parse_args().runs)
    print("| data set | positions | valid | test |\n| --- | --- | --- | --- |")
    for dataset, kind in itertools.product(DATASETS, KINDS):
        shown = [cell(scores.get((dataset, kind, part), [])) for part in ("valid", "test")]
        if set(shown) != {"not run"}:
            print(f"| {dataset} | {kind} | {' | '.join(shown)} |")
    print(f"\nmean ± sample deviation (seeds); {', '.join(sorted(signatures))}")


if __name__ == "__main__":
    main()
