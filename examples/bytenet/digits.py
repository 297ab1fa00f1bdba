"""Generate the synthetic data of the slides: numbers in words, and in digits.

    z e r o _ t w o    ->    0 2

Numbers have two or three digits and are drawn as in the author's code, with the same seeds. Run i
uses seed 10 i for labeled pairs, 10 i + 1 for unlabeled words, and 10 i + 2 for the pairs of
`test`, which the author monitored in training. The published results are on `final`, one set for
all runs, with seed 2. There are only 1,100 strings, so most strings of `test` and `final` also
occur in training. `unseen` has all strings that are neither labeled nor among the first 1,024
unlabeled strings, whatever number of unlabeled strings is used.
"""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path

import numpy as np

NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
SPACE = "_"
SHORTEST, LONGEST = 2, 3
FINAL_SEED = 2
TEXT = 1024
"""Number of unlabeled strings that `unseen` excludes: the author's maximum."""

Digits = tuple[int, ...]


def drawn(count: int, seed: int) -> list[Digits]:
    """Draw `count` strings with numpy's RandomState, which depends on these dtypes."""
    state = np.random.RandomState(seed)
    strings = []
    for _ in range(count):
        length = int(state.randint(SHORTEST, LONGEST + 1, dtype=np.uint8))
        digits = state.randint(0, len(NAMES), size=length, dtype=np.int8)
        strings.append(tuple(int(digit) for digit in digits))
    return strings


def every_string() -> list[Digits]:
    """Return all strings, shorter strings first."""
    lengths = range(SHORTEST, LONGEST + 1)
    return [
        digits
        for length in lengths
        for digits in itertools.product(range(len(NAMES)), repeat=length)
    ]


def in_words(digits: Digits) -> str:
    """Return the characters of a number in words: ``t w o _ o n e``."""
    return " ".join(SPACE.join(NAMES[digit] for digit in digits))


def write(folder: Path, split: str, strings: list[Digits]) -> None:
    """Write SPLIT.words and SPLIT.digits."""
    words = "".join(f"{in_words(digits)}\n" for digits in strings)
    numbers = "".join(f"{' '.join(map(str, digits))}\n" for digits in strings)
    (folder / f"{split}.words").write_text(words, encoding="utf-8")
    (folder / f"{split}.digits").write_text(numbers, encoding="utf-8")


def main() -> None:
    """Write all splits and the dictionary."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").strip(), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--run", type=int, default=1, metavar="I", help="number of the run, i above (default: 1)"
    )
    parser.add_argument(
        "--labeled", type=int, default=128, metavar="N", help="labeled pairs (default: 128)"
    )
    parser.add_argument(
        "--unlabeled", type=int, default=0, metavar="N", help="unlabeled strings (default: 0)"
    )
    parser.add_argument(
        "--valid", type=int, default=128, metavar="N", help="validation pairs (default: 128)"
    )
    parser.add_argument(
        "--test",
        type=int,
        default=1024,
        metavar="N",
        help="pairs of test and of final (default: 1024)",
    )
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    labeled = drawn(args.labeled, 10 * args.run)
    unlabeled = drawn(max(args.unlabeled, TEXT), 10 * args.run + 1)
    write(args.folder, "train", labeled)
    write(args.folder, "mono", unlabeled[: args.unlabeled])
    write(args.folder, "test", drawn(args.test, 10 * args.run + 2))
    write(args.folder, "final", drawn(args.test, FINAL_SEED))
    write(args.folder, "valid", drawn(args.valid, 10 * args.run + 3))
    known = {*labeled, *unlabeled}
    write(args.folder, "unseen", [one for one in every_string() if one not in known])
    symbols = sorted({SPACE, *"".join(NAMES), *map(str, range(len(NAMES)))})
    entries = "".join(f"{symbol} 1\n" for symbol in symbols)
    (args.folder / "dict.txt").write_text(entries, encoding="utf-8")


if __name__ == "__main__":
    main()
