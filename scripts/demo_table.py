"""The table and the page of the demo: a method and its baseline on each toy task.

python scripts/demo_table.py demo/outputs/names.json                      print one line
python scripts/demo_table.py --page demo/report.html demo/outputs/*.json  print all, write the page
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from matplotlib.figure import Figure

from fairseq_ssl.io.outputs import atomic_lines
from fairseq_ssl.io.text_files import read_lines
from fairseq_ssl.metrics.metric import BootstrapResult
from fairseq_ssl.report import Page, ReportFiles, Sentences, score_table
from fairseq_ssl.report.score_files import ScoreComparison
from fairseq_ssl.signature import Signature

SIGNIFICANT = 0.05
"""Maximum p of the paired bootstrap at which a claim is called shown."""
MAX_SENTENCES = 20
"""Maximum number of sentences of a task on the page."""


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
        "sequences longer than in training are decoded better",
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
        "imitators, trained on its labels of unlabeled texts, help a classifier",
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
    """The scores of one task, and the difference between them."""

    task: str
    baseline: float
    method: float
    result: BootstrapResult

    @property
    def is_shown(self) -> bool:
        """True if the method is significantly better in this run."""
        return self.result.difference > 0 and self.result.p < SIGNIFICANT

    def line(self) -> str:
        """Return the scores of both systems, the claim and the verdict."""
        names = METHODS[self.task]
        verdict = "shown" if self.is_shown else "not shown here"
        return (
            f"{self.task:17}{names.baseline:29}{self.baseline:5.1f}   {names.method:39}"
            f"{self.method:5.1f}   {names.claim} ({names.paper}): {verdict}, "
            f"p = {self.result.p:.3f}"
        )


def read_row(path: Path) -> Row:
    """Read the scores of `fairseq-ssl score accuracy`, with a paired bootstrap."""
    content = json.loads(path.read_text(encoding="utf-8"))
    scores = {name: one["accuracy"]["seeds"][0] for name, one in content["systems"].items()}
    result = BootstrapResult(**content["against the baseline"]["method"])
    return Row(path.stem, scores["baseline"], scores["method"], result)


def draw(rows: Sequence[Row], path: Path) -> None:
    """Draw the difference of each task with its 95% interval."""
    figure = Figure(figsize=(9, 0.55 * len(rows) + 1), layout="constrained")
    axes = figure.subplots()
    labels = []
    for place, row in enumerate(rows):
        color = "#2364aa" if row.is_shown else "#8a8f98"
        axes.hlines(place, row.result.low, row.result.high, color=color, linewidth=2)
        axes.plot(row.result.difference, place, "o", color=color)
        scores = f"{row.baseline:.1f} to {row.method:.1f}"
        axes.annotate(scores, (1.02, place), xycoords=("axes fraction", "data"), va="center")
        names = METHODS[row.task]
        labels.append(f"{row.task}: {names.method}\nagainst: {names.baseline}")
    axes.axvline(0, color="#444444", linewidth=1)
    axes.set_yticks(range(len(rows)), labels)
    axes.invert_yaxis()
    axes.set_xlabel("method minus baseline, in points")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.grid(axis="x", alpha=0.3)
    figure.savefig(path)


def write_page(rows: Sequence[Row], outputs: Path, path: Path) -> None:
    """Write a page with the figure, a sentence on each method, and lines where systems differ."""
    texts: list[tuple[str, ...]] = []
    differences = {}
    for row in rows:
        names, start = METHODS[row.task], len(texts)
        sides = ("source", "reference", "baseline", "method")
        lines = zip(
            *(read_lines(outputs / side / f"{row.task}.txt") for side in sides), strict=True
        )
        texts += islice((line for line in lines if line[2] != line[3]), MAX_SENTENCES)
        where = f" Sentences {start + 1} to {len(texts)}." if len(texts) > start else ""
        differences[f"{row.task}: {names.claim} ({names.paper}).{where}"] = row.result
    caption = (
        "Each method against a baseline of the same size, on a toy task that needs what the method "
        "adds: correct lines of the test set (reconstruction: correct digits) in percent, and the "
        "difference with its 95% interval. The sentences are lines where the two systems differ."
    )
    with TemporaryDirectory() as folder, atomic_lines(path) as file:
        figure = Path(folder, "differences.svg")
        draw(rows, figure)
        comparison = ScoreComparison("What each method adds", differences)
        files = ReportFiles(figures={caption: figure}, comparisons=[comparison])
        signature = Signature("demo", {"tasks": len(rows), "sentences": len(texts)})
        sentences = _sentences(texts) if texts else None
        page = Page("Methods on toy tasks", files, score_table([]), sentences, str(signature))
        file.write(page.html())


def _sentences(texts: Sequence[tuple[str, ...]]) -> Sentences:
    source, reference, *outputs = map(list, zip(*texts, strict=True))
    correct = [
        [100.0 * (ours == theirs) for ours, theirs in zip(lines, reference, strict=True)]
        for lines in outputs
    ]
    return Sentences(
        ["baseline", "method"], outputs, source, [reference], scores=correct, metric="accuracy"
    )


def main() -> None:
    """Print a line for each file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("scores", type=Path, nargs="+", help="scores of a task as JSON")
    parser.add_argument("--page", type=Path, metavar="FILE", help="page to write, such as a.html")
    args = parser.parse_args()
    rows = [read_row(path) for path in args.scores]
    # one write, since several methods of the demo print to the same pipe
    sys.stdout.write("".join(f"{row.line()}\n" for row in rows))
    sys.stdout.flush()
    if args.page:
        write_page(rows, args.scores[0].parent, args.page)


if __name__ == "__main__":
    main()
