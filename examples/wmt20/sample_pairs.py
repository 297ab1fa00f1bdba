"""Sample COUNT pairs of two aligned files in their order (Kiyono, 2022, section 5.3.3).

Each line has a random number that depends on the seed and the index of the line. The pairs with the
smallest numbers are kept. Memory does not grow with the files.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from itertools import compress, islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.io.outputs import atomic_path
from fairseq_ssl.noise.batch import Random

BLOCK = 1 << 20


def keys(lines: int, seed: int) -> Iterator[NDArray[np.uint64]]:
    """Yield distinct random numbers, one for each line, in blocks."""
    for begin in range(0, lines, BLOCK):
        yield Random.of((seed,), np.arange(begin, min(begin + BLOCK, lines))).keys


def threshold(lines: int, count: int, seed: int) -> np.uint64:
    """Return the `count`-th smallest random number of all lines."""
    histogram = np.zeros(1 << 16, np.int64)
    for block in keys(lines, seed):
        histogram += np.bincount((block >> np.uint64(48)).astype(np.int64), minlength=1 << 16)
    ends = np.cumsum(histogram)
    part = int(np.searchsorted(ends, count))
    inside = [block[block >> np.uint64(48) == part] for block in keys(lines, seed)]
    rank = count - 1 - int(ends[part] - histogram[part])
    return np.uint64(np.partition(np.concatenate(inside), rank)[rank])


def main() -> None:
    """Count the lines, compute the threshold and write both sides."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip())
    parser.add_argument(
        "files", type=Path, nargs=2, help="source and target files, one sentence per line"
    )
    parser.add_argument("-o", "--output", type=Path, nargs=2, required=True, metavar="FILE")
    parser.add_argument("--count", type=int, required=True, help="number of pairs, 1 or more")
    parser.add_argument("--seed", type=int, default=1, help="random seed, 0 or more (default: 1)")
    args = parser.parse_args()
    lines = set()
    for path in args.files:
        with path.open("rb") as file:
            lines.add(sum(block.count(b"\n") for block in iter(lambda: file.read(BLOCK), b"")))
    if len(lines) > 1:
        sys.exit(f"{args.files[0]} and {args.files[1]} have different numbers of lines: {lines}.")
    (total,) = lines
    count = min(args.count, total)
    highest = threshold(total, count, args.seed) if count else np.uint64(0)
    for path, output in zip(args.files, args.output, strict=True):
        with atomic_path(output) as part, path.open("rb") as file, part.open("wb") as kept:
            for block in keys(total, args.seed):
                kept.writelines(compress(islice(file, len(block)), block <= highest))
    print(f"kept {count} of {total} pairs", file=sys.stderr)


if __name__ == "__main__":
    main()
