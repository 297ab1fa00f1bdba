"""Print a table of accuracy on words, mean and standard deviation over folds, as Markdown."""

from __future__ import annotations

import argparse
import re
import statistics
from pathlib import Path

from fairseq_ssl.metrics.metric import cell

UNCORRECTED = "uncorrected"
SPEED = re.compile(r"Translated [\d,]+ sentences .*\(([\d.]+) sentences/s")


def right(made: Path, wanted: Path) -> float:
    """Return the percentage of lines that equal the reference."""
    first, second = (
        [line.split() for line in path.read_text("utf-8").splitlines()] for path in (made, wanted)
    )
    equal = [one == other for one, other in zip(first, second, strict=True)]
    return 100 * sum(equal) / len(equal)


def speed(decoded: Path) -> list[float]:
    """Return the last words/s in the log of fairseq-generate, without the time to start."""
    paths = [decoded.with_suffix(suffix) for suffix in (".generate", ".log")]
    texts = [path.read_text("utf-8") for path in paths if path.exists()]
    return [float(found) for found in SPEED.findall("".join(texts))[-1:]]


def scores(work: Path, row: str, name: str, part: str) -> list[float]:
    """Return the accuracy of a row on a set of a fold, if available."""
    text = work / "text" / name
    folder = work / "runs" / f"{name}.{row}"
    made = text / f"{part}.src" if row == UNCORRECTED else folder / f"{part}.txt"
    return [right(made, text / f"{part}.trg")] if made.exists() else []


def rows(work: Path, task: str, args: argparse.Namespace) -> list[str]:
    """Return the rows of a task, with speeds relative to the first model."""
    names = [f"{task}.{fold}" for fold in args.folds]
    lines = []
    first = None
    for row in (UNCORRECTED, *args.models):
        shown = [
            cell([score for name in names for score in scores(work, row, name, part)])
            for part in args.sets
        ]
        decoded = [work / "runs" / f"{name}.{row}" / f"{args.measured}.txt" for name in names]
        measured = [one for path in decoded for one in speed(path)]
        rate = ""
        if measured:
            mean = statistics.fmean(measured)
            first = first or mean
            rate = f"{mean:.0f} ({mean / first:.2f} x)"
        if set(shown) != {"not run"}:
            lines.append(f"| {task} | {row} | {' | '.join(shown)} | {rate} |")
    return lines


def main() -> None:
    """Print a row for each task and model, with the notes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip())
    parser.add_argument("work", type=Path, help="folder with text and runs")
    parser.add_argument("--tasks", nargs="+", required=True)
    parser.add_argument("--folds", nargs="+", required=True)
    parser.add_argument(
        "--sets", nargs="+", required=True, help="sets to score, valid or test or both"
    )
    parser.add_argument(
        "--models", nargs="+", required=True, help="models, as in WORK/runs/TASK.FOLD.MODEL"
    )
    parser.add_argument("--measured", required=True, help="set on which speed was measured")
    args = parser.parse_args()
    print(f"| task | model | {' | '.join(args.sets)} | words/s |")
    print("| --- " * (3 + len(args.sets)) + "|")
    for task in args.tasks:
        print("\n".join(rows(args.work, task, args)))
    print("\ncorrect words in percent, mean ± sample standard deviation (folds)")
    print("words/s are measured on this machine, and comparable only without other load")


if __name__ == "__main__":
    main()
