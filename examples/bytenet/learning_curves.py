"""Plot learning curves and print the size and speed of each model, from training logs."""

from __future__ import annotations

import argparse
import json
import re
import statistics
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from fairseq_ssl.analysis.figures import COLORS, figure, legend_above
from fairseq_ssl.metrics.metric import cell

LOSSES = ("forward_loss", "nll_loss", "loss")
"""Names of losses in bits per token. `nll_loss` exists if `loss` is smoothed or per sentence."""
HEADS = (
    "model",
    "weights",
    "updates",
    "loss, train",
    "loss, valid",
    "updates/s",
    "s/epoch",
    "BLEU",
)
SPLITS = {"train": "-", "valid": "--"}
Curve = dict[int, list[float]]
"""The losses of all seeds by the number of updates."""


@dataclass
class Run:
    """Results of a training run, parsed from its log."""

    weights: int = 0
    updates: dict[int, int] = field(default_factory=dict)
    """Updates by epoch. If a resumed training logs an epoch twice, the later entry counts."""
    seconds: dict[int, float] = field(default_factory=dict)
    """Times of epochs, without validation."""
    losses: dict[str, dict[int, float]] = field(default_factory=lambda: defaultdict(dict))
    """Loss by split and number of updates."""


def read_log(path: Path) -> Run:
    """Parse the end-of-epoch lines of fairseq-train with --log-format simple."""
    run = Run()
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        size = re.search(r"num\. shared model params: ([\d,]+)", line)
        if size:
            run.weights = int(size[1].replace(",", ""))
        named = re.search(r"\| (train|valid) \| epoch (\d+) \|(.*)", line)
        if not named:
            continue
        values = dict(re.findall(r"(\w+) (-?[\d.e+-]+|nan|inf)(?= \||$)", named[3]))
        loss = next((values[name] for name in LOSSES if name in values), None)
        if loss is None or "num_updates" not in values:
            continue
        updates, epoch = int(values["num_updates"]), int(named[2])
        run.losses[named[1]][updates] = float(loss)
        if named[1] == "train":
            run.updates[epoch] = updates
            run.seconds[epoch] = _seconds(values, updates - run.updates.get(epoch - 1, 0))
    return run


def _seconds(values: dict[str, str], updates: int) -> float:
    """Return the time of an epoch, as precise as the rounded numbers of the log allow."""
    speed = float(values.get("ups", 0))
    return updates / speed if speed > 1 else float(values.get("train_wall", 0))


def group_of(name: str) -> str:
    """Return the name of a run without its seed."""
    return re.sub(r"[.-]\d+$", "", name)


def curves(runs: Iterable[Run], split: str) -> Curve:
    """Return the losses of a split at the updates common to all runs."""
    found: Curve = defaultdict(list)
    count = 0
    for run in runs:
        count += 1
        for updates, loss in run.losses[split].items():
            found[updates].append(loss)
    return {updates: found[updates] for updates in sorted(found) if len(found[updates]) == count}


def row(group: str, runs: list[Run], bleu: list[float]) -> list[str]:
    """Return the table cells of a kind of model."""
    epochs = [run for run in runs if run.seconds and sum(run.seconds.values())]
    speeds = [max(run.updates.values()) / sum(run.seconds.values()) for run in epochs]
    seconds = [statistics.fmean(run.seconds.values()) for run in epochs]
    train, valid = (
        [choice(run.losses[split].values()) for run in runs if run.losses[split]]
        for split, choice in (("train", lambda values: list(values)[-1]), ("valid", min))
    )
    most = max((max(run.updates.values(), default=0) for run in runs), default=0)
    shown = [cell(values, 2) if values else "" for values in (train, valid, speeds, seconds)]
    return [group, f"{runs[0].weights:,}", f"{most:,}", *shown, cell(bleu)]


def draw(path: Path, groups: dict[str, list[Run]]) -> None:
    """Plot the mean training and validation loss of each kind of model."""
    with figure(path) as (ax,):
        for place, (group, runs) in enumerate(groups.items()):
            for split, style in SPLITS.items():
                curve = curves(runs, split)
                if curve:
                    means = [statistics.fmean(losses) for losses in curve.values()]
                    label = group if split == "train" else None
                    colour = COLORS[place % len(COLORS)]
                    ax.plot(list(curve), means, ls=style, color=colour, label=label)
        ax.set(xlabel="updates", ylabel="bits per token (train -, valid --)", yscale="log")
        ax.xaxis.get_major_locator().set_params(integer=True)
        for axis_format in (ax.yaxis.set_major_formatter, ax.yaxis.set_minor_formatter):
            axis_format("{x:g}")  # plain numbers, since losses rarely span a decade
        legend_above(ax)


def main() -> None:
    """Read all logs, write the figure and its data, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("runs", type=Path, help="folder with RUN/train.log")
    parser.add_argument(
        "output", type=Path, help="output figure, with its data in a .json file of the same name"
    )
    parser.add_argument(
        "--bleu", metavar="FILE", help="file name of sacreBLEU's JSON output in each RUN"
    )
    args = parser.parse_args()
    groups: dict[str, list[Run]] = defaultdict(list)
    bleu: dict[str, list[float]] = defaultdict(list)
    for path in sorted(args.runs.glob("*/train.log")):
        group = group_of(path.parent.name)
        groups[group].append(read_log(path))
        score = path.parent / (args.bleu or "none")
        if args.bleu and score.exists():
            bleu[group].append(json.loads(score.read_text(encoding="utf-8"))["score"])
    groups = {group: runs for group, runs in groups.items() if any(run.updates for run in runs)}
    if not groups:
        parser.error(f"{args.runs} has no train.log with a complete epoch.")
    draw(args.output, groups)
    numbers = {
        group: {split: curves(runs, split) for split in SPLITS} for group, runs in groups.items()
    }
    args.output.with_suffix(".json").write_text(json.dumps(numbers) + "\n", encoding="utf-8")
    count = len(HEADS) if bleu else len(HEADS) - 1
    print(f"| {' | '.join(HEADS[:count])} |\n|{' --- |' * count}")
    for group, runs in groups.items():
        print(f"| {' | '.join(row(group, runs, bleu[group])[:count])} |")
    print("\nmean ± sample standard deviation (seeds); last and best loss in bits per token")


if __name__ == "__main__":
    main()
