"""Write the sentences of three small English corpora: lowercase, tokenized, without duplicates."""

from __future__ import annotations

import argparse
import gzip
from collections.abc import Iterator
from pathlib import Path

from sacremoses import MosesTokenizer

TEXTS = {"phrases": "small_parallel_enja/train.en", "films": "rotten_tomatoes/unlabelled.txt"}
"""Corpora: short sentences of a phrase book, and sentences of film reviews."""


def captions(folder: Path) -> Iterator[str]:
    """Yield the tokenized captions of Multi30k."""
    tokenizer = MosesTokenizer(lang="en")
    with gzip.open(folder / "multi30k/train.en.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            yield tokenizer.tokenize(line, return_str=True, escape=False)


def corpora(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the name and the sentences of each corpus, without sentences of the previous ones."""
    seen = {""}
    for name in ("captions", *TEXTS):
        if name in TEXTS:
            text = (folder / TEXTS[name]).read_text(encoding="utf-8").split("\n")
        else:
            text = list(captions(folder))
        whole = dict.fromkeys(" ".join(line.lower().split()) for line in text)
        yield name, [line for line in whole if line not in seen]
        seen.update(whole)


def main() -> None:
    """Write all sentences to one file, or each corpus to a file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("output", type=Path, help="output file, or folder with --apart")
    parser.add_argument(
        "--apart", action="store_true", help="write captions.txt, phrases.txt and films.txt"
    )
    args = parser.parse_args()
    texts = {name: "".join(f"{line}\n" for line in lines) for name, lines in corpora(args.folder)}
    if not args.apart:
        args.output.write_text("".join(texts.values()), encoding="utf-8")
        return
    args.output.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (args.output / f"{name}.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
