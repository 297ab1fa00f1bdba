"""Select pre-training text: paragraphs of known words, split into segments (section 2.3)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from fairseq_ssl.text.vocabulary import RESERVED, read_entries


def segments(
    lines: Iterator[str], known: set[str], least: int, unknown: float, longest: int
) -> Iterator[str]:
    """Yield the segments of lines with enough words and few unknown words."""
    for line in lines:
        words = line.split()
        if len(words) < least:
            continue
        if sum(word not in known for word in words) > unknown * len(words):
            continue
        for begin in range(0, len(words), longest):
            yield " ".join(words[begin : begin + longest])


def main() -> None:
    """Write the segments of the texts to stdout."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("text", type=Path, nargs="+", help="text files, one paragraph per line")
    parser.add_argument(
        "--dictionary", type=Path, required=True, help="fairseq dictionary, dict.txt"
    )
    parser.add_argument(
        "--vocabulary", type=int, required=True, help="number of dictionary entries that are known"
    )
    parser.add_argument("--least-words", type=int, default=3)
    parser.add_argument("--most-unknown", type=float, default=0.3, metavar="SHARE")
    parser.add_argument("--segment", type=int, default=128, metavar="WORDS")
    args = parser.parse_args()
    words = args.vocabulary - len(RESERVED)
    known = {word for word, _ in islice(read_entries(args.dictionary), words)}
    for path in args.text:
        with path.open(encoding="utf-8", newline="\n") as lines:
            for segment in segments(
                lines, known, args.least_words, args.most_unknown, args.segment
            ):
                sys.stdout.write(segment + "\n")


if __name__ == "__main__":
    main()
