"""Make a toy parallel corpus: lists of numbers in English words, and the same in digits.

    forty two , seven , ninety one    ->    42 7 91

The numbers of a line differ, so each can be found again by its content. A model that knows
where it stands only by counting from the start fails on lists longer than any it was
trained on; one that goes on from the last number it wrote does not.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from pathlib import Path

UNITS = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen"),
    *("eighteen", "nineteen"),
)
TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")


def in_words(number: int) -> str:
    """Return a number below 100 in English words, apart from each other: ``forty two``."""
    if number < len(UNITS):
        return UNITS[number]
    tens, units = divmod(number, 10)
    return TENS[tens - 2] if units == 0 else f"{TENS[tens - 2]} {UNITS[units]}"


def pairs(count: int, shortest: int, longest: int, seed: int) -> Iterator[tuple[str, str]]:
    """Draw `count` lists of `shortest` to `longest` different numbers, in words and digits."""
    generator = random.Random(seed)
    for _ in range(count):
        numbers = generator.sample(range(100), generator.randint(shortest, longest))
        yield " , ".join(map(in_words, numbers)), " ".join(map(str, numbers))


def write(folder: Path, split: str, lines: list[tuple[str, str]]) -> None:
    """Write one split as ``SPLIT.words`` and ``SPLIT.digits``."""
    for language, texts in zip(("words", "digits"), zip(*lines, strict=True), strict=True):
        (folder / f"{split}.{language}").write_text("\n".join(texts) + "\n", encoding="utf-8")


def main() -> None:
    """Write train, valid and test; test holds as many lines of each length."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="where to write the corpus")
    parser.add_argument("--train-lines", type=int, default=8000, metavar="N")
    parser.add_argument("--test-lines", type=int, default=50, metavar="N", help="of each length")
    parser.add_argument(
        "--trained-length", type=int, default=8, metavar="N", help="most numbers in train and valid"
    )
    parser.add_argument("--longest", type=int, default=16, metavar="N", help="most numbers in test")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    seed = args.seed * 1000
    write(args.folder, "train", list(pairs(args.train_lines, 1, args.trained_length, seed)))
    write(args.folder, "valid", list(pairs(200, 1, args.trained_length, seed + 1)))
    test = [
        pair
        for length in range(1, args.longest + 1)
        for pair in pairs(args.test_lines, length, length, seed + 1 + length)
    ]
    write(args.folder, "test", test)


if __name__ == "__main__":
    main()
