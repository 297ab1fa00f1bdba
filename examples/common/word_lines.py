"""Join words to lines of several words, from and to text with spaces between characters.

The words are shuffled in each pass. The number of words of a line is uniform in a range. Words that
do not fill the last line are dropped.
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

Pair = tuple[str, str]
"""Source and target of a word, with spaces between characters."""


def shuffled(words: Sequence[Pair], passes: int, draw: random.Random) -> Iterator[Pair]:
    """Return all words in a new random order for each pass."""
    return chain.from_iterable(draw.sample(words, len(words)) for _ in range(passes))


def lines(words: Iterator[Pair], counts: range, draw: random.Random) -> Iterator[list[Pair]]:
    """Split words into lines, each with a number of words drawn from `counts`."""
    while True:
        count = draw.choice(counts)
        line = list(islice(words, count))
        if len(line) < count:
            return
        yield line


def number_range(text: str) -> range:
    """Parse MIN-MAX."""
    found = re.fullmatch(r"(\d+)-(\d+)", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise argparse.ArgumentTypeError(f"{text!r} is not a range; expected one such as 1-4")
    return range(int(found[1]), int(found[2]) + 1)


def main() -> None:
    """Write the lines of both sides."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("source", type=Path, help="words with errors, one per line")
    parser.add_argument("target", type=Path, help="correct words, one per line")
    parser.add_argument("to_source", type=Path, help="output file of lines with errors")
    parser.add_argument("to_target", type=Path, help="output file of correct lines")
    parser.add_argument(
        "--words",
        type=number_range,
        required=True,
        metavar="MIN-MAX",
        help="range of the number of words of a line",
    )
    parser.add_argument(
        "--passes", type=int, default=1, help="uses of each word (default: %(default)s)"
    )
    parser.add_argument("--separator", required=True, help="token between words")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    sides = (path.read_text("utf-8").splitlines() for path in (args.source, args.target))
    words = list(zip(*sides, strict=True))
    draw = random.Random(args.seed)
    joined = list(lines(shuffled(words, args.passes, draw), args.words, draw))
    for side, path in enumerate((args.to_source, args.to_target)):
        path.parent.mkdir(parents=True, exist_ok=True)
        texts = (f" {args.separator} ".join(word[side] for word in line) for line in joined)
        path.write_text("".join(f"{text}\n" for text in texts), "utf-8")


if __name__ == "__main__":
    main()
