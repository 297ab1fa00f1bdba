"""Convert data sets, as they are published, to the text that the recipe reads.

    published_sets.py imdb aclImdb DATA_DIR/imdb         aclImdb_v1.tar.gz of Maas et al. (2011)
    published_sets.py elec FOLDER DATA_DIR/elec          elec of Johnson and Zhang (2015)
    published_sets.py rcv1 FOLDER DATA_DIR/rcv1          token files of Lewis et al. (2004)
    published_sets.py amazon FILE... -o TEXT             Amazon reviews of McAuley and others
    published_sets.py sentences aclImdb -o TEXT          sentences of all reviews of IMDB

Unlabeled texts that are also held-out texts, up to case, spaces and punctuation, are removed.
Training texts are kept, so that the sets have their published sizes, and counted: `fairseq-ssl
classify prepare --train-test-overlap drop` removes them.
"""

from __future__ import annotations

import argparse
import html
import random
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from fairseq_ssl.errors import DataError, FairseqSslError, UsageError
from fairseq_ssl.io.outputs import atomic_folder, atomic_lines
from fairseq_ssl.io.text_files import open_bytes, parse_json, read_lines
from fairseq_ssl.text.labeled_text import LabeledText, duplicate_key, normalized, read_labeled_text

IMDB_FOLDERS = ("train/pos", "train/neg", "train/unsup", "test/pos", "test/neg")
IMDB_DEV_STARTS = {"pos": 10621, "neg": 10625}
"""Number of the first file of dev, as in Miyato et al. (2017), for 21,246 and 3,754 reviews.

Reviews of a film have consecutive numbers, so few films are in both sets.
"""
RCV1_TRAIN = "lyrl2004_tokens_train.dat"
RCV1_TESTS = tuple(f"lyrl2004_tokens_test_pt{part}.dat" for part in range(4))
RCV1_TOPICS, RCV1_HIERARCHY = "rcv1-v2.topics.qrels", "rcv1.topics.hier.orig"
RCV1_TOPIC = re.compile(r"parent: (?P<parent>\S+)\s+child: (?P<child>\S+)")
RCV1_TEST_SIZE = 49_838
LEAST_WORDS = 3
"""Minimum number of words of a sentence."""
SENTENCE_END = re.compile(r"(?:(?<=[.!?])|(?<=[.!?][\"')]))\s+(?=[\"'(]?[A-Z0-9])")
Splits = dict[str, list[LabeledText]]


class HeldOut:
    """Held-out texts, and the number of texts that were removed because of each set."""

    def __init__(self, stop_words: Path | None = None) -> None:
        """Compare texts without the words of a file, one per line (Kiyono, 2022, footnote 5)."""
        lines = [] if stop_words is None else read_lines(stop_words)
        self.stop_words = {word for line in lines for word in normalized(line).split()}
        self.names: dict[bytes, str] = {}
        self.removed: Counter[str] = Counter()

    def key(self, text: str) -> bytes:
        """Return the key of a text without stop words, or of all words if it has no others."""
        if not self.stop_words:
            return duplicate_key(text)
        words = normalized(text).split()
        rest = [word for word in words if word not in self.stop_words]
        return duplicate_key(" ".join(rest or words))

    def add(self, name: str, texts: Iterable[LabeledText]) -> None:
        """Add the texts of a set."""
        for one in texts:
            self.names.setdefault(self.key(one.text), name)

    def without(self, texts: Iterable[str]) -> Iterator[str]:
        """Yield the texts that are not held out, and count the others."""
        for text in texts:
            name = self.names.get(self.key(text))
            if name is None:
                yield text
            else:
                self.removed[name] += 1


def one_line(text: str) -> str:
    """Return a text on one line, without HTML line breaks and character references."""
    text = re.sub(r"<br\s*/?>|&#\d{8,};?", " ", text)  # `html.unescape` rejects very long numbers
    return " ".join(html.unescape(text).split())


