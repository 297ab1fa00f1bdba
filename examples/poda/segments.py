"""Select pre-training text: paragraphs of known words, split into segments (section 2.3).

A random sample of the segments, for validation, is written to another file.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path

from fairseq_ssl.io.text_files import read_lines
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


def split_off(lines: Iterator[str], sample: list[str], size: int, seed: int) -> Iterator[str]:
    """Add `size` random lines to `sample` and yield the other lines (reservoir sampling)."""
    draws = random.Random(seed)
    sample += islice(lines, size)
    for count, line in enumerate(lines, size + 1):
        place = draws.randrange(count)
        if place < size:
            line, sample[place] = sample[place], line
        yield line


def main() -> None:
    """Write the segments of the texts to stdout, and a sample of them to a file."""
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
    parser.add_argument("--sample", type=Path, help="file for segments that are not in stdout")
    parser.add_argument("--sample-lines", type=int, default=0, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    words = args.vocabulary - len(RESERVED)
    known = {word for word, _ in islice(read_entries(args.dictionary), words)}
    lines = chain.from_iterable(map(read_lines, args.text))
    kept = segments(lines, known, args.least_words, args.most_unknown, args.segment)
    sample: list[str] = []
    others = split_off(kept, sample, args.sample_lines, args.seed)
    first = next(others, None)
    if first is None:
        sys.exit(f"The texts have {len(sample)} segments. Expected more than {args.sample_lines}.")
    sys.stdout.writelines(f"{line}\n" for line in chain([first], others))
    if args.sample:
        args.sample.write_text("".join(f"{line}\n" for line in sample), encoding="utf-8")


if __name__ == "__main__":
    main()
