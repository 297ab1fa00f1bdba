"""Convert learner corpora and reviews to text without sentences of the held-out sets.

    learner_text.py sentences FOLDER...            split and tokenize the .txt files of FOLDERs
    learner_text.py tokenize FILE                  tokenize sentences, one per line, as in BEA-2019
    learner_text.py pairs M2... -o FOLDER          write FOLDER/train.m2 and FOLDER/valid.m2
    learner_text.py monolingual TEXT -o PREFIX     write PREFIX.txt and PREFIX.valid.txt
    learner_text.py report PREFIX... -o FILE       check and count the written text

Two sentences are equal if their letters and digits are, because corpora differ in tokenization.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from bea_json import PUNCTUATION

from fairseq_ssl.errors import DataError, FairseqSslError, import_optional
from fairseq_ssl.io.blocks import read_parallel
from fairseq_ssl.io.executors import LocalExecutor
from fairseq_ssl.io.outputs import atomic_lines
from fairseq_ssl.io.text_files import open_bytes, parse_json, read_lines
from fairseq_ssl.text.m2 import EditApplier, M2Sentence, format_m2, read_m2

REVIEWS = 500
"""Number of files per task of a worker process."""
LINES = 10_000
"""Number of lines per task of a worker process."""
EMPTY = "empty"
"""Name for pairs with an empty side, among the reasons for removal."""


def key(sentence: str) -> str:
    """Return the letters and digits of a sentence, without case."""
    return re.sub(r"[\W_]+", "", sentence.casefold())


def rank(sentence_key: str) -> bytes:
    """Return a hash that puts sentences in a fixed random order."""
    return hashlib.blake2b(sentence_key.encode(), digest_size=16).digest()


class HeldOut:
    """Sentences of held-out sets, and the number of sentences removed because of each set."""

    def __init__(self, files: Iterable[str]) -> None:
        """Read files NAME=FILE. Several files of one name are sides or references of one set."""
        self.sets: dict[str, set[str]] = {}
        self.removed: dict[str, int] = {}
        for named in files:
            name, _, path = named.partition("=")
            self.add(name, read_lines(Path(path)))

    def add(self, name: str, sentences: Iterable[str]) -> None:
        """Add sentences to a set."""
        self.sets.setdefault(name, set()).update(filter(None, map(key, sentences)))
        self.removed.setdefault(name, 0)

    def has(self, *sentences: str) -> bool:
        """Return True if a set has one of the sentences. Count them for the first such set."""
        keys = set(map(key, sentences))
        name = next((name for name, held in self.sets.items() if not keys.isdisjoint(held)), None)
        if name is not None:
            self.removed[name] += 1
        return name is not None


@dataclass(frozen=True)
class Pair:
    """A sentence of an M2 file and its two sides as text."""

    sentence: M2Sentence
    source: str
    target: str
    level: str
    """The name of its file up to the first period: A, B, C or fce."""


def sentences(folders: Sequence[Path], jobs: int) -> Iterator[str]:
    """Yield the tokenized sentences of reviews, one file per review, in the order of the names."""
    paths = [path for folder in folders for path in sorted(folder.glob("*.txt"))]
    blocks = (paths[start : start + REVIEWS] for start in range(0, len(paths), REVIEWS))
    for found in LocalExecutor(jobs).imap(_split_reviews, blocks):
        yield from found


def _split_reviews(paths: Sequence[Path]) -> list[str]:
    parts = (
        " ".join(part.split()) for path in paths for part in re.split(r"<br\s*/?>", _decoded(path))
    )
    return [
        " ".join(token.text for token in sentence if not token.is_space)
        for document in _splitter().pipe(part.translate(PUNCTUATION) for part in parts if part)
        for sentence in document.sents
        if key(sentence.text)
    ]


def tokenize(path: Path, jobs: int) -> Iterator[str]:
    """Yield the tokens of each line of a text, separated by spaces."""
    lines = read_lines(path)
    blocks = iter(lambda: list(islice(lines, LINES)), [])
    for block in LocalExecutor(jobs).imap(_tokenize_lines, blocks):
        yield from block


def _tokenize_lines(lines: Sequence[str]) -> list[str]:
    documents = _splitter().tokenizer.pipe(line.translate(PUNCTUATION) for line in lines)
    return [" ".join(token.text for token in tokens if not token.is_space) for tokens in documents]


def _decoded(path: Path) -> str:
    with open_bytes(path) as file:
        return file.read().decode("utf-8", "replace")


@lru_cache(maxsize=1)
def _splitter() -> Any:
    spacy = import_optional("spacy", "Splitting reviews into sentences", "gec")
    splitter = spacy.blank("en")
    splitter.add_pipe("sentencizer")
    return splitter


def pairs(sources: Sequence[Path], held_out: HeldOut, size: int, folder: Path) -> None:
    """Write train.m2 in random order, valid.m2, their levels and train.counts.json.

    The order and the `size` sentences of valid, which have the smallest hashes, do not depend on
    the order of the files.
    """
    read, empty = 0, 0
    kept: list[Pair] = []
    for path in sources:
        for sentence in read_m2(path):
            read += 1
            target = EditApplier(str(path))(sentence)
            level = path.name.partition(".")[0]
            pair = Pair(sentence, " ".join(sentence.words), target, level)
            if not key(pair.source) or not key(pair.target):
                empty += 1
            elif not held_out.has(pair.source, pair.target):
                kept.append(pair)
    chosen = set(_first(size, {key(pair.source) for pair in kept}, "the training pairs"))
    valid: list[Pair] = []
    for pair in kept:
        if key(pair.source) in chosen:
            chosen.discard(key(pair.source))
            valid.append(pair)
    is_valid = set(map(id, valid))
    for pair in valid:
        held_out.add("valid", (pair.source, pair.target))
    train = [p for p in kept if id(p) not in is_valid and not held_out.has(p.source, p.target)]
    train.sort(key=lambda pair: (rank(key(pair.source)), pair.source, pair.target))
    for name, part in (("train", train), ("valid", valid)):
        blocks = (format_m2(pair.sentence) for pair in part)
        _write(folder / f"{name}.m2", (line for block in blocks for line in block))
        _write(folder / f"{name}.levels", (pair.level for pair in part))
    counts = {"read": read, "held_out": len(valid), "removed": {EMPTY: empty, **held_out.removed}}
    _write(folder / "train.counts.json", [json.dumps(counts)])


def monolingual(
    text: Path, held_out: HeldOut, training: Sequence[Path], size: int, most: int, prefix: Path
) -> None:
    """Write PREFIX.txt, at most `most` lines in random order, and PREFIX.valid.txt.

    Args:
        text: clean sentences
        held_out: sets whose sentences are removed
        training: text whose sentences are not held out
        size: number of lines of PREFIX.valid.txt
        most: max number of lines of PREFIX.txt
        prefix: start of the names of the outputs
    """
    lines = list(read_lines(text))
    kept = sorted((rank(key(line)), line) for line in lines if not held_out.has(line))
    trained = {key(line) for path in training for line in read_lines(path)}
    name = f"{prefix.name}.valid"
    chosen = _first(size, {key(line) for _, line in kept} - trained, str(text))
    held_out.add(name, chosen)
    first = {key(line): line for _, line in reversed(kept)}
    _write(prefix.with_name(f"{name}.txt"), (first[one] for one in chosen))
    rest = [line for _, line in kept if not held_out.has(line)]
    held_out.removed[name] -= len(chosen)
    _write(prefix.with_name(f"{prefix.name}.txt"), rest[:most])
    counts = {"read": len(lines), "held_out": len(chosen), "removed": held_out.removed}
    _write(prefix.with_name(f"{prefix.name}.counts.json"), [json.dumps(counts)])


def _first(size: int, keys: set[str], where: str) -> list[str]:
    """Return the `size` keys with the smallest hashes."""
    if len(keys) <= size:
        raise DataError(
            f"{where}: {len(keys)} different sentences. Expected more than the {size} to hold out."
        )
    return sorted(keys, key=rank)[:size]


def report(prefixes: Sequence[Path], held_out: HeldOut, output: Path) -> None:
    """Print counts, and write them as JSON. Raise an error if a text has a held-out sentence."""
    sizes = {name: len(keys) for name, keys in held_out.sets.items()}
    texts: dict[str, dict[str, Any]] = {}
    for prefix in prefixes:
        found = _read_counts(prefix.with_name(f"{prefix.name}.counts.json"))
        sides = [prefix.with_name(f"{prefix.name}.{end}") for end in ("src", "trg", "txt")]
        held_out.removed = dict.fromkeys(sizes, 0)
        lines, words = 0, 0
        for rows in read_parallel([side for side in sides if side.exists()]):
            held_out.has(*rows)
            lines, words = lines + 1, words + len(rows[0].split())
        if any(held_out.removed.values()):
            raise DataError(
                f"{prefix} has sentences of held-out sets: {held_out.removed}. Expected none."
            )
        texts[prefix.name] = found | {"sentences": lines, "words": words}
    content = {"held_out": sizes, "texts": texts}
    _write(output, json.dumps(content, indent=1).split("\n"))
    print(_table(texts, sizes))


def _read_counts(path: Path) -> dict[str, Any]:
    """Read a file of `pairs` or `monolingual`."""
    with open_bytes(path) as file:
        data = file.read()
    try:
        found: dict[str, Any] = dict(parse_json(data))
        counts = [found["read"], found["held_out"], *found["removed"].values()]
    except (AttributeError, KeyError, TypeError, ValueError):
        found, counts = {}, [None]
    if not all(type(count) is int for count in counts):
        raise DataError(
            f"{path} does not have the counts of `pairs` or `monolingual`. Run this step again."
        )
    return found


def _table(texts: dict[str, dict[str, Any]], sets: Iterable[str]) -> str:
    """Return a table of the texts, with the sentences removed because they are in a set."""
    names = list(sets)
    heads = ["text", "read", "empty", *(f"in {name}" for name in names), "held out", "sentences"]
    rows = [[*heads, "words"], ["---"] * (len(heads) + 1)]
    for text, found in texts.items():
        removed = (found["removed"].get(name, 0) for name in (EMPTY, *names))
        numbers = [found["read"], *removed, found["held_out"], found["sentences"], found["words"]]
        rows.append([text, *(f"{number:,}" for number in numbers)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _write(path: Path, lines: Iterable[str]) -> None:
    with atomic_lines(path) as file:
        file.writelines(f"{line}\n" for line in lines)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    steps = parser.add_subparsers(dest="step", required=True)
    step = steps.add_parser("sentences")
    step.add_argument("folders", type=Path, nargs="+")
    step.add_argument("--jobs", type=int, default=1)
    step = steps.add_parser("tokenize")
    step.add_argument("text", type=Path)
    step.add_argument("--jobs", type=int, default=1)
    for name in ("pairs", "monolingual", "report"):
        step = steps.add_parser(name)
        step.add_argument("inputs", type=Path, nargs="+")
        step.add_argument("--held-out", nargs="+", default=[], metavar="NAME=FILE")
        step.add_argument("-o", "--output", type=Path, required=True)
        if name != "report":
            step.add_argument("--size", type=int, required=True, help="sentences to hold out")
        if name == "monolingual":
            step.add_argument("--training", type=Path, nargs="+", default=[])
            step.add_argument("--lines", type=int, required=True)
    args = parser.parse_args()
    try:
        if args.step in ("sentences", "tokenize"):
            lines = (
                sentences(args.folders, args.jobs)
                if args.step == "sentences"
                else tokenize(args.text, args.jobs)
            )
            sys.stdout.writelines(f"{line}\n" for line in lines)
            return
        held_out = HeldOut(args.held_out)
        if args.step == "pairs":
            pairs(args.inputs, held_out, args.size, args.output)
        elif args.step == "monolingual":
            monolingual(args.inputs[0], held_out, args.training, args.size, args.lines, args.output)
        else:
            report(args.inputs, held_out, args.output)
    except FairseqSslError as error:
        sys.exit(f"learner_text.py: {error}")


if __name__ == "__main__":
    main()
