"""Create the folders rotten_tomatoes and pros_cons of the small scale from corpora of nltk_data.

The splits are drawn by --seed, with the sizes in the recipe's README. Films: sentences of the
unlabeled long reviews that are also labeled are dropped, up to case, spaces and punctuation.
Electronics: duplicates are dropped, and so are texts that are labeled both pro and con.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from fairseq_ssl.errors import DataError, FairseqSslError, UsageError
from fairseq_ssl.io.outputs import atomic_folder
from fairseq_ssl.text.labeled_text import LabeledText, duplicate_key

PACKAGES = "sentence_polarity movie_reviews pros_cons"
MOST_PROS_TESTS = 5000
PRO_OR_CON = re.compile(r"\s*<(Pros|Cons)>(.*)</(?:Pros|Cons)>\s*")


def lines_of(path: Path) -> list[str]:
    """Return the non-blank lines of a file."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(
            f"{path} cannot be read: {error.strerror}. Expected an unpacked folder of nltk_data. "
            f"Download it with: python -m nltk.downloader -d FOLDER {PACKAGES}"
        ) from None
    return [" ".join(line.split()) for line in decoded(data).split("\n") if line.strip()]


def decoded(data: bytes) -> str:
    """Decode a file as UTF-8 or else as cp1252 or Latin-1, for its Windows quotation marks."""
    for encoding in ("utf-8", "cp1252"):
        with suppress(UnicodeDecodeError):
            return data.decode(encoding)
    return data.decode("latin-1")


def films(corpora: Path) -> tuple[list[LabeledText], list[str]]:
    """Return review snippets, labeled 1 if positive, and unlabeled sentences of other reviews."""
    labeled = [
        LabeledText(label, line)
        for label, name in (("1", "rt-polarity.pos"), ("0", "rt-polarity.neg"))
        for line in lines_of(corpora / "sentence_polarity" / name)
    ]
    known = {duplicate_key(one.text) for one in labeled}
    reviews = corpora / "movie_reviews"
    files = [path for side in ("neg", "pos") for path in sorted((reviews / side).glob("*.txt"))]
    if not files:
        raise DataError(
            f"{reviews} has no neg/*.txt and pos/*.txt. Get them: "
            f"python -m nltk.downloader -d FOLDER {PACKAGES}"
        )
    sentences = (line for path in files for line in lines_of(path))
    return labeled, [line for line in sentences if duplicate_key(line) not in known]


def electronics(corpora: Path) -> list[LabeledText]:
    """Return statements of customers, labeled 1 for pros and 0 for cons."""
    found: dict[bytes, LabeledText] = {}
    both: set[bytes] = set()
    for name in ("IntegratedPros.txt", "IntegratedCons.txt"):
        for line in lines_of(corpora / "pros_cons" / name):
            parts = PRO_OR_CON.fullmatch(line)
            if parts is None or not parts[2].strip():
                continue
            one = LabeledText("1" if parts[1] == "Pros" else "0", parts[2].strip())
            if found.setdefault(duplicate_key(one.text), one).label != one.label:
                both.add(duplicate_key(one.text))
    return [one for key, one in found.items() if key not in both]


def split(texts: Sequence[LabeledText], sizes: Iterable[int], seed: int) -> list[list[LabeledText]]:
    """Draw held-out sets of these sizes. Return them, then the other texts."""
    drawn = list(texts)
    random.Random(seed).shuffle(drawn)
    parts = []
    for size in sizes:
        parts.append(drawn[:size])
        del drawn[:size]
    return [*parts, drawn]


def write(
    folder: Path, splits: dict[str, list[LabeledText]], unlabeled: Sequence[str] | None = None
) -> None:
    """Write SPLIT.tsv and unlabelled.txt, as an atomic folder."""
    with atomic_folder(folder) as temporary:
        for name, texts in splits.items():
            rows = "".join(f"{one.label}\t{one.text}\n" for one in texts)
            (temporary / f"{name}.tsv").write_text(rows, encoding="utf-8")
        if unlabeled is not None:
            rows = "".join(f"{line}\n" for line in unlabeled)
            (temporary / "unlabelled.txt").write_text(rows, encoding="utf-8")
    sizes = [f"{name} {len(texts)}" for name, texts in splits.items()]
    sizes += [] if unlabeled is None else [f"unlabeled {len(unlabeled)}"]
    print(f"wrote {folder}: {', '.join(sizes)}")


def make(nltk_data: Path, data_dir: Path, seed: int) -> None:
    """Create both folders. Of the snippets, 10% are for test and 10% of the others for dev."""
    for folder in (data_dir / "rotten_tomatoes", data_dir / "pros_cons"):
        if folder.exists():
            raise UsageError(f"{folder} exists. Delete it, or set another DATA_DIR.")
    corpora = nltk_data / "corpora"
    snippets, sentences = films(corpora)
    tests = round(len(snippets) / 10)
    valid = round((len(snippets) - tests) / 10)
    test, dev, train = split(snippets, (tests, valid), seed)
    phrases = electronics(corpora)
    held_out, rest = split(phrases, (min(MOST_PROS_TESTS, len(phrases) // 8),), seed)
    write(data_dir / "rotten_tomatoes", {"train": train, "dev": dev, "test": test}, sentences)
    write(data_dir / "pros_cons", {"train": rest, "test": held_out})


def main() -> None:
    """Read the folder of nltk_data and write the folders of DATA_DIR."""
    options = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0], allow_abbrev=False
    )
    options.add_argument(
        "nltk_data",
        type=Path,
        help=f"folder with corpora/, which has {PACKAGES.replace(' ', ', ')}, unpacked",
    )
    options.add_argument("data_dir", type=Path, help="output folder, DATA_DIR of the recipe")
    options.add_argument(
        "--seed", type=int, default=1, help="random seed of the splits (default: %(default)s)"
    )
    args = options.parse_args()
    try:
        make(args.nltk_data, args.data_dir, args.seed)
    except FairseqSslError as error:
        print(f"nltk_reviews.py: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
