"""Print a table of the error rates of all models, and plot figures 3.3 and 3.4."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from fairseq_ssl.analysis.figures import figure, legend_above

Systems = dict[str, Any]
"""Error over seeds and comparison with the expert alone, by kind."""
Point = tuple[str, float, float]
"""Amount of text or windows, mean error, standard deviation of the error."""

LINES, EXTRA, WINDOWS = "lines.", "extra.", "windows."
HEADS = ("task", "expert", "kind", "error (%)", "against alone (95 %)", "initial lambda", "seeds")
BASELINES = (("alone", "--", "expert alone"), ("continued", ":", "trained on without imitators"))


def rows(name: str, systems: Systems, runs: Path) -> list[str]:
    """Return the table rows of an expert on a task."""
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
    """Return the selected initial lambda of each seed, in the order of the seeds."""
    found = {}
    for path in runs.glob(f"{name}.*.{kind}/lambda.json"):
        seed = path.parent.name.removeprefix(f"{name}.").removesuffix(f".{kind}")
        if seed.isdigit():
            found[int(seed)] = json.loads(path.read_text(encoding="utf-8"))["lambda"]
    return ", ".join(f"{found[seed]:g}" for seed in sorted(found))


def points(systems: Systems, prefixes: tuple[str, ...], whole: str) -> list[Point]:
    """Return the points of the kinds with one of the prefixes, sorted.

    `whole` is the amount of text, or the windows, of the kind `imitators`.
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
    """Return the numbers in an amount or in windows such as 1-2, as a sort key."""
    return [float(one) for one in name.split("-")]


def draw(path: Path, systems: Systems, found: list[Point], axis: str, is_amount: bool) -> None:
    """Plot errors by amount of text (logarithmic) or by windows, with the baselines."""
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
    """Return the number of unlabeled texts of a task, without extra texts."""
    sizes = json.loads((data / f"{task}.json").read_text(encoding="utf-8"))
    return str(sizes["unlabeled"])


def main() -> None:
    """Print the table and plot the figures."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("scores", type=Path, help="folder with TASK.EXPERT.json")
    options.add_argument(
        "--data", type=Path, required=True, help="folder with TASK.json, WORK/data"
    )
    options.add_argument("--runs", type=Path, required=True, help="folder of the runs, WORK/runs")
    options.add_argument("--figures", type=Path, required=True, help="folder for the figures")
    options.add_argument(
        "--windows", default="1,2,3,4", help="windows of the kind imitators (default: %(default)s)"
    )
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
