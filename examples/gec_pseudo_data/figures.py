"""Draw F on the validation set by the amount of pseudo data, and by how noisy its sources are."""

from __future__ import annotations

import argparse
import json
import re
import statistics
from collections import defaultdict
from pathlib import Path

from fairseq_ssl.analysis.figures import COLOURS, figure, legend_above

SCORE = "valid.errant.json"
F = "F_0.5"
DEFAULTS = {"noisy": 6.0, "direct": 0.3}
"""beta_random and mu_mask where the system does not name them."""
LABELS = {"noisy": "beta_random", "direct": "mu_mask"}

Points = dict[str, dict[float, list[float]]]
"""By line and place, F of each seed."""


def scores(runs: Path) -> dict[str, list[float]]:
    """Read F of each system."""
    found: dict[str, list[float]] = defaultdict(list)
    for path in sorted(runs.glob(f"*/{SCORE}")):
        value = float(json.loads(path.read_text(encoding="utf-8"))[F])
        found[path.parent.name.rpartition(".")[0]].append(value)
    return found


def amounts(found: dict[str, list[float]]) -> Points:
    """Take the systems whose kind is the same but for the amount, as in figure 4.4."""
    points: Points = defaultdict(dict)
    for system, values in found.items():
        name = re.fullmatch(r"(\w+-[a-z]+)-(\w+)-(\d+)", system)
        if name:
            points[f"{name[1]}, {name[2]}"][float(name[3])] = values
    return {line: places for line, places in points.items() if len(places) > 1}


def noise(found: dict[str, list[float]], method: str) -> Points:
    """Take the systems that are the same but for a method's parameter, as in 4.2 and 4.3."""
    points: Points = defaultdict(dict)
    for system, values in found.items():
        name = re.fullmatch(rf"(\w+)-{method}(@[\d.]+)?-(\w+-\d+)", system)
        if name:
            place = float(name[2][1:]) if name[2] else DEFAULTS[method]
            points[f"{name[1]}, {name[3].replace('-', ', ')}"][place] = values
    return {line: places for line, places in points.items() if len(places) > 1}


def draw(path: Path, points: Points, baseline: list[float], label: str, log: bool) -> None:
    """Draw lines with bars of a deviation, and the baseline; nothing where there are no lines."""
    if not points:
        return
    with figure(path) as (ax,):
        for (line, places), colour in zip(sorted(points.items()), COLOURS * 9, strict=False):
            at = sorted(places)
            means = [statistics.fmean(places[place]) for place in at]
            spread = [statistics.stdev(v) if len(v := places[p]) > 1 else 0.0 for p in at]
            ax.errorbar(at, means, yerr=spread, marker="o", color=colour, label=line, capsize=2)
        if baseline:
            ax.axhline(statistics.fmean(baseline), color="grey", ls="--", label="baseline")
        ax.set(xlabel=label, ylabel="$F_{0.5}$, ERRANT", xscale="log" if log else "linear")
        legend_above(ax)
    numbers = {line: dict(sorted(places.items())) for line, places in sorted(points.items())}
    text = json.dumps({"baseline": baseline, **numbers}, indent=2)
    path.with_suffix(".json").write_text(f"{text}\n", encoding="utf-8")


def main() -> None:
    """Draw what there are numbers for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip())
    parser.add_argument("runs", type=Path, help="WORK/runs")
    parser.add_argument("output", type=Path, help="folder for the figures")
    args = parser.parse_args()
    found = scores(args.runs)
    baseline = found.get("baseline", [])
    draw(args.output / "amounts.png", amounts(found), baseline, "pseudo pairs", True)
    for method, label in LABELS.items():
        draw(args.output / f"{label}.png", noise(found, method), baseline, label, False)


if __name__ == "__main__":
    main()
