"""The error rates of all models side by side, and figures 3.3 and 3.4 where there is something."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from fairseq_ssl.analysis.figures import figure, legend_above

Systems = dict[str, Any]
"""By kind: its error over the seeds, and how it compares with the expert alone."""


def rows(name: str, systems: Systems) -> list[str]:
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
        found.append(f"| {task} | {expert} | {kind} | {mean} | {difference} | {told['seeds']} |")
    return found


def points(systems: Systems, prefix: str, whole: str) -> list[tuple[str, float, float]]:
    """Return the kinds that begin so, in their order, with means and deviations of their errors.

    The kind `imitators` has the place of `whole`: what it has of what differs.
    """
    found = {kind.removeprefix(prefix): kind for kind in systems if kind.startswith(prefix)}
    if found and "imitators" in systems:
        found.setdefault(whole, "imitators")
    errors = {name: systems[kind]["error"] for name, kind in found.items()}
    return [(name, errors[name]["mean"], errors[name]["sd"]) for name in sorted(errors, key=place)]


def place(name: str) -> list[float]:
    """Return what orders amounts, and windows as 1-2: by their numbers; other words come last."""
    numbers = name.split("-")
    return [float(one) for one in numbers] if numbers[0].isdigit() else [float("inf")]


def draw(path: Path, systems: Systems, found: list[tuple[str, float, float]], axis: str) -> None:
    """Draw errors over what differs, and the expert's own as a line."""
    names, means, deviations = zip(*found, strict=True)
    with figure(path) as (ax,):
        ax.errorbar(names, means, yerr=deviations, marker="o", capsize=3, label="with imitators")
        if "alone" in systems:
            alone = systems["alone"]["error"]["mean"]
            ax.axhline(alone, color="grey", ls="--", label="expert alone")
        ax.set(xlabel=axis, ylabel="error (%)")
        legend_above(ax)


def main() -> None:
    """Print the table and draw."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("scores", type=Path, help="folder of TASK.EXPERT.json")
    options.add_argument("--figures", type=Path, help="folder to draw in")
    options.add_argument("--windows", default="1,2,3,4", help="of the kind imitators")
    args = options.parse_args()
    print("| task | expert | kind | error (%) | against alone (95 %) | seeds |")
    print("| --- | --- | --- | --- | --- | --- |")
    for path in sorted(args.scores.glob("*.json")):
        systems = json.loads(path.read_text(encoding="utf-8"))["systems"]
        for row in rows(path.stem, systems):
            print(row)
        whole = args.windows.replace(",", "-")
        for prefix, axis, every in (
            ("lines.", "unlabelled texts", "all"),
            ("windows.", "windows", whole),
        ):
            found = points(systems, prefix, every)
            if args.figures is not None and found:
                draw(args.figures / f"{path.stem}.{prefix}png", systems, found, axis)


if __name__ == "__main__":
    main()
