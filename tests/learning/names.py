"""Toy sentences in which known words are translated and unseen names are copied."""

from __future__ import annotations

import random
from pathlib import Path

from tests.conftest import run_command

KNOWN = [f"w{i}" for i in range(20)]
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def name(draw: random.Random) -> str:
    """Return a random name. Duplicates are practically impossible."""
    return "".join(draw.choice(LETTERS) for _ in range(8)).title()


def pair(draw: random.Random) -> tuple[list[str], list[str]]:
    """Return a random sentence of 4 to 8 words, a third of them names, and its translation.

    A sentence can have several names and repeat one.
    """
    names = [name(draw) for _ in range(2)]
    source = [
        draw.choice(names) if draw.random() < 1 / 3 else draw.choice(KNOWN)
        for _ in range(draw.randint(4, 8))
    ]
    return source, [word.replace("w", "v") if word in KNOWN else word for word in source]


def write(folder: Path, split: str, lines: int, seed: int) -> None:
    """Write SPLIT.src and SPLIT.trg."""
    draw = random.Random(seed)
    pairs = [pair(draw) for _ in range(lines)]
    for place, side in enumerate(("src", "trg")):
        text = "".join(" ".join(words[place]) + "\n" for words in pairs)
        (folder / f"{split}.{side}").write_text(text, encoding="utf-8")


def preprocess(folder: Path, destination: Path, *flags: str | Path) -> None:
    """Binarize the splits of a folder. `flags` are options of fairseq-preprocess."""
    splits = [f"--{split}pref={folder / split}" for split in ("train", "valid", "test")]
    words = ("fairseq-preprocess", "-s", "src", "-t", "trg", "--joined-dictionary")
    run_command(*words, *splits, *flags, "--destdir", destination)
