"""Speed of MaxMatch relative to the reference implementation with Bellman-Ford, in sentences/s.

With --official, the command is compared with the authors' m2scorer on --system and --gold, in
sentences per second of CPU time, start-up included. Both print the same scores.
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import direct_maxmatch
import harness

from fairseq_ssl.metrics.maxmatch.scores import MaxMatch, choose_gold, gold_edit
from fairseq_ssl.text.m2 import M2Edit, M2Sentence

GOAL = 20.0
OFFICIAL_GOAL = 40.0
TIMES = 20
"""Repetitions of our scoring in a run, so that both runs take about equally long."""
WORDS = 2_000

Pairs = list[tuple[M2Sentence, str]]


def edited(words: list[str], draw: random.Random, share: float) -> tuple[list[str], list[M2Edit]]:
    """Return a sentence with replaced, inserted and deleted words."""
    output: list[str] = []
    edits: list[M2Edit] = []
    for place, word in enumerate(words):
        kind = draw.random() / share
        if kind < 0.3:
            edits.append(M2Edit(place, place + 1, "U", ""))
            continue
        if kind < 0.7:
            other = f"word{draw.randrange(WORDS)}"
            edits.append(M2Edit(place, place + 1, "R", other))
            output.append(other)
            continue
        if kind < 1:
            other = f"word{draw.randrange(50)}"
            edits.append(M2Edit(place, place, "M", other))
            output.append(other)
        output.append(word)
    return output, edits


def corpus(sentences: int, length: int, annotators: int) -> Pairs:
    """Return annotated sentences, and outputs with some edits of the first annotator."""
    draw = random.Random(1)
    pairs: Pairs = []
    for _ in range(sentences):
        size = draw.randint(max(1, length // 2), length + length // 2)
        words = [f"word{min(int(draw.paretovariate(0.6)), WORDS)}" for _ in range(size)]
        gold = {number: edited(words, draw, 0.13)[1] for number in range(annotators)}
        kept = [edit for edit in gold[0] if draw.random() < 0.5]
        output = list(words)
        for edit in reversed(kept):
            output[edit.start : edit.end] = edit.correction.split()
        pairs.append((M2Sentence(tuple(words), gold), " ".join(edited(output, draw, 0.06)[0])))
    return pairs


def ours(pairs: Pairs) -> int:
    """Score with the package."""
    for _ in range(TIMES):
        assert choose_gold(MaxMatch()(pairs))
    return TIMES * len(pairs)


def direct(pairs: Pairs) -> int:
    """Score with the reference implementation."""
    assert direct_counts(pairs)
    return len(pairs)


def direct_counts(pairs: Pairs) -> list[tuple[int, int, int]]:
    """Return the counts of each sentence by the reference implementation."""
    gold: list[dict[int, list[direct_maxmatch.Gold]]] = [
        {
            number: [
                (each.start, each.end, each.words, each.alternatives)
                for each in (gold_edit(sentence, edit) for edit in edits)
            ]
            for number, edits in sentence.annotators.items()
        }
        for sentence, _ in pairs
    ]
    sources = [" ".join(sentence.words) for sentence, _ in pairs]
    return direct_maxmatch.counts(sources, [output for _, output in pairs], gold)


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
    options.add_argument("--sentences", type=int, default=100)
    options.add_argument("--length", type=int, default=22, help="mean sentence length in words")
    options.add_argument("--annotators", type=int, default=2)
    options.add_argument("--official", type=Path, help="m2scorer.py of the authors")
    options.add_argument("--python", default="python2.7", help="Python for --official")
    options.add_argument("--system", type=Path, help="with --official: corrected sentences")
    options.add_argument("--gold", type=Path, help="with --official: M2 file")
    args = harness.parse(options)
    if args.official and None in (args.system, args.gold):
        options.error("--official needs --system and --gold.")
    comparison = harness.Comparison(
        Path(__file__).stem,
        *("m2", "m2scorer" if args.official else "direct lattice"),
        unit="sentences/s",
        goal=OFFICIAL_GOAL if args.official else GOAL,
        settings={name: str(value) for name, value in vars(args).items()},
    )
    if args.official:
        harness.compare(comparison, *commands(args), args.pairs, 0, harness.cpu_seconds)
        harness.publish(comparison)
        return
    pairs = corpus(args.sentences, args.length, args.annotators)
    assert choose_gold(MaxMatch()(pairs)) == direct_counts(pairs)
    harness.compare(comparison, partial(ours, pairs), partial(direct, pairs), args.pairs)
    harness.publish(comparison)


if __name__ == "__main__":
    main()
