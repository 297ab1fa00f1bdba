"""Generate toy reviews whose label depends on short, mostly rare phrases.

There are PHRASES random phrases, half positive and half negative. A text has 5 of them among
neutral words, and its label is that of the majority. A small labeled set has few of the phrases. In
unlabeled texts they co-occur with the others.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

SYLLABLES = ("ba", "de", "fi", "go", "ku", "la", "me", "ni", "po", "ru", "sa", "te", "vi", "wo")
PHRASES, FILLERS, LENGTH = 300, 100, 12


def word(draw: random.Random) -> str:
    """Generate a random word."""
    return "".join(draw.choice(SYLLABLES) for _ in range(3))


def review(draw: random.Random, phrases: list[list[str]], fillers: list[str]) -> tuple[int, str]:
    """Return the label and the text of a random review."""
    label = draw.randrange(2)
    kinds = [label if draw.random() < 0.8 else 1 - label for _ in range(5)]
    parts = [draw.choice(phrases[kind]) for kind in kinds]
    parts += [draw.choice(fillers) for _ in range(LENGTH)]
    draw.shuffle(parts)
    return label, " ".join(parts)


def main() -> None:
    """Write train.tsv, dev.tsv, test.tsv and unlabelled.txt to the folder."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("folder", type=Path)
    options.add_argument("--train", type=int, default=300)
    options.add_argument(
        "--held-out",
        type=int,
        default=500,
        help="number of texts in dev and in test (default: %(default)s)",
    )
    options.add_argument("--unlabeled", type=int, default=4000)
    options.add_argument("--seed", type=int, default=1)
    args = options.parse_args()
    draw = random.Random(args.seed)
    fillers = [word(draw) for _ in range(FILLERS)]
    made = [f"{word(draw)} {word(draw)}" for _ in range(PHRASES)]
    phrases = [made[::2], made[1::2]]
    args.folder.mkdir(parents=True, exist_ok=True)
    for name, count in (
        ("train", args.train),
        *((one, args.held_out) for one in ("dev", "test")),
    ):
        texts = [review(draw, phrases, fillers) for _ in range(count)]
        lines = [f"{'good' if label else 'bad'}\t{text}\n" for label, text in texts]
        (args.folder / f"{name}.tsv").write_text("".join(lines), encoding="utf-8")
    texts = [review(draw, phrases, fillers) for _ in range(args.unlabeled)]
    unlabeled = "".join(f"{text}\n" for _, text in texts)
    (args.folder / "unlabelled.txt").write_text(unlabeled, encoding="utf-8")


if __name__ == "__main__":
    main()
