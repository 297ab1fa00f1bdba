"""Plot F on the validation set by amount and noise of the pseudo data and by up-sampling rate."""

from __future__ import annotations

import argparse
import json
import re
import statistics
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from fairseq_ssl.analysis.figures import COLORS, figure, legend_above

SCORE = "valid.errant.json"
F = "F_0.5"
FIGURES = {
    "amounts": ("amount", "pseudo pairs", "log"),
    "beta_random": ("beta_random", "beta_random", "linear"),
    "mu_mask": ("mu_mask", "mu_mask", "linear"),
    "upsampling": ("upsampling", "up-sampling rate of genuine pairs", "log"),
}
"""Setting, label and scale of the x axis by file name (figures 4.2 to 4.4, and 4.4.4)."""
Points = dict[str, dict[float, list[float]]]
"""F of each run, by line and x."""

NAME = re.compile(
    r"(?P<kind>joint|upsample|pretrain)(@(?P<times>\d+))?-(?P<method>noisy|direct|spell)"
    r"(@(?P<value>[\d.]+)(_(?P<keep>[\d.]+))?)?-(?P<corpus>[^-]+)-(?P<amount>\d+)(?P<rest>.*)"
)
"""Name of a system, as in settings.sh."""


@dataclass(frozen=True)
class Defaults:
    """Default settings, for systems whose names do not include them."""

    beta: float
    mask: float
    keep: float
    upsample: float


def settings(system: str, defaults: Defaults) -> dict[str, str | float]:
    """Parse the settings in a system's name. The baseline and ensembles have none."""
    name = NAME.fullmatch(system)
    if not name:
        return {}
    found: dict[str, str | float] = {"kind": name["kind"], "method": name["method"]}
    if name["method"] == "noisy":
        found["beta_random"] = float(name["value"] or defaults.beta)
    if name["method"] == "direct":
        found["mu_mask"] = float(name["value"] or defaults.mask)
        found["mu_keep"] = float(name["keep"] or defaults.keep)
    if name["kind"] != "pretrain":  # joint training is up-sampling by 1
        found["kind"] = "joint"
        found["upsampling"] = float(name["times"] or 1)
        if name["kind"] == "upsample" and not name["times"]:
            found["upsampling"] = defaults.upsample
    found |= {"corpus": name["corpus"], "amount": float(name["amount"])}
    return found | ({"with": name["rest"][1:]} if name["rest"] else {})


def scores(runs: Path) -> dict[str, list[float]]:
    """Read F of each run, by system."""
    found: dict[str, list[float]] = defaultdict(list)
    for path in sorted(runs.glob(f"*/{SCORE}")):
        value = float(json.loads(path.read_text(encoding="utf-8"))[F])
        found[path.parent.name.rpartition(".")[0]].append(value)
    return found


def curves(found: dict[str, list[float]], x: str, defaults: Defaults) -> Points:
    """Return a line for each group of systems that differ only in the setting `x`."""
    usual = {"beta_random": defaults.beta, "mu_mask": defaults.mask, "mu_keep": defaults.keep}
    usual["upsampling"] = 1.0
    points: Points = defaultdict(lambda: defaultdict(list))
    for system, values in found.items():
        others = settings(system, defaults)
        if x in others:
            at = float(others.pop(x))
            label = [_shown(*item) for item in others.items() if item not in usual.items()]
            points[", ".join(label)][at] += values
    return {line: places for line, places in points.items() if len(places) > 1}


def _shown(name: str, value: str | float) -> str:
    if isinstance(value, str):
        return value
    return f"{value:.0f} pairs" if name == "amount" else f"{name} {value:g}"


def draw(path: Path, points: Points, baseline: list[float], label: str, scale: str) -> None:
    """Plot the lines with standard deviations, and the baseline. Without lines plot nothing."""
    if not points:
        return
    with figure(path) as (ax,):
        for (line, places), colour in zip(sorted(points.items()), COLORS * 9, strict=False):
            at = sorted(places)
            means = [statistics.fmean(places[place]) for place in at]
            spread = [statistics.stdev(v) if len(v := places[p]) > 1 else 0.0 for p in at]
            ax.errorbar(at, means, yerr=spread, marker="o", color=colour, label=line, capsize=2)
        if baseline:
            ax.axhline(statistics.fmean(baseline), color="grey", ls="--", label="baseline")
        ax.set(xlabel=label, ylabel="$F_{0.5}$, ERRANT", xscale=scale)
        legend_above(ax)
    numbers = {line: dict(sorted(places.items())) for line, places in sorted(points.items())}
    text = json.dumps({"baseline": baseline, **numbers}, indent=2)
    path.with_suffix(".json").write_text(f"{text}\n", encoding="utf-8")


def main() -> None:
    """Plot the figures with available scores."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip())
    parser.add_argument("runs", type=Path, help="folder of the runs, WORK/runs")
    parser.add_argument("output", type=Path, help="folder for the figures")
    for name, shown in (
        ("beta", "beta_random"),
        ("mask", "mu_mask"),
        ("keep", "mu_keep"),
        ("upsample", "up-sampling rate"),
    ):
        words = f"{shown} of systems whose names do not include it"
        parser.add_argument(f"--{name}", type=float, required=True, help=words)
    args = parser.parse_args()
    defaults = Defaults(args.beta, args.mask, args.keep, args.upsample)
    found = scores(args.runs)
    baseline = found.get("baseline", [])
    for name, (x, label, scale) in FIGURES.items():
        points = curves(found, x, defaults)
        draw(args.output / f"{name}.png", points, baseline, label, scale)


if __name__ == "__main__":
    main()
