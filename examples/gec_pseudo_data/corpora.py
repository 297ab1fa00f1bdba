"""Convert M2 files to pairs and back, and split small corpora."""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from fairseq_ssl.errors import DataError, FairseqSslError
from fairseq_ssl.io.text_files import read_lines
from fairseq_ssl.metrics.edit_extraction import Annotator
from fairseq_ssl.noise.default_learner_errors import DEFAULT_ERRORS
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.m2 import EditApplier, M2Sentence, format_m2, read_m2

ERRORS = (20, 40, 25, 10, 5)
"""Percentage of sentences with 0, 1, 2, 3 and 4 learner errors."""
LEAST, MOST = 3, 25
"""Minimum and maximum sentence length in words."""


def pairs(sources: Sequence[Path], prefix: Path, held_out: bool) -> None:
    """Write PREFIX.src and PREFIX.trg from M2 files, corrected by the first annotator.

    Training sets exclude pairs with equal or empty sides (4.4.1). Held-out sets keep all sentences,
    because outputs are scored against the M2 file sentence by sentence.
    """
    sides: tuple[list[str], list[str]] = ([], [])
    read = 0
    for path in sources:
        for sentence in read_m2(path):
            read += 1
            before, after = " ".join(sentence.words), _target(sentence, path, held_out)
            if held_out or (before and after and before != after):
                sides[0].append(before)
                sides[1].append(after)
    print(f"{len(sides[0])} pairs from {read} sentences of {len(sources)} files")
    for side, lines in zip(("src", "trg"), sides, strict=True):
        _write(prefix.with_name(f"{prefix.name}.{side}"), lines)


def _target(sentence: M2Sentence, path: Path, held_out: bool) -> str:
    """Correct a sentence. A held-out sentence with conflicting edits is returned unchanged."""
    try:
        return EditApplier(str(path))(sentence)
    except DataError as error:
        if not held_out:
            raise
        print(f"corpora.py: {error} The target has the uncorrected sentence.", file=sys.stderr)
        return " ".join(sentence.words)


def gold(prefix: Path) -> None:
    """Write PREFIX.m2 from PREFIX.src and PREFIX.trg, with untyped edits."""
    find = Annotator(None)
    sides = (read_lines(prefix.with_name(f"{prefix.name}.{side}")) for side in ("src", "trg"))
    pairs = [(src, (trg,), 0) for src, trg in zip(*sides, strict=True)]
    blocks = (format_m2(sentence) for sentence in find.sentences(pairs))
    _write(prefix.with_name(f"{prefix.name}.m2"), [line for block in blocks for line in block])


def learner_errors(path: Path) -> None:
    """Write the list of learner errors from which the errors of the genuine pairs are drawn."""
    words = replace(DEFAULT_ERRORS, errors=ERRORS)
    words.write(path, Signature("learner-errors", {"made": "by hand"}))


def split(texts: Sequence[Path], folder: Path, genuine: int, held_out: int) -> None:
    """Split clean sentences into train, valid and test, in sections, and seed corpora.

    Args:
        texts: files of the sections of train, valid and test, in this order
        folder: output folder for SET.clean, SET.levels, NAME.txt for each text, and all.txt
        genuine: number of training sentences from all texts
        held_out: number of sentences in valid, and in test
    """
    sizes = {"train": genuine, "valid": held_out, "test": held_out}
    parts: dict[str, list[str]] = {name: [] for name in sizes}
    levels: dict[str, list[str]] = {name: [] for name in sizes}
    rest: list[str] = []
    draw = random.Random(1)
    for path in texts:
        lines = [line for line in read_lines(path) if LEAST <= len(line.split()) <= MOST]
        draw.shuffle(lines)
        for name, size in sizes.items():
            count = size // len(texts)
            parts[name] += lines[:count]
            levels[name] += [path.stem] * len(lines[:count])
            lines = lines[count:]
        _write(folder / f"{path.stem}.txt", lines)
        rest += lines
    draw.shuffle(rest)
    _write(folder / "all.txt", rest)
    for name in sizes:
        _write(folder / f"{name}.clean", parts[name])
        _write(folder / f"{name}.levels", levels[name])


def _write(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f"{path.name}.tmp")
    aside.write_text("".join(_ended(lines)), encoding="utf-8", newline="\n")
    aside.replace(path)


def _ended(lines: list[str]) -> Iterator[str]:
    return (f"{line}\n" for line in lines)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    steps = parser.add_subparsers(dest="step", required=True)
    step = steps.add_parser("pairs", help=pairs.__doc__)
    step.add_argument("m2", type=Path, nargs="+")
    step.add_argument("--to", type=Path, required=True, metavar="PREFIX")
    step.add_argument("--held-out", action="store_true", help="keep all sentences")
    step = steps.add_parser("gold", help=gold.__doc__)
    step.add_argument("prefix", type=Path)
    step = steps.add_parser("learner-errors", help=learner_errors.__doc__)
    step.add_argument("output", type=Path)
    step = steps.add_parser("split", help=(split.__doc__ or "").splitlines()[0])
    step.add_argument("text", type=Path, nargs="+")
    step.add_argument("--to", type=Path, required=True, metavar="FOLDER")
    step.add_argument("--genuine", type=int, required=True)
    step.add_argument("--held-out", type=int, required=True)
    args = parser.parse_args()
    try:
        if args.step == "pairs":
            pairs(args.m2, args.to, args.held_out)
        elif args.step == "gold":
            gold(args.prefix)
        elif args.step == "learner-errors":
            learner_errors(args.output)
        else:
            split(args.text, args.to, args.genuine, args.held_out)
    except FairseqSslError as error:
        sys.exit(f"corpora.py: {error}")


if __name__ == "__main__":
    main()
