"""Put English sentences of three small corpora together: lower case, tokenised, each once."""

from __future__ import annotations

import argparse
import gzip
from collections.abc import Iterator
from pathlib import Path

from sacremoses import MosesTokenizer


def captions(folder: Path) -> Iterator[str]:
    """Yield the captions of Multi30k, tokenised."""
    tokenizer = MosesTokenizer(lang="en")
    with gzip.open(folder / "multi30k/train.en.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            yield tokenizer.tokenize(line, return_str=True, escape=False)


def sentences(folder: Path) -> Iterator[str]:
    """Yield captions, short sentences of a phrase book, and sentences of film reviews."""
    yield from captions(folder)
    for name in ("small_parallel_enja/train.en", "rotten_tomatoes/unlabelled.txt"):
        with (folder / name).open(encoding="utf-8", newline="\n") as lines:
            yield from lines


def main() -> None:
    """Write one file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("output", type=Path)
    args = parser.parse_args()
    whole = dict.fromkeys(" ".join(line.lower().split()) for line in sentences(args.folder))
    whole.pop("", None)
    args.output.write_text("".join(f"{line}\n" for line in whole), encoding="utf-8")


if __name__ == "__main__":
    main()
