"""Generate a toy parallel corpus: lists of numbers in words, and in digits.

    well thirty-two and er seven nineteen    ->    32 7 19

The numbers of a line are distinct, so a model can find each one by its content. Hesitations between
them shift the positions, so the n-th word is rarely the n-th number. A model that relies on
absolute positions fails on lists longer than in training. A model that continues from the last
number does not need them.
"""

from __future__ import annotations

import argparse
import itertools
import random
from collections.abc import Iterator
from pathlib import Path

UNITS = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen"),
    *("eighteen", "nineteen"),
)
TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
HESITATIONS = ("and", "er", "so", "then", "well")
HESITATION_RATE = 0.3


def in_words(number: int) -> str:
    """Return a number below 100 as an English word, such as ``thirty-two``."""
    if number < len(UNITS):
        return UNITS[number]
    tens, units = divmod(number, 10)
    return TENS[tens - 2] if units == 0 else f"{TENS[tens - 2]}-{UNITS[units]}"


def spoken(numbers: list[int], generator: random.Random) -> str:
    """Return the numbers in words, with one or more hesitations before some of them."""
    words = []
    for number in numbers:
        while generator.random() < HESITATION_RATE:
            words.append(generator.choice(HESITATIONS))
        words.append(in_words(number))
    return " ".join(words)


def pairs(
    count: int, shortest: int, longest: int, numbers: int, seed: int
) -> Iterator[tuple[str, str]]:
    """Draw `count` lists of distinct numbers below `numbers`, in words and in digits."""
    generator = random.Random(seed)
    for _ in range(count):
        drawn = generator.sample(range(numbers), generator.randint(shortest, longest))
        yield spoken(drawn, generator), " ".join(map(str, drawn))


def write(folder: Path, split: str, lines: list[tuple[str, str]]) -> None:
    """Write a split as ``SPLIT.words`` and ``SPLIT.digits``."""
    for language, texts in zip(("words", "digits"), zip(*lines, strict=True), strict=True):
        (folder / f"{split}.{language}").write_text("\n".join(texts) + "\n", encoding="utf-8")


def main() -> None:
    """Write train, valid and test. The test set has equally many lines of each length."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("folder", type=Path, help="folder for the corpus")
    parser.add_argument("--train-lines", type=int, default=10000, metavar="N")
    parser.add_argument("--valid-lines", type=int, default=200, metavar="N")
    parser.add_argument(
        "--test-lines",
        type=int,
        default=50,
        metavar="N",
        help="number of test lines of each length (default: %(default)s)",
    )
    parser.add_argument(
        "--trained-length",
        type=int,
        default=8,
        metavar="N",
        help="max numbers of a line in train and valid (default: %(default)s)",
    )
    parser.add_argument(
        "--longest",
        type=int,
        default=16,
        metavar="N",
        help="max numbers of a line in test (default: %(default)s)",
    )
    parser.add_argument(
        "--numbers",
        type=int,
        default=40,
        metavar="N",
        help="numbers are below N (default: %(default)s)",
    )
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if not args.trained_length <= args.longest <= args.numbers <= 100:
        parser.error("expected --trained-length <= --longest <= --numbers <= 100")

    def draw(count: int, shortest: int, longest: int, part: int) -> list[tuple[str, str]]:
        return list(pairs(count, shortest, longest, args.numbers, 1000 * args.seed + part))

    args.folder.mkdir(parents=True, exist_ok=True)
    write(args.folder, "train", draw(args.train_lines, 1, args.trained_length, 0))
    write(args.folder, "valid", draw(args.valid_lines, 1, args.trained_length, 1))
    lengths = range(1, args.longest + 1)
    test = (draw(args.test_lines, length, length, 1 + length) for length in lengths)
    write(args.folder, "test", list(itertools.chain.from_iterable(test)))


if __name__ == "__main__":
    main()
