"""Print the share of words that are right, mean and deviation over the folds, as Markdown."""

from __future__ import annotations

import argparse
import json
import re
import statistics
from pathlib import Path

from fairseq_ssl.metrics.metric import cell

UNTOUCHED, CEILING = "nothing done", "all edits of the dictionary"
SPEED = re.compile(r"Translated [\d,]+ sentences .*\(([\d.]+) sentences/s")


def right(made: Path, wanted: Path) -> float:
    """Return in percent how many lines are as they should be."""
    first, second = (
        [line.split() for line in path.read_text("utf-8").splitlines()] for path in (made, wanted)
    )
    equal = [one == other for one, other in zip(first, second, strict=True)]
    return 100 * sum(equal) / len(equal)


def ceiling(stats: Path) -> float:
    """Return in percent how many words of the dev set the edits can make right."""
    found = json.loads(stats.read_text("utf-8"))
    return float(100 * found["exact_pairs"] / found["pairs"])


def speed(decoded: Path) -> list[float]:
    """Return the words per second that fairseq-generate told the last time, without its start."""
    paths = [decoded.with_suffix(suffix) for suffix in (".generate", ".log")]
    texts = [path.read_text("utf-8") for path in paths if path.exists()]
    return [float(found) for found in SPEED.findall("".join(texts))[-1:]]


def scores(work: Path, row: str, name: str, part: str) -> list[float]:
    """Return the score of a row for a set of one fold, if there is one."""
    text = work / "text" / name
    if row == CEILING:
        stats = work / "stats" / f"{name}.json"
        return [ceiling(stats)] if part == "valid" and stats.exists() else []
    folder = work / "runs" / f"{name}.{row}"
    made = text / f"{part}.src" if row == UNTOUCHED else folder / f"{part}.txt"
    return [right(made, text / f"{part}.trg")] if made.exists() else []


def rows(work: Path, task: str, args: argparse.Namespace) -> list[str]:
    """Make the rows of a task; speeds beside the first model's are shown as multiples of it."""
    names = [f"{task}.{fold}" for fold in args.folds]
    lines = []
    first = None
    for row in (UNTOUCHED, CEILING, *args.models):
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
        if row == CEILING:
            shown = [one.replace("not run", "") for one in shown]
        if set(shown) - {"not run", ""}:
            lines.append(f"| {task} | {row} | {' | '.join(shown)} | {rate} |")
    return lines


def main() -> None:
    """Print a row for each task and model."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip())
    parser.add_argument("work", type=Path, help="with text, stats and runs in it")
    parser.add_argument("--tasks", nargs="+", required=True)
    parser.add_argument("--folds", nargs="+", required=True)
    parser.add_argument("--sets", nargs="+", required=True, help="valid, test or both")
    parser.add_argument(
        "--models", nargs="+", required=True, help="as in WORK/runs/TASK.FOLD.MODEL"
    )
    parser.add_argument("--measured", required=True, help="set whose words per second are shown")
    args = parser.parse_args()
    print(f"| task | model | {' | '.join(args.sets)} | words/s |")
    print("| --- " * (3 + len(args.sets)) + "|")
    for task in args.tasks:
        print("\n".join(rows(args.work, task, args)))
    print("\nwords right in percent, mean ± sample deviation (folds)")
    print("words/s are those of this machine, and hold only if nothing else ran on it")


if __name__ == "__main__":
    main()
