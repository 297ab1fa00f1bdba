"""Convert words of ocrpp (Silfverberg et al., 2016) to two files with spaces between characters.

.train and .dev of ocrpp have an aligned pair of characters on each line, `in : out`, and a blank
line after each word. `0` is an empty character and `"0"` is the digit. .test has a word on each
line: in, tab, out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from fairseq_ssl.errors import DataError, FairseqSslError
from fairseq_ssl.io.text_files import read_lines

Pair = tuple[str, str]
"""A misread word and the correct word, with spaces between characters."""
NOTHING, ZERO = "0", '"0"'


def aligned(path: Path) -> Iterator[Pair]:
    """Read the words of .train or .dev."""
    sides: tuple[list[str], list[str]] = ([], [])
    for number, line in enumerate(read_lines(path), 1):
        if line:
            pair = line.split(" : ")
            if len(pair) != 2:
                raise DataError(
                    f"{path}:{number} is {line!r}. Expected two characters, such as: a : ä"
                )
            for side, text in zip(sides, pair, strict=True):
                side += "" if text == NOTHING else text.replace(ZERO, NOTHING)
        elif any(sides):
            yield " ".join(sides[0]), " ".join(sides[1])
            sides = ([], [])
    if any(sides):
        yield " ".join(sides[0]), " ".join(sides[1])


def side_by_side(path: Path) -> Iterator[Pair]:
    """Read the words of .test."""
    for number, line in enumerate(read_lines(path), 1):
        pair = line.split("\t")
        if len(pair) != 2:
            raise DataError(f"{path}:{number} is {line!r}. Expected a word, a tab, and a word.")
        yield pair[0], pair[1]


def main() -> None:
    """Read a file of ocrpp and write two files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("words", type=Path, help="file of ocrpp, such as klk.0.train or klk.0.test")
    parser.add_argument("source", type=Path, help="output file of the misread words")
    parser.add_argument("target", type=Path, help="output file of the correct words")
    parser.add_argument("--first", type=int, help="convert only the first N words (default: all)")
    args = parser.parse_args()
    if args.first is not None and args.first < 1:
        parser.error(f"--first is {args.first}. Expected 1 or more.")
    read = side_by_side if args.words.suffix == ".test" else aligned
    try:
        pairs = list(islice(read(args.words), args.first))
    except FairseqSslError as error:
        sys.exit(f"words.py: {error}")
    for path, side in ((args.source, 0), (args.target, 1)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{pair[side]}\n" for pair in pairs), "utf-8")


if __name__ == "__main__":
    main()
