"""Shuffle the lines of a text and split off parts of given sizes."""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path


def size(word: str) -> tuple[str, int]:
    """Parse NAME=N."""
    name, _, count = word.partition("=")
    return name, int(count)


def main() -> None:
    """Write FOLDER/NAME.txt for each part, and the other lines to FOLDER/rest.txt."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("text", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--lines", type=size, nargs="+", required=True, metavar="NAME=N")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    lines = args.text.read_text("utf-8").splitlines(keepends=True)
    random.Random(args.seed).shuffle(lines)
    if sum(count for _, count in args.lines) >= len(lines):
        sys.exit(f"{args.text} has {len(lines)} lines, so no lines remain for pre-training.")
    for name, count in args.lines:
        (args.folder / f"{name}.txt").write_text("".join(lines[:count]), encoding="utf-8")
        lines = lines[count:]
    (args.folder / "rest.txt").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
