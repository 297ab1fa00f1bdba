"""Plot scores by number of pairs and by pre-training updates, and perplexity by epoch."""

from __future__ import annotations

import argparse
import re
import statistics
import sys
from collections import defaultdict
from pathlib import Path

from matplotlib.ticker import MaxNLocator, ScalarFormatter
from scores import collect, pretraining_updates

from fairseq_ssl.analysis.figures import COLORS, figure

VALID = re.compile(r"epoch (\d+) \| valid on 'valid' subset .*?\| ppl ([\d.]+)")
KINDS = ("scratch", "decoder_only", "encoder_only", "pretrained")


def amounts(runs: Path, output: Path, task: str, pairs: int) -> None:
    """Plot the first score of each set with a line for each kind of model, as in figure 3."""
    scores, _ = collect(runs)
    parts = sorted(
        {at for of, at, _, kind in scores if of == task and at != "valid" and kind in KINDS}
    )
    if not parts:
        print(f"{task}: no scores to plot by amount", file=sys.stderr)
        return
    with figure(output / f"amounts.{task}.png", columns=len(parts)) as axes:
        for ax, part in zip(axes, parts, strict=True):
            ticks: set[int] = set()
            for kind, colour in zip(KINDS, COLORS, strict=False):
                points = sorted(
                    (
                        pairs if amount == "all" else int(amount),
                        statistics.fmean(values[0] for values in seeds.values()),
                    )
                    for (of, at, amount, name), seeds in scores.items()
                    if (of, at, name) == (task, part, kind)
                )
                if points:
                    x, y = zip(*points, strict=True)
                    ax.plot(x, y, marker="o", color=colour, label=kind)
                    ticks |= set(x)
            ax.set(xscale="log", xlabel="training pairs", title=part)
            ax.set_xticks(sorted(ticks), [f"{tick:,}" for tick in sorted(ticks)])
            ax.minorticks_off()
        axes[0].set_ylabel("score")
        axes[0].legend(frameon=False)


def updates(runs: Path, output: Path, task: str) -> None:
    """Plot the first score of each set by updates of pre-training, as in figure 2.

    Models from scratch have 0 updates.
    """
    points: dict[str, dict[str, list[tuple[int, float]]]] = defaultdict(lambda: defaultdict(list))
    for (of, part, amount, kind), seeds in collect(runs)[0].items():
        if of == task and part != "valid" and (after := pretraining_updates(kind)) is not None:
            mean = statistics.fmean(values[0] for values in seeds.values())
            points[part][amount].append((after, mean))
    if not any(len(line) > 1 for lines in points.values() for line in lines.values()):
        return
    with figure(output / f"updates.{task}.png", columns=len(points)) as axes:
        for ax, part in zip(axes, sorted(points), strict=True):
            for (amount, line), colour in zip(sorted(points[part].items()), COLORS, strict=False):
                ax.plot(*zip(*sorted(line), strict=True), marker="o", color=colour, label=amount)
            ax.set(xlabel="updates of pre-training", title=part)
        axes[0].set_ylabel("score")
        axes[0].legend(frameon=False, title="training pairs")


def epochs(runs: Path, output: Path, task: str) -> None:
    """Plot the perplexity on the dev set by epoch with a line for each run, as in figure 4."""
    found: dict[str, dict[str, list[dict[int, float]]]] = defaultdict(lambda: defaultdict(list))
    for log in sorted(runs.glob(f"{task}.*/train.log")):
        _, amount, kind, _ = log.parent.name.split(".")
        curve = {int(n): float(ppl) for n, ppl in VALID.findall(log.read_text("utf-8"))}
        found[amount][kind].append(curve)
    if not found:
        print(f"{task}: no training runs to plot by epoch", file=sys.stderr)
        return
    with figure(output / f"epochs.{task}.png", columns=len(found)) as axes:
        for ax, (amount, kinds) in zip(axes, found.items(), strict=True):
            for kind, colour in zip(KINDS, COLORS, strict=False):
                for number, curve in enumerate(kinds.get(kind, [])):
                    label = kind if number == 0 else None
                    ax.plot(list(curve), list(curve.values()), color=colour, label=label)
            ax.set(yscale="log", xlabel="epoch", title=f"{amount} pairs")
            ax.xaxis.set_major_locator(MaxNLocator(integer=True))
            for which in (ax.yaxis.set_major_formatter, ax.yaxis.set_minor_formatter):
                which(ScalarFormatter())
        axes[0].set_ylabel("perplexity, dev set")
        axes[0].legend(frameon=False)


def main() -> None:
    """Plot all figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("runs", type=Path, help="folder of the runs, WORK/runs")
    parser.add_argument("output", type=Path, help="folder for the figures")
    parser.add_argument("--task", required=True)
    args = parser.parse_args()
    text = args.runs.parent / "data" / f"{args.task}.all" / "train.src-trg.src"
    pairs = sum(1 for _ in text.open(encoding="utf-8")) if text.exists() else 0
    amounts(args.runs, args.output, args.task, pairs)
    updates(args.runs, args.output, args.task)
    epochs(args.runs, args.output, args.task)


if __name__ == "__main__":
    main()