def require(folder: Path, names: Iterable[str], origin: str) -> list[Path]:
    """Return the paths of files in a folder, or with .gz appended. Report all that are missing."""
    paths = [folder / name for name in names]
    packed = [path.with_name(f"{path.name}.gz") for path in paths]
    found = [
        zipped if zipped.exists() and not path.exists() else path
        for path, zipped in zip(paths, packed, strict=True)
    ]
    missing = [str(path) for path in found if not path.exists()]
    if missing:
        raise DataError(f"{', '.join(missing)} not found. Expected {origin}.")
    return found


def write(
    folder: Path, splits: Splits, unlabeled: Iterable[str], stop_words: Path | None = None
) -> None:
    """Write SPLIT.tsv and unlabelled.txt, as an atomic folder, and print the numbers of texts."""
    held = HeldOut(stop_words)
    for name in ("test", "dev"):
        held.add(name, splits.get(name, []))
    sizes = {name: len(texts) for name, texts in splits.items()} | {"unlabeled": 0}
    with atomic_folder(folder) as temporary:
        for name, texts in splits.items():
            with atomic_lines(temporary / f"{name}.tsv") as file:
                file.writelines(f"{one.label}\t{one.text}\n" for one in texts)
        with atomic_lines(temporary / "unlabelled.txt") as file:
            for text in held.without(unlabeled):
                sizes["unlabeled"] += 1
                file.write(f"{text}\n")
    print(f"wrote {folder}: {', '.join(f'{name} {size}' for name, size in sizes.items())}")
    print_overlap(splits, held)


def print_overlap(splits: Splits, held: HeldOut) -> None:
    """Print the number of texts in two splits, and of unlabeled texts that were removed."""
    keys = {name: [held.key(one.text) for one in texts] for name, texts in splits.items()}
    for name, other in (("train", "test"), ("dev", "test"), ("train", "dev")):
        if name in splits and other in splits:
            others = set(keys[other])
            both = sum(key in others for key in keys[name])
            print(f"{name} texts that are also in {other}: {both}")
    for name in ("dev", "test"):
        if name in splits:
            print(f"unlabeled texts removed because they are in {name}: {held.removed[name]}")


def imdb(folder: Path, output: Path, stop_words: Path | None) -> None:
    """Convert aclImdb, with label 1 for positive reviews."""
    require(folder, IMDB_FOLDERS, "aclImdb of aclImdb_v1.tar.gz")
    splits: Splits = {"train": [], "dev": [], "test": []}
    for part in ("train", "test"):
        for side, label in (("pos", "1"), ("neg", "0")):
            for path in reviews(folder / part / side):
                is_dev = part == "train" and number(path) >= IMDB_DEV_STARTS[side]
                splits["dev" if is_dev else part].append(LabeledText(label, read(path)))
    write(output, splits, map(read, reviews(folder / "train/unsup")), stop_words)


def reviews(folder: Path) -> list[Path]:
    """Return the files NUMBER_RATING.txt of a folder, sorted by number."""
    paths = sorted(folder.glob("*_*.txt"), key=number)
    if not paths:
        raise DataError(f"{folder} has no files such as 0_9.txt. Expected aclImdb.")
    return paths


def number(path: Path) -> int:
    """Return the number of a review, with which its file name begins."""
    head = path.name.partition("_")[0]
    if not head.isdecimal():
        raise DataError(f"{path} has no number. Expected a name such as 0_9.txt.")
    return int(head)


def read(path: Path) -> str:
    """Return a review on one line."""
    return one_line(decoded(path))


def decoded(path: Path) -> str:
    """Return the text of a review, with replacement characters for bytes that are not UTF-8."""
    with open_bytes(path) as file:
        return file.read().decode("utf-8", "replace")


