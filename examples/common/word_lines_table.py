"""Print a table of accuracy on words in lines by source length, as Markdown.

A word of the reference is correct if it is in a longest common subsequence of the words of the
output and of the reference.
"""

from __future__ import annotations

import argparse
import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from pathlib import Path

from rapidfuzz.distance import LCSseq

from fairseq_ssl.metrics.metric import cell

UNCORRECTED = "uncorrected"
LOSS = re.compile(r"valid on 'valid' subset .*?\bnll_loss ([\d.]+)")


def words(line: str, separator: str) -> list[str]:
    """Split a line into its words."""
    return [" ".join(word.split()) for word in line.split(separator)]


def accuracies(
    lines: Iterable[tuple[str, str, str]], ends: Sequence[int], separator: str
) -> list[float | None]:
    """Return the percentage of correct words by source length, and in all lines.

    Args:
        lines: source, output and reference of each line.
        ends: maximum source lengths of all buckets but the last, in tokens.
        separator: token between words.
    """
    correct, total = [0] * (len(ends) + 2), [0] * (len(ends) + 2)
    for source, output, reference in lines:
        expected = words(reference, separator)
        found = LCSseq.similarity(words(output, separator), expected)
        for bucket in (bisect_left(ends, len(source.split())), -1):
            correct[bucket] += found
            total[bucket] += len(expected)
    return [100 * c / t if t else None for c, t in zip(correct, total, strict=True)]


def read(path: Path) -> list[str]:
    """Read the lines of a file."""
    return path.read_text("utf-8").split("\n")[:-1]


def last_loss(folder: Path) -> list[float]:
    """Return the last validation loss in the log of a training run, base 2, if there is one."""
    log = folder / "train.log"
    found = LOSS.findall(log.read_text("utf-8")) if log.exists() else []
    return [float(loss) for loss in found[-1:]]


def row(args: argparse.Namespace, data: str, part: str, model: str) -> list[str]:
    """Return the loss and the accuracies of a model, mean and standard deviation over seeds."""
    text, runs = args.work / "text" / data, args.work / "runs"
    folders = [runs / f"{data}.{model}.{seed}" for seed in args.seeds]
    outputs = [folder / f"{part}.txt" for folder in folders]
    if model == UNCORRECTED:
        folders, outputs = [], [text / f"{part}.src"]
    sides = read(text / f"{part}.src"), read(text / f"{part}.trg")
    scores = [
        accuracies(zip(sides[0], read(path), sides[1], strict=True), args.ends, args.separator)
        for path in outputs
        if path.exists()
    ]
    if not scores:
        return []
    losses = [loss for folder in folders for loss in last_loss(folder)]
    columns = [
        [score for score in column if score is not None] for column in zip(*scores, strict=True)
    ]
    shown = [cell(column) if column else "no line" for column in columns]
    return [cell(losses, 3) if losses else "", *shown]


def main() -> None:
    """Print a row for each data set, held-out set and model, with the notes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("work", type=Path, help="folder with text and runs")
    parser.add_argument("--data", nargs="+", required=True, help="data sets, as in WORK/text/DATA")
    parser.add_argument("--sets", nargs="+", required=True, help="held-out sets, such as test")
    parser.add_argument(
        "--models", nargs="+", required=True, help="models, as in WORK/runs/DATA.MODEL.SEED"
    )
    parser.add_argument("--seeds", nargs="+", required=True)
    parser.add_argument("--ends", nargs="+", type=int, required=True, help="ends of the buckets")
    parser.add_argument("--separator", required=True, help="token between words")
    args = parser.parse_args()
    lengths = [*(f"up to {end}" for end in args.ends), f"above {args.ends[-1]}", "all"]
    heads = ["data set", "set", "positions", "valid loss", *lengths]
    print(f"| {' | '.join(heads)} |\n|{' --- |' * len(heads)}")
    for data in args.data:
        for part in args.sets:
            for model in (UNCORRECTED, *args.models):
                if shown := row(args, data, part, model):
                    print(f"| {' | '.join([data, part, model, *shown])} |")
    print("\ncorrect words in percent by source length, mean ± sample standard deviation (seeds)")
    print("valid loss: nll_loss of valid, whose lines have as many words as those of training")


if __name__ == "__main__":
    main()
