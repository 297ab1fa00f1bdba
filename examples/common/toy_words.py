"""Generate toy words with OCR errors in the file formats of ocrpp.

Words are sequences of syllables of a consonant and a vowel. Some letters are misread as letters
that no word has, one as two or two as one, and some letters a are lost. All errors can be corrected
from the context.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

CONSONANTS, VOWELS = "hkmnpstv", "aeouyä"
READINGS = {
    "h": (("l", "h"), ("i", "0")),
    "m": (("r", "m"), ("n", "0")),
    "t": (("t", "t"), ("t", "0")),
    "e": (("c", "e"),),
    "o": (('"0"', "o"),),
    "a": (("0", "a"),),
}
"""Errors by letter, as aligned pairs of ocrpp: misread character, correct character."""
RATE = 0.25

Pairs = list[tuple[str, str]]


def word(draw: random.Random) -> Pairs:
    """Draw a word with errors in some letters."""
    letters = (
        draw.choice(kind) for _ in range(draw.randint(1, 4)) for kind in (CONSONANTS, VOWELS)
    )
    pairs: Pairs = []
    for letter in letters:
        misread = letter in READINGS and draw.random() < RATE
        pairs += READINGS[letter] if misread else [(letter, letter)]
    return pairs


def aligned(words: list[Pairs]) -> str:
    """Format words as in .train and .dev."""
    return "".join("".join(f"{a} : {b}\n" for a, b in pairs) + "\n" for pairs in words)


def side_by_side(words: list[Pairs]) -> str:
    """Format words as in .test."""
    lines = []
    for pairs in words:
        sides = zip(*pairs, strict=True)
        texts = (" ".join(text.replace('"', "") for text in side if text != "0") for side in sides)
        lines.append("\t".join(texts) + "\n")
    return "".join(lines)


def main() -> None:
    """Write PREFIX.train, PREFIX.dev and PREFIX.test."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("prefix", type=Path, help="prefix of the outputs, such as folder/klk.0")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    draw = random.Random(args.seed)
    args.prefix.parent.mkdir(parents=True, exist_ok=True)
    for split, count in (("train", 2000), ("dev", 200), ("test", 200)):
        words = [word(draw) for _ in range(count)]
        text = side_by_side(words) if split == "test" else aligned(words)
        args.prefix.with_name(f"{args.prefix.name}.{split}").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