def elec(folder: Path, output: Path, stop_words: Path | None) -> None:
    """Convert the text, tokenized or not, and the labels of Elec."""
    origin = "elec of Johnson and Zhang's data for ConText"
    splits: Splits = {}
    for name, stem in (("train", "elec-25k-train"), ("test", "elec-test")):
        suffix = "txt.tok" if list(folder.glob(f"{stem}.txt.tok*")) else "txt"
        text, label = require(folder, (f"{stem}.{suffix}", f"{stem}.cat"), origin)
        texts, labels = list(read_lines(text)), list(read_lines(label))
        if len(texts) != len(labels):
            raise DataError(
                f"{text} has {len(texts)} lines but {label} has {len(labels)}. Both must have the "
                "same number of lines."
            )
        rows = zip(labels, texts, strict=True)
        splits[name] = [LabeledText(one.strip(), one_line(line)) for one, line in rows]
    parts = sorted(folder.glob("elec-25k-unlab*"))
    if not parts:
        raise DataError(f"{folder} has no elec-25k-unlab00.txt.tok. Expected {origin}.")
    lines = (one_line(line) for part in parts for line in read_lines(part))
    write(output, splits, filter(None, lines), stop_words)


def rcv1(
    folder: Path, output: Path, stop_words: Path | None, size: int = RCV1_TEST_SIZE, seed: int = 1
) -> None:
    """Convert the documents with one topic of the second level. The others are unlabeled.

    Test is a sample of the documents of the token files for tests.
    """
    origin = "files of RCV1-v2 of Lewis et al., such as lyrl2004_tokens_train.dat.gz"
    names = (RCV1_TRAIN, *RCV1_TESTS, RCV1_TOPICS, RCV1_HIERARCHY)
    train, *tests, topics, hierarchy = require(folder, names, origin)
    labels = rcv1_labels(topics, hierarchy)
    splits: Splits = {"train": [], "test": []}
    known: set[str] = set()
    for name, text in documents([train]):
        known.add(name)
        if name in labels:
            splits["train"].append(LabeledText(labels[name], text))
    candidates = sorted(labels.keys() - known)
    if size < 1:
        raise UsageError(f"--test-size is {size}. Expected 1 or more.")
    if size > len(candidates):
        raise DataError(
            f"There are {len(candidates)} labeled documents for test, but --test-size is {size}."
        )
    chosen = set(random.Random(seed).sample(candidates, size))
    splits["test"] = [
        LabeledText(labels[name], text) for name, text in documents(tests) if name in chosen
    ]
    used = chosen | (labels.keys() & known)
    rest = (text for name, text in documents([train, *tests]) if name not in used)
    write(output, splits, rest, stop_words)


def rcv1_labels(topics: Path, hierarchy: Path) -> dict[str, str]:
    """Return the label of each document with exactly one topic of the second level."""
    rows = [RCV1_TOPIC.match(line) for line in read_lines(hierarchy)]
    parents = {row["child"]: row["parent"] for row in rows if row is not None}
    second = {child for child, parent in parents.items() if parents.get(parent) == "Root"}
    if not second:
        raise DataError(
            f"{hierarchy} has no topics of the second level. Expected lines such as 'parent: CCAT "
            "child: C11 child-description: STRATEGY/PLANS'."
        )
    found: dict[str, str] = {}
    several: set[str] = set()
    for at, line in enumerate(read_lines(topics), 1):
        fields = line.split()
        if len(fields) != 3:
            raise DataError(f"{topics}:{at} is {line[:80]!r}. Expected a topic, a document and 1.")
        topic, name, _ = fields
        if topic in second and found.setdefault(name, topic) != topic:
            several.add(name)
    return {name: topic for name, topic in found.items() if name not in several}


