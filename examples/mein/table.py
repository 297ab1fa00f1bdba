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
HEADS = (
    *("task", "expert", "kind", "error (%)", "against alone (95 %)", "against continued (95 %)"),
    *("initial lambda", "seeds"),
)
BASELINES = (("alone", "--", "expert alone"), ("continued", ":", "trained on without imitators"))


def rows(name: str, alone: Systems, continued: Systems, runs: Path) -> list[str]:
    """Return the table rows of an expert on a task.

    Args:
        name: task and expert.
        alone: scores by kind, compared with the expert alone, or none.
        continued: the same scores, compared with the expert after continued training, or none.
        runs: folder of the runs.
    """
    task, _, expert = name.partition(".")
    found = []
    for kind, told in (alone or continued).items():
        error = told["error"]
        difference = [_difference(scores.get(kind, {})) for scores in (alone, continued)]
        deviation = f" ± {error['sd']:.2f}" if told["seeds"] > 1 else ""
        mean = f"{error['mean']:.2f}{deviation}"
        cells = (task, expert, kind, mean, *difference, chosen(runs, name, kind), told["seeds"])
        found.append(f"| {' | '.join(map(str, cells))} |")
    return found


def _difference(scores: dict[str, Any]) -> str:
    """Return the difference to the baseline with its interval, if there is a comparison."""
    against = scores.get("against")
    if against is None:
        return ""
    low, high = against["interval"]
    return f"{against['difference']:+.2f} ({low:+.2f} to {high:+.2f})"


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


def read(path: Path) -> Systems:
    """Return the scores by kind in a file, none if there is no file."""
    found: Systems = json.loads(path.read_text("utf-8"))["systems"] if path.exists() else {}
    return found


def unlabeled(data: Path, name: str) -> str:
    """Return the number of unlabeled texts of a task and expert, without extra texts."""
    task, _, expert = name.partition(".")
    folder = name if expert == "bert" else task
    sizes = json.loads((data / f"{folder}.json").read_text(encoding="utf-8"))
    return str(sizes["unlabeled"])


def main() -> None:
    """Print the table and plot the figures."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("scores", type=Path, help="folder with BASELINE/TASK.EXPERT.json")
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
    for name in sorted({path.stem for path in args.scores.glob("*/*.json")}):
        alone, continued = (read(args.scores / one[0] / f"{name}.json") for one in BASELINES)
        systems = alone or continued
        for row in rows(name, alone, continued, args.runs):
            print(row)
        amounts = points(systems, (LINES, EXTRA), unlabeled(args.data, name))
        if amounts:
            figure_path = args.figures / f"{name}.{LINES}png"
            draw(figure_path, systems, amounts, "unlabeled texts", is_amount=True)
        windows = points(systems, (WINDOWS,), args.windows.replace(",", "-"))
        if windows:
            figure_path = args.figures / f"{name}.{WINDOWS}png"
            draw(figure_path, systems, windows, "windows", is_amount=False)


if __name__ == "__main__":
    main()
