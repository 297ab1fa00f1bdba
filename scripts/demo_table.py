"""The table and the figure of the demo: a method beside its baseline on each toy task.

python scripts/demo_table.py demo/outputs/names.json            print one line
python scripts/demo_table.py --figure FILE demo/outputs/*.json  print the table, and draw it
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

SIGNIFICANT = 0.05
"""Largest p of the paired bootstrap at which a claim is called shown."""


@dataclass(frozen=True)
class Method:
    """The systems that are compared, and what the paper claims."""

    baseline: str
    method: str
    claim: str
    paper: str


METHODS = {
    "late-evidence": Method(
        "Transformer",
        "pseudo-bidirectional decoder",
        "a decoder that sees the source as its future uses evidence that comes late",
        "Zhou et al., 2020",
    ),
    "names": Method(
        "Transformer",
        "pointer-generator",
        "unknown words are copied from the source",
        "Wang et al., 2019",
    ),
    "long-lists": Method(
        "absolute positions",
        "shifted positions (SHAPE)",
        "sequences longer than those of training are decoded better",
        "Kiyono, 2022",
    ),
    "revisions": Method(
        "edit tagger, 1 round",
        "edit tagger, up to 4 rounds",
        "rounds make edits that depend on other edits",
        "Awasthi et al., 2019",
    ),
    "pre-training": Method(
        "pointer-generator, 100 pairs",
        "the same, pre-trained as a denoiser",
        "denoising unlabeled text helps where pairs are few",
        "Wang et al., 2019",
    ),
    "back-translation": Method(
        "Transformer, 150 pairs",
        "the same with tagged back-translations",
        "back-translations of monolingual text help where pairs are few",
        "Kiyono, 2022",
    ),
    "imitators": Method(
        "classifier, 200 labels",
        "the same with imitators",
        "imitators of its labels of unlabeled texts lower the error of a classifier",
        "Kiyono, 2022",
    ),
    "reconstruction": Method(
        "ByteNet, 128 pairs",
        "the same with reconstruction",
        "reconstruction of monolingual text helps where pairs are few",
        "Madsen, 2017",
    ),
}


@dataclass(frozen=True)
class Row:
    """The scores of one task."""

    task: str
    baseline: float
    method: float
    p: float

    @property
    def verdict(self) -> str:
        """The result of the claim in this run."""
        if self.method > self.baseline and self.p < SIGNIFICANT:
            return "shown"
        return "not shown here"

    def line(self) -> str:
        """Return the scores of both systems, the claim and the verdict."""
        names = METHODS[self.task]
        return (
            f"{self.task:17}{names.baseline:29}{self.baseline:5.1f}   {names.method:39}"
            f"{self.method:5.1f}   {names.claim} ({names.paper}): {self.verdict}, p = {self.p:.3f}"
        )


def read_row(path: Path) -> Row:
    """Read the scores of `fairseq-ssl score accuracy`, with a paired bootstrap."""
    content = json.loads(path.read_text(encoding="utf-8"))
    scores = {name: one["accuracy"]["seeds"][0] for name, one in content["systems"].items()}
    p = content["against the baseline"]["method"]["p"]
    return Row(path.stem, scores["baseline"], scores["method"], p)


def draw(rows: list[Row], path: Path) -> None:
    """Draw the scores of all tasks as pairs of bars."""
    figure = Figure(figsize=(7, 0.5 * len(rows) + 1), layout="constrained")
    axes = figure.subplots()
    places = range(len(rows))
    height = 0.38
    for shift, name, color in ((-height, "baseline", "#8a8f98"), (0.0, "method", "#2364aa")):
        values = [getattr(row, name) for row in rows]
        bars = axes.barh([at + shift + height / 2 for at in places], values, height, label=name)
        for bar in bars:
            bar.set_color(color)
        axes.bar_label(bars, fmt="%.1f", padding=2, fontsize=8)
    axes.set_yticks(list(places), [row.task for row in rows])
    axes.invert_yaxis()
    axes.set_xlim(0, 108)
    axes.set_xlabel("correct lines (reconstruction: digits) of the held-out set (%)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2, frameon=False)
    figure.savefig(path)


def main() -> None:
    """Print a line for each file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("scores", type=Path, nargs="+", help="scores of a task as JSON")
    parser.add_argument("--figure", type=Path, metavar="FILE", help="figure to draw, such as .svg")
    args = parser.parse_args()
    rows = [read_row(path) for path in args.scores]
    print("\n".join(row.line() for row in rows), flush=True)
    if args.figure:
        draw(rows, args.figure)


if __name__ == "__main__":
    main()
