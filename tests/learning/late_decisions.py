"""Toy sentences to correct, in which the last word determines the form of the verb."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.conftest import Run

SUBJECTS = ("she", "he", "it", "anna", "tom", "nobody", "everyone")
VERBS = ("walk", "work", "cook", "look", "jump", "call", "wait", "talk")
PLACES = ("at school", "in the park", "near the old house", "on the road", "there", "with friends")
FORMS = {"yesterday": "ed", "daily": "s", "tomorrow": "ll"}
"""Ending of the verb by the last word."""


def pair(draw: random.Random) -> tuple[str, str]:
    """Return a sentence with a random verb form, and its correction."""
    subject, verb = draw.choice(SUBJECTS), draw.choice(VERBS)
    places = " ".join(draw.sample(PLACES, draw.randint(1, 3)))
    last = draw.choice(sorted(FORMS))
    wrong, right = verb + draw.choice(("", *FORMS.values())), verb + FORMS[last]
    return f"{subject} {wrong} {places} {last}", f"{subject} {right} {places} {last}"


def write(folder: Path, split: str, lines: int, seed: int) -> None:
    """Write `folder`/`split`.src and .trg."""
    draw = random.Random(seed)
    pairs = [pair(draw) for _ in range(lines)]
    for side, sentences in zip(("src", "trg"), zip(*pairs, strict=True), strict=True):
        (folder / f"{split}.{side}").write_text("\n".join(sentences) + "\n", encoding="utf-8")


def binarize(
    run: Run,
    folder: Path,
    sizes: Mapping[str, int],
    first_seed: int = 0,
    write: Callable[[Path, str, int, int], None] = write,
) -> Path:
    """Write splits with `sizes` lines to `folder`, and binarize them. Return the data folder."""
    for seed, (split, lines) in enumerate(sizes.items(), first_seed):
        write(folder, split, lines, seed)
    splits = [f"--{split}pref={folder / split}" for split in sizes]
    languages = ("-s", "src", "-t", "trg", "--joined-dictionary")
    run("fairseq-preprocess", *languages, *splits, "--destdir", folder / "bin")
    return folder / "bin"
