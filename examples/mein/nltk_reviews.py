"""The folders rotten_tomatoes and pros_cons of the small scale, from three corpora of nltk_data.

The split is this script's own: drawn by --seed, with as many texts to train, validate and test
on as the recipe's README tells. Films: no sentence of the long reviews that are the text without
labels stands among the labeled ones, case, spaces and punctuation apart. Electronics: of equal
texts one is kept, and none that is called both a pro and a con.
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
    """Return the lines that are not blank."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(
            f"{path} can not be read: {error.strerror}. Expected an unpacked folder of nltk_data; "
            f"get it: python -m nltk.downloader -d FOLDER {PACKAGES}"
        ) from None
    return [" ".join(line.split()) for line in decoded(data).split("\n") if line.strip()]


def decoded(data: bytes) -> str:
    """Return a file as text: UTF-8 or, as it has quotation marks of Windows, cp1252 or Latin-1."""
    for encoding in ("utf-8", "cp1252"):
        with suppress(UnicodeDecodeError):
            return data.decode(encoding)
    return data.decode("latin-1")


def films(corpora: Path) -> tuple[list[LabeledText], list[str]]:
    """Return review snippets, 1 for a good one, and the sentences of other reviews."""
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
    """Return what customers like, 1, and what not, 0."""
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


def cut(texts: Sequence[LabeledText], numbers: Iterable[int], seed: int) -> list[list[LabeledText]]:
    """Return so many texts drawn for each held-out set, and then all others."""
    drawn = list(texts)
    random.Random(seed).shuffle(drawn)
    parts = []
    for number in numbers:
        parts.append(drawn[:number])
        del drawn[:number]
    return [*parts, drawn]


def write(
    folder: Path, splits: dict[str, list[LabeledText]], unlabeled: Sequence[str] | None = None
) -> None:
    """Write SPLIT.tsv and unlabelled.txt, all of them or none."""
    with atomic_folder(folder) as aside:
        for name, texts in splits.items():
            rows = "".join(f"{one.label}\t{one.text}\n" for one in texts)
            (aside / f"{name}.tsv").write_text(rows, encoding="utf-8")
        if unlabeled is not None:
            rows = "".join(f"{line}\n" for line in unlabeled)
            (aside / "unlabelled.txt").write_text(rows, encoding="utf-8")
    told = [f"{name} {len(texts)}" for name, texts in splits.items()]
    told += [] if unlabeled is None else [f"unlabeled {len(unlabeled)}"]
    print(f"wrote {folder}: {', '.join(told)}")


def make(nltk_data: Path, data_dir: Path, seed: int) -> None:
    """Make both folders: a tenth of the snippets for the test, of the others one to validate."""
    for folder in (data_dir / "rotten_tomatoes", data_dir / "pros_cons"):
        if folder.exists():
            raise UsageError(f"{folder} exists. Take it away, or name another DATA_DIR.")
    corpora = nltk_data / "corpora"
    snippets, sentences = films(corpora)
    tests = round(len(snippets) / 10)
    valid = round((len(snippets) - tests) / 10)
    test, dev, train = cut(snippets, (tests, valid), seed)
    phrases = electronics(corpora)
    held_out, rest = cut(phrases, (min(MOST_PROS_TESTS, len(phrases) // 8),), seed)
    write(data_dir / "rotten_tomatoes", {"train": train, "dev": dev, "test": test}, sentences)
    write(data_dir / "pros_cons", {"train": rest, "test": held_out})


def main() -> None:
    """Read the folder of nltk_data, and write those of DATA_DIR."""
    options = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0], allow_abbrev=False
    )
    options.add_argument(
        "nltk_data", type=Path, help=f"has corpora/ with {PACKAGES.replace(' ', ', ')}, unpacked"
    )
    options.add_argument("data_dir", type=Path, help="DATA_DIR of the recipe")
    options.add_argument("--seed", type=int, default=1, help="of the split (default: %(default)s)")
    args = options.parse_args()
    try:
        make(args.nltk_data, args.data_dir, args.seed)
    except FairseqSslError as error:
        print(f"nltk_reviews.py: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
