"""The error rates of all models side by side, and figures 3.3 and 3.4 where there is something."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from fairseq_ssl.analysis.figures import figure, legend_above

Systems = dict[str, Any]
"""By kind: its error over the seeds, and how it compares with the expert alone."""
Point = tuple[str, float, float]
"""What differs, the mean of the errors and their standard deviation."""

LINES, EXTRA, WINDOWS = "lines.", "extra.", "windows."
HEADS = ("task", "expert", "kind", "error (%)", "against alone (95 %)", "initial lambda", "seeds")
BASELINES = (("alone", "--", "expert alone"), ("continued", ":", "trained on without imitators"))


def rows(name: str, systems: Systems, runs: Path) -> list[str]:
    """Return a table's rows of one expert on one task."""
    task, _, expert = name.partition(".")
    found = []
    for kind, told in systems.items():
        error, against = told["error"], told.get("against")
        difference = ""
        if against is not None:
            low, high = against["interval"]
            difference = f"{against['difference']:+.2f} ({low:+.2f} to {high:+.2f})"
        deviation = f" ± {error['sd']:.2f}" if told["seeds"] > 1 else ""
        mean = f"{error['mean']:.2f}{deviation}"
        cells = (task, expert, kind, mean, difference, chosen(runs, name, kind), told["seeds"])
        found.append(f"| {' | '.join(map(str, cells))} |")
    return found


def chosen(runs: Path, name: str, kind: str) -> str:
    """Return the initial lambda that was chosen for each seed, in the order of the seeds."""
    found = {}
    for path in runs.glob(f"{name}.*.{kind}/lambda.json"):
        seed = path.parent.name.removeprefix(f"{name}.").removesuffix(f".{kind}")
        if seed.isdigit():
            found[int(seed)] = json.loads(path.read_text(encoding="utf-8"))["lambda"]
    return ", ".join(f"{found[seed]:g}" for seed in sorted(found))


def points(systems: Systems, prefixes: tuple[str, ...], whole: str) -> list[Point]:
    """Return the kinds that begin so, in their order, with means and deviations of their errors.

    The kind `imitators` has the place of `whole`: its amount of text, or its windows.
    """
    found = {
        kind.removeprefix(prefix): kind
        for prefix in prefixes
        for kind in systems
        if kind.startswith(prefix)
    }
    if found and "imitators" in systems:
        found.setdefault(whole, "imitators")
    errors = {name: systems[kind]["error"] for name, kind in found.items()}
    return [(name, errors[name]["mean"], errors[name]["sd"]) for name in sorted(errors, key=place)]


def place(name: str) -> list[float]:
    """Return what orders amounts, and windows as 1-2: their numbers."""
    return [float(one) for one in name.split("-")]


def draw(path: Path, systems: Systems, found: list[Point], axis: str, is_amount: bool) -> None:
    """Draw errors over what differs, amounts of text on a logarithmic axis, and the baselines."""
    names, means, deviations = zip(*found, strict=True)
    with figure(path) as (ax,):
        at = [float(name) for name in names] if is_amount else names
        ax.errorbar(at, means, yerr=deviations, marker="o", capsize=3, label="with imitators")
        for kind, style, label in BASELINES:
            if kind in systems:
                mean = systems[kind]["error"]["mean"]
                ax.axhline(mean, color="grey", ls=style, label=label)
        if is_amount:
            ax.set_xscale("log")
            ax.set_xticks(at, [f"{number:,.0f}" for number in at], rotation=30)
            ax.set_xticks([], minor=True)
        ax.set(xlabel=axis, ylabel="error (%)")
        legend_above(ax, columns=3)


def unlabeled(data: Path, task: str) -> str:
    """Return how many unlabeled texts a task has, without the extra ones."""
    told = json.loads((data / f"{task}.json").read_text(encoding="utf-8"))
    return str(told["unlabeled"])


def main() -> None:
    """Print the table and draw."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("scores", type=Path, help="folder of TASK.EXPERT.json")
    options.add_argument("--data", type=Path, required=True, help="WORK/data, with TASK.json")
    options.add_argument("--runs", type=Path, required=True, help="WORK/runs, with the lambdas")
    options.add_argument("--figures", type=Path, required=True, help="folder to draw in")
    options.add_argument("--windows", default="1,2,3,4", help="of the kind imitators")
    args = options.parse_args()
    print(f"| {' | '.join(HEADS)} |\n|{' --- |' * len(HEADS)}")
    for path in sorted(args.scores.glob("*.json")):
        systems = json.loads(path.read_text(encoding="utf-8"))["systems"]
        for row in rows(path.stem, systems, args.runs):
            print(row)
        task = path.stem.partition(".")[0]
        amounts = points(systems, (LINES, EXTRA), unlabeled(args.data, task))
        if amounts:
            name = args.figures / f"{path.stem}.{LINES}png"
            draw(name, systems, amounts, "unlabeled texts", is_amount=True)
        windows = points(systems, (WINDOWS,), args.windows.replace(",", "-"))
        if windows:
            name = args.figures / f"{path.stem}.{WINDOWS}png"
            draw(name, systems, windows, "windows", is_amount=False)


if __name__ == "__main__":
    main()
