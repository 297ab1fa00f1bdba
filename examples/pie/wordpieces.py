"""Split text into BERT's word pieces, and join edited word pieces to text.

    wordpieces.py split BERT < TEXT > PIECES            word pieces with spaces between
    wordpieces.py join BERT --source TEXT < PIECES      join edited PIECES of TEXT
    wordpieces.py dictionary BERT --output DICTIONARY   write fairseq's dictionary of word pieces

BERT is a model folder of Hugging Face. A part of a word without word pieces is kept unchanged. It
is unknown to the model and can be copied, as in the authors' code.
"""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from fairseq_ssl.checkpoints.pretrained import load_tokenizer
from fairseq_ssl.errors import FairseqSslError, import_optional
from fairseq_ssl.io.outputs import atomic_lines
from fairseq_ssl.text.vocabulary import RESERVED

INSIDE = "##"
UNKNOWN = "[UNK]"
SPECIAL = ("[CLS]", "[PAD]", "[SEP]", UNKNOWN, "[MASK]")
"""Special symbols that do not occur in text. fairseq has other names for the first four."""


@dataclass(frozen=True)
class Piece:
    """A word piece of a line."""

    name: str
    """Symbol in the vocabulary, or the text itself if it has no symbol."""
    surface: str
    """Characters of the word piece in the text, with those that BERT drops, such as accents."""
    starts_word: bool


class WordPieces:
    """Tokenizer of a BERT model."""

    def __init__(self, bert: Path) -> None:
        vocabulary = load_tokenizer(bert).get_vocab()
        tokenizers = import_optional("tokenizers", "Splitting text into word pieces", "bert")
        model = tokenizers.models.WordPiece(
            vocabulary | {UNKNOWN: vocabulary.get(UNKNOWN, len(vocabulary))}
        )
        model.unk_token = UNKNOWN
        self.tokenizer = tokenizers.Tokenizer(model)
        self.tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(
            lowercase=_is_uncased(bert)
        )
        self.tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
        self.of_word = lru_cache(maxsize=1 << 17)(self._of_word)

    def split(self, line: str) -> list[Piece]:
        """Return the word pieces of a line."""
        return [piece for word in line.split() for piece in self.of_word(word)]

    def _of_word(self, word: str) -> tuple[Piece, ...]:
        encoding = self.tokenizer.encode(word, add_special_tokens=False)
        offsets = encoding.offsets
        # The surfaces of a word join to the word: each extends to the start of the next.
        bounds = [0, *(start for start, _ in offsets[1:]), len(word)]
        found: list[Piece] = []
        for name, (start, end) in zip(encoding.tokens, offsets, strict=True):
            surface = word[bounds[len(found)] : bounds[len(found) + 1]]
            symbol = word[start:end] if name == UNKNOWN else name
            found.append(Piece(symbol, surface, not found))
        return tuple(found) or (Piece(word, word, True),)

    def join(self, edited: str, source: str) -> str:
        """Join edited word pieces to text, with the spaces and the case of the source.

        Word pieces that are adjacent in a word of the source are joined. A word piece without a
        counterpart in the source is joined to the previous one if it starts with ##.
        """
        pieces, names = self.split(source), edited.split()
        counterparts = _counterparts([piece.name for piece in pieces], names)
        text: list[str] = []
        for place, name in enumerate(names):
            own, before = counterparts[place], counterparts[place - 1] if place else None
            surface = name.removeprefix(INSIDE) if text else name
            joined = name.startswith(INSIDE)
            if own is not None:
                if pieces[own].name == name:
                    surface = pieces[own].surface
                joined = not pieces[own].starts_word and (before == own - 1 or joined)
            text += [surface] if joined or not text else [" ", surface]
        return "".join(text)


def _counterparts(source: list[str], edited: list[str]) -> list[int | None]:
    """Return the source index of each edited word piece that is equal or a substitution."""
    places: list[int | None] = [None] * len(edited)
    matcher = difflib.SequenceMatcher(None, source, edited, autojunk=False)
    for kind, start, end, first, last in matcher.get_opcodes():
        if kind == "equal" or (kind == "replace" and end - start == last - first):
            places[first:last] = range(start, end)
    return places


def _is_uncased(bert: Path) -> bool:
    """Return True if the tokenizer converts text to lowercase."""
    settings = bert / "tokenizer_config.json"
    return settings.is_file() and bool(json.loads(settings.read_text("utf-8")).get("do_lower_case"))


def write_dictionary(bert: Path, output: Path) -> None:
    """Write the word pieces as a dictionary for fairseq-preprocess.

    Special symbols and symbols with whitespace are omitted.
    """
    rows = load_tokenizer(bert).get_vocab()
    with atomic_lines(output) as file:
        for symbol in sorted(rows, key=rows.__getitem__):
            if symbol not in (*RESERVED, *SPECIAL) and symbol.split() == [symbol]:
                file.write(f"{symbol} 1\n")


def main() -> None:
    """Convert stdin to stdout, or write the dictionary."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("action", choices=("split", "join", "dictionary"))
    parser.add_argument("bert", type=Path, metavar="BERT", help="folder of a BERT model")
    parser.add_argument("--source", type=Path, metavar="TEXT", help="for join: text before `split`")
    parser.add_argument("--output", type=Path, metavar="FILE", help="for dictionary: output file")
    args = parser.parse_args()
    needed = {"join": "source", "dictionary": "output"}.get(args.action)
    if needed and getattr(args, needed) is None:
        parser.error(f"{args.action} needs --{needed}")
    for stream in (sys.stdin, sys.stdout):
        stream.reconfigure(encoding="utf-8", newline="\n")  # type: ignore[union-attr]
    try:
        if args.action == "dictionary":
            write_dictionary(args.bert, args.output)
            return
        word_pieces = WordPieces(args.bert)
    except FairseqSslError as error:
        sys.exit(str(error))
    if args.action == "split":
        for line in sys.stdin:
            print(*(piece.name for piece in word_pieces.split(line)))
        return
    with args.source.open(encoding="utf-8", newline="\n") as source:
        try:
            for edited, line in zip(sys.stdin, source, strict=True):
                print(word_pieces.join(edited, line))
        except ValueError:
            sys.exit(f"{args.source} and stdin have different numbers of lines.")


if __name__ == "__main__":
    main()
