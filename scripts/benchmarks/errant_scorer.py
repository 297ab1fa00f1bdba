"""Speed of `score errant` relative to errant_parallel and errant_compare, in sentences/s.

Seconds are those of the CPU, with start-up. All commands use the same spaCy pipeline, and both
sides print the same scores. torch is hidden from errant, which would import it without need.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import harness

GOAL = 3.0
PEER = """
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


def run(words: list[str]) -> str:
    """Run a command with one thread. Return its output."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *words], stdout=subprocess.PIPE, text=True, check=True, env=environment
    )
    return done.stdout


def main() -> None:
    """Run the benchmark and print its report."""
    options = harness.parser((__doc__ or "").splitlines()[0])
    needed: dict[str, Any] = {"type": Path, "required": True}
    options.add_argument("--system", help="corrected sentences", **needed)
    options.add_argument("--source", help="uncorrected sentences", **needed)
    options.add_argument("--gold", help="M2 file", **needed)
    options.add_argument("--model", help="folder of a spaCy pipeline", **needed)
    options.add_argument("--jobs", type=int, default=1, help="processes of ours")
    args = harness.parse(options)
    comparison = harness.Comparison(
        *("errant_scorer", "score errant", "errant", "sentences/s"),
        goal=GOAL,
        settings={name: str(value) for name, value in vars(args).items()},
    )
    system, gold, model = str(args.system), str(args.gold), str(args.model)
    lines = len(args.source.read_text(encoding="utf-8").splitlines())
    scores: set[tuple[float, ...]] = set()

    def score() -> int:
        words = ["-m", "fairseq_ssl", "score", "errant", system, "--gold", gold, "--model", model]
        output = run([*words, "--jobs", str(args.jobs)])
        found = re.findall(r"^(?:Precision|Recall|F_0.5)\t([\d.]+)$", output, re.M)
        scores.add(tuple(map(float, found)))
        return lines

    def score_by_peer() -> int:
        with tempfile.TemporaryDirectory() as folder:
            peer, edits = ["-c", PEER, model], f"{folder}/edits"
            run([*peer, "parallel_to_m2", "-orig", str(args.source), "-cor", system, "-out", edits])
            output = run([*peer, "compare_m2", "-hyp", edits, "-ref", gold])
        found = re.findall(r"\b[01]\.\d+", output)
        scores.add(tuple(round(100 * float(number), 2) for number in found))
        return lines

    harness.compare(comparison, score, score_by_peer, args.pairs, 0, harness.cpu_seconds)
    assert len(scores) == 1, scores
    harness.publish(comparison)


if __name__ == "__main__":
    main()
