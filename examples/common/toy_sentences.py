"""Generate toy sentences from a small grammar, some with a random rare name."""

from __future__ import annotations

import argparse
import random
from pathlib import Path

ONE, MANY = ("a", "the", "this", "every"), ("two", "the", "these", "many")
QUALITIES = ("small", "old", "happy", "tired", "young", "quiet")
THINGS = ("dog", "bird", "boy", "teacher", "car", "tree", "farmer", "cat")
VERBS = ("watch", "follow", "hear", "paint", "like", "find")
PLACES = ("in the park", "at home", "on the hill", "near the river", "in a garden")
SYLLABLES = ("ka", "lo", "mi", "ru", "ten", "sa", "vor", "ne")


def phrase(draw: random.Random, many: bool) -> str:
    """Generate a noun phrase."""
    words = [draw.choice(MANY if many else ONE)]
    if draw.random() < 0.5:
        words.append(draw.choice(QUALITIES))
    return " ".join([*words, draw.choice(THINGS) + ("s" if many else "")])


def sentence(draw: random.Random, names: float) -> str:
    """Generate a sentence with subject-verb agreement. The subject is sometimes a name."""
    many = draw.random() < 0.5
    if draw.random() < names:
        many, subject = False, "".join(draw.choice(SYLLABLES) for _ in range(4))
    else:
        subject = phrase(draw, many)
    verb = draw.choice(VERBS)
    if not many:
        verb += "es" if verb.endswith("ch") else "s"
    return f"{subject} {verb} {phrase(draw, draw.random() < 0.5)} {draw.choice(PLACES)} ."


def main() -> None:
    """Write the sentences to a file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("--lines", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--names",
        type=float,
        default=0.2,
        help="share of sentences with a name, 0 to 1 (default: %(default)s)",
    )
    args = parser.parse_args()
    draw = random.Random(args.seed)
    lines = (sentence(draw, args.names) + "\n" for _ in range(args.lines))
    args.output.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
