"""Speed of `score` relative to the authors' scorers, in sentences per second of CPU time.

--metric m2 compares with the authors' m2scorer, and errant with errant_parallel and errant_compare
on the same spaCy pipeline. torch is hidden from errant, which would import it without need.
Start-up is included. Both sides must print the same scores. --processes compares two processes of
our command with one, in sentences per second.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import harness

GOALS = {"m2": 40.0, "errant": 3.0}
PROCESSES_GOAL = 1.8
NEEDS = {"m2": ("official",), "errant": ("source", "model")}
ERRANT = """
import sys
sys.modules["torch"] = None
import spacy
model, command = sys.argv[1:3]
del sys.argv[1:3]
load = spacy.load
spacy.load = lambda _, **options: load(model, **options)
from importlib import import_module
import_module(f"errant.commands.{command}").main()
"""


def percentages(found: list[str]) -> list[float]:
    """Return precision, recall and F in percent."""
    numbers = list(map(float, found))
    if len(numbers) != 3:
        sys.exit(f"Expected precision, recall and F in the output of a scorer, not {found}.")
    return [round(100 * number, 2) for number in numbers] if max(numbers) <= 1 else numbers


def score(args: argparse.Namespace, jobs: int = 1) -> list[float]:
    """Score by our command in this number of processes."""
    words = ["-m", "fairseq_ssl", "score", args.metric, args.system, "--gold", args.gold]
    words += ["--spacy-model", args.model] if args.metric == "errant" else []
    output = harness.run_command([sys.executable, *words, "--jobs", jobs])
    return percentages(re.findall(r"^(?:Precision|Recall|F_0.5)[ :\t]+([\d.]+)$", output, re.M))


def score_by_m2scorer(args: argparse.Namespace) -> list[float]:
    """Score by the authors' m2scorer."""
    output = harness.run_command([args.python, args.official, args.system, args.gold])
    return percentages(re.findall(r"^(?:Precision|Recall|F_0.5)[ :\t]+([\d.]+)$", output, re.M))


def score_by_errant(args: argparse.Namespace) -> list[float]:
    """Score by errant_parallel and errant_compare."""
    run = [sys.executable, "-c", ERRANT, args.model]
    with tempfile.TemporaryDirectory() as folder:
        files = ["-orig", args.source, "-cor", args.system, "-out", f"{folder}/edits"]
        harness.run_command([*run, "parallel_to_m2", *files])
        files = ["-hyp", f"{folder}/edits", "-ref", args.gold]
        output = harness.run_command([*run, "compare_m2", *files])
    return percentages(re.findall(r"\b[01]\.\d+", output))


def main() -> None:
    """Run the benchmark and print its report."""
    options = harness.parser((__doc__ or "").splitlines()[0], gpu=False)
    options.add_argument("--metric", choices=GOALS, default="m2")
    options.add_argument("--system", type=Path, required=True, help="corrected sentences")
    options.add_argument("--gold", type=Path, required=True, help="M2 file")
    options.add_argument("--official", type=Path, help="with m2: m2scorer.py of the authors")
    options.add_argument("--python", default="python2.7", help="with m2: Python for --official")
    options.add_argument("--source", type=Path, help="with errant: uncorrected sentences")
    options.add_argument("--model", type=Path, help="with errant: folder of a spaCy pipeline")
    options.add_argument("--processes", action="store_true", help="compare two processes with one")
    args = harness.parse(options)
    for name in NEEDS[args.metric]:
        if getattr(args, name) is None and not (args.processes and name != "model"):
            options.error(f"--metric {args.metric} needs --{name}.")
    sides = (f"score {args.metric}", f"the authors' {args.metric}")
    comparison = harness.Comparison(
        "edit_scorers",
        *(("2 processes", "1 process") if args.processes else sides),
        unit="sentences/s",
        goal=PROCESSES_GOAL if args.processes else GOALS[args.metric],
        settings={name: str(value) for name, value in vars(args).items()},
    )
    lines = len(args.system.read_text(encoding="utf-8").splitlines())
    found: list[list[float]] = []
    peer = score_by_m2scorer if args.metric == "m2" else score_by_errant

    def run(scorer: Callable[[argparse.Namespace], list[float]]) -> int:
        found.append(scorer(args))
        if found[-1] != found[0]:
            sys.exit(f"The scores differ: {found[0]} and {found[-1]}.")
        return lines

    runs = (partial(run, score), partial(run, peer))
    clock = harness.cpu_seconds
    if args.processes:
        clock = time.perf_counter
        runs = (partial(run, partial(score, jobs=2)), partial(run, score))
    harness.compare(comparison, *runs, args.pairs, 0, clock)
    harness.publish(comparison)


if __name__ == "__main__":
    main()
