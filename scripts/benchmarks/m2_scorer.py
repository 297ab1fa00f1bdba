"""Speed of `score m2` relative to the authors' m2scorer, in sentences per second of CPU time.

Start-up is included. Both must print the same scores.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

import harness

GOAL = 40.0


def run(command: list[str]) -> list[float]:
    """Run a scorer and return precision, recall and F in percent."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found = [
        float(number) for number in re.findall(r"^[PRF]\S*[ :\t]+([\d.]+)$", done.stdout, re.M)
    ]
    assert len(found) == 3, done.stdout
    return [round(100 * number, 2) for number in found] if max(found) <= 1 else found


def commands(args: argparse.Namespace) -> tuple[harness.Run, harness.Run]:
    """Return runs of the command and of the authors' scorer. Check that the scores are equal."""
    system, gold = str(args.system), str(args.gold)
    ours = [sys.executable, "-m", "fairseq_ssl", "score", "m2", system, "--gold", gold]
    theirs = [args.python, str(args.official), system, gold]
    scores = run([*ours, "--jobs", "1"])
    lines = len(args.system.read_text(encoding="utf-8").splitlines())

    def score() -> int:
        assert run([*ours, "--jobs", "1"]) == scores
        return lines

    def score_by_peer() -> int:
        found = run(theirs)
        assert found == scores, (found, scores)
        return lines

    return score, score_by_peer


def main() -> None:
    """Run the benchmark and print its report."""
    options = harness.parser((__doc__ or "").splitlines()[0])
    options.add_argument("--official", type=Path, required=True, help="m2scorer.py of the authors")
    options.add_argument("--python", default="python2.7", help="Python for --official")
    options.add_argument("--system", type=Path, required=True, help="corrected sentences")
    options.add_argument("--gold", type=Path, required=True, help="M2 file")
    args = harness.parse(options)
    comparison = harness.Comparison(
        Path(__file__).stem,
        *("m2", "m2scorer"),
        unit="sentences/s",
        goal=GOAL,
        settings={name: str(value) for name, value in vars(args).items()},
    )
    harness.compare(comparison, *commands(args), args.pairs, 0, harness.cpu_seconds)
    harness.publish(comparison)


if __name__ == "__main__":
    main()