def documents(paths: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each document of token files."""
    for path in paths:
        name, words = "", list[str]()
        for line in read_lines(path):
            if line.startswith(".I "):
                if name:
                    yield name, " ".join(words)
                name, words = line[3:].strip(), []
            elif not name:
                raise DataError(f"{path} begins with {line[:80]!r}. Expected '.I' and a number.")
            elif line != ".W":
                words += line.split()
        if name:
            yield name, " ".join(words)


def amazon_texts(paths: Sequence[Path]) -> Iterator[str]:
    """Yield the reviews of JSON lines, or of SNAP's text format."""
    for path in paths:
        for at, line in enumerate(read_lines(path), 1):
            field, _, value = line.partition(": ")
            if line.startswith("{"):
                yield one_line(json_review(line, f"{path}:{at}"))
            elif field == "review/text":
                yield one_line(value)
            elif line and "/" not in field:
                raise DataError(
                    f"{path}:{at} is {line[:80]!r}. Expected a JSON object with reviewText or "
                    "text, or a line of SNAP's format, such as 'review/text: ...'."
                )


def json_review(line: str, where: str) -> str:
    """Return the text of a review in JSON."""
    try:
        fields = parse_json(line)
    except ValueError as error:
        raise DataError(f"{where} is not valid JSON: {error}. Expected strict JSON.") from None
    text = fields.get("reviewText", fields.get("text", ""))
    return text if isinstance(text, str) else ""


def sentences(folder: Path) -> Iterator[str]:
    """Yield the sentences of all reviews of IMDB."""
    require(folder, IMDB_FOLDERS, "aclImdb of aclImdb_v1.tar.gz")
    for part in IMDB_FOLDERS:
        for path in reviews(folder / part):
            for line in re.split(r"<br\s*/?>", decoded(path)):
                for sentence in SENTENCE_END.split(line):
                    if len(normalized(sentence).split()) >= LEAST_WORDS:
                        yield one_line(sentence)


def write_text(texts: Iterable[str], output: Path, held: HeldOut) -> None:
    """Write distinct texts that are not held out, and print their number."""
    seen: set[bytes] = set()
    with atomic_lines(output) as file:
        for text in held.without(filter(None, texts)):
            key = duplicate_key(text)
            if key not in seen:
                seen.add(key)
                file.write(f"{text}\n")
    print(f"wrote {output}: {len(seen)} texts; held-out texts removed: {held.removed.total()}")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    options = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0], allow_abbrev=False
    )
    kinds = options.add_subparsers(dest="kind", required=True)
    for name, origin in (
        ("imdb", "aclImdb, unpacked"),
        ("elec", "folder with elec-25k-train.txt.tok and .cat, the same of test, and unlab files"),
        ("rcv1", "folder with token files, topics and their hierarchy; .gz by suffix"),
    ):
        one = kinds.add_parser(name, allow_abbrev=False)
        one.add_argument("folder", type=Path, help=origin)
        one.add_argument("output", type=Path, help="output folder, in DATA_DIR of the recipe")
        if name == "rcv1":
            one.add_argument("--test-size", type=int, default=RCV1_TEST_SIZE)
            one.add_argument("--seed", type=int, default=1, help="random seed of test (default: 1)")
    for name in ("amazon", "sentences"):
        one = kinds.add_parser(name, allow_abbrev=False)
        if name == "amazon":
            one.add_argument("files", type=Path, nargs="+", help="JSON lines; .gz by suffix")
        else:
            one.add_argument("folder", type=Path, help="aclImdb, unpacked")
        one.add_argument("-o", "--output", type=Path, required=True, help="text, one per line")
        one.add_argument(
            "--held-out",
            type=Path,
            nargs="+",
            default=[],
            help="files such as test.tsv, whose texts are removed",
        )
    for one in kinds.choices.values():
        one.add_argument(
            "--stop-words",
            type=Path,
            help="words, one per line: texts that differ only in these words are equal, as in "
            "footnote 5 of Kiyono, 2022 (default: compare all words)",
        )
    return options


def convert(args: argparse.Namespace) -> None:
    """Convert a data set."""
    if args.output.exists():
        raise UsageError(f"{args.output} exists. Delete it, or set another output.")
    if args.kind == "rcv1":
        rcv1(args.folder, args.output, args.stop_words, args.test_size, args.seed)
    elif args.kind in ("imdb", "elec"):
        {"imdb": imdb, "elec": elec}[args.kind](args.folder, args.output, args.stop_words)
    else:
        held = HeldOut(args.stop_words)
        for path in args.held_out:
            held.add(str(path), read_labeled_text(path))
        texts = amazon_texts(args.files) if args.kind == "amazon" else sentences(args.folder)
        write_text(texts, args.output, held)


def main() -> None:
    """Parse the command line and convert."""
    try:
        convert(parser().parse_args())
    except FairseqSslError as error:
        print(f"published_sets.py: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
