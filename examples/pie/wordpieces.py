"""Cut text into the word pieces of a BERT; make fairseq's dictionary of all of them.

Pieces inside a word begin with ##, so that sed 's/ ##//g' joins them again. A word that the
pieces cannot make up stays whole: unknown to the model, it can be copied, as in PIE's own code.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Container
from pathlib import Path

from fairseq_ssl.checkpoints.hugging_face import read_vocabulary, write_dictionary
from fairseq_ssl.errors import FairseqSslError

INSIDE = "##"
LONGEST_WORD = 100
"""Characters; BERT knows no longer word."""


def cut(word: str, vocabulary: Container[str]) -> list[str]:
    """Take the longest piece that fits, again and again; return the word where none does."""
    pieces: list[str] = []
    start = 0
    while start < len(word) <= LONGEST_WORD:
        for end in range(len(word), start, -1):
            piece = INSIDE * bool(start) + word[start:end]
            # A ## that stands in the text is no mark of ours.
            if piece in vocabulary and (start or not piece.startswith(INSIDE)):
                break
        else:
            return [word]
        pieces.append(piece)
        start = end
    return pieces or [word]


def main() -> None:
    """Cut stdin, or write the dictionary to stdout."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("do", choices=("cut", "dictionary"), help="cut: stdin to stdout")
    parser.add_argument("bert", type=Path, metavar="BERT", help="folder with its vocab.txt")
    parser.add_argument("output", type=Path, nargs="?", help="where the dictionary goes")
    args = parser.parse_args()
    if args.do == "dictionary" and args.output is None:
        parser.error("dictionary needs an output")
    try:
        if args.do == "dictionary":
            write_dictionary(args.bert, args.output)
            return
        vocabulary = read_vocabulary(args.bert)
    except FairseqSslError as error:
        sys.exit(str(error))
    known: dict[str, str] = {}
    for stream in (sys.stdin, sys.stdout):
        stream.reconfigure(encoding="utf-8", newline="\n")  # type: ignore[union-attr]
    for line in sys.stdin:
        words = line.split()
        for word in words:
            if word not in known:
                known[word] = " ".join(cut(word, vocabulary))
        print(*(known[word] for word in words))


if __name__ == "__main__":
    main()
