"""``fairseq-ssl classify prepare``: labeled and unlabeled text becomes a data folder."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from fairseq_ssl.cli.console import watched
from fairseq_ssl.cli.options import add_replace, check_new, one_writer
from fairseq_ssl.cli.sub_verbs import Steps
from fairseq_ssl.errors import DataError, UsageError, flag
from fairseq_ssl.io.atomic import atomic_folder, atomic_lines
from fairseq_ssl.io.text_files import read_lines
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.labeled_text import (
    LabeledText,
    duplicate_key,
    is_in_share,
    read_labeled_text,
    take_balanced,
    word_view,
)
from fairseq_ssl.text.subwords import sentencepiece_model
from fairseq_ssl.text.subwords.sentencepiece_model import SentencepieceModel

REFUSE, DROP, KEEP = "refuse", "drop", "keep"
HELD_OUT = ("valid", "test")
SUMMARY = (
    "make the data folder of --task semi_supervised_classification from a file of labels and "
    "texts, and unlabeled text"
)


def add(steps: Steps) -> None:
    """Declare the step."""
    parser = steps.add("prepare", SUMMARY, run)
    parser.add_argument(
        "labeled",
        type=Path,
        metavar="LABELED",
        help="training texts, each line a label, a tab and a text; .gz by suffix",
    )
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FOLDER", help="what to make"
    )
    parser.add_argument(
        "--unlabeled",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="texts without labels, one a line; .gz by suffix (default: none)",
    )
    parser.add_argument(
        "--extra-unlabeled",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="more texts without labels, for imitators alone: the vocabularies and the data of "
        "the language model stay as they are without them; .gz by suffix (default: none)",
    )
    _add_held_out(parser)
    parser.add_argument(
        "--train-lines",
        type=int,
        metavar="N",
        help="keep the labels of so many texts of LABELED, drawn by the same hash; the others "
        "become unlabeled ones; 1 or more (default: all)",
    )
    parser.add_argument(
        "--text-first", action="store_true", help="a line is a text, a tab and a label"
    )
    _add_views(parser)
    parser.add_argument(
        "--leaks",
        choices=(REFUSE, DROP, KEEP),
        default=REFUSE,
        help="what to do where unlabeled or training texts stand in the valid or test texts too, "
        "case, spaces and punctuation apart (default: %(default)s)",
    )
    add_replace(parser, "FOLDER")


def _add_held_out(parser: argparse.ArgumentParser) -> None:
    for name in HELD_OUT:
        parser.add_argument(
            f"--{name}", type=Path, metavar="FILE", help=f"{name} texts, as LABELED"
        )
        parser.add_argument(
            f"--{name}-share",
            type=float,
            metavar="SHARE",
            help=f"take the {name} texts out of LABELED: a share of them, above 0 and below 1, "
            "chosen by a hash of the text, so that they are always the same",
        )
        parser.add_argument(
            f"--{name}-lines",
            type=int,
            metavar="N",
            help=f"number of {name} texts to take out of LABELED by the same hash, 1 or more",
        )


def _add_views(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--cut",
        default="words",
        metavar="HOW",
        help="what words are, for the expert: words: letters and digits in a row and single "
        "marks; spaces: what stands between those; bert:FOLDER: the tokens of a BERT or RoBERTa, "
        "for --arch bert_classifier, none of them too rare (default: %(default)s)",
    )
    parser.add_argument("--lower", action="store_true", help="lower-case the text of both views")
    parser.add_argument(
        "--least-count",
        type=int,
        metavar="N",
        help="rarer words, of labeled and unlabeled texts together, are unknown; 1 or more "
        "(default: 2, as in the thesis; 1 with --cut bert:)",
    )
    parser.add_argument(
        "--drop-unknown", action="store_true", help="leave unknown words out of the texts"
    )
    parser.add_argument(
        "--pieces",
        type=int,
        default=20000,
        metavar="N",
        help="subwords, for the imitators: pieces of sentencepiece's byte-pair encoding, learned "
        "on training and unlabeled texts; 1 or more (default: %(default)s; the thesis has as "
        "many merges)",
    )


@one_writer
def run(args: argparse.Namespace) -> int:
    """Read, check, cut and write."""
    if args.least_count is None:
        args.least_count = 1 if args.cut.startswith("bert:") else 2
    _check(args)
    splits = _labeled_splits(args)
    unlabeled = [line.strip() for path in args.unlabeled for line in read_lines(path)]
    unlabeled += splits.pop("rest_texts")
    if args.lower:
        unlabeled = [text.lower() for text in unlabeled]
    held = {duplicate_key(one.text): name for name in HELD_OUT for one in splits.get(name, [])}
    leaks = _without_leaks(args, splits, unlabeled, held)
    for name in ("train", *HELD_OUT):
        if splits.get(name) == []:
            raise DataError(f"There are no {name} texts. Expected one or more.")
    with atomic_folder(args.output) as folder:
        extra = _ExtraTexts(args.extra_unlabeled, args.leaks, args.lower, held)
        report = _write(args, folder, splits, unlabeled, extra)
        counts = {name: len(texts) for name, texts in splits.items()}
        parameters = {
            "labeled": str(args.labeled),
            **counts,
            "unlabeled": len(unlabeled),
            **({"extra": len(extra)} if extra else {}),
            "cut": args.cut,
            "lower": args.lower,
            "least_count": args.least_count,
            "drop_unknown": args.drop_unknown,
            **report,
            "leaks": args.leaks,
            "leaked": leaks,
        }
        signature = Signature("classify-prepare", parameters)
        signature.write_beside(args.output)
    print(f"{signature}\nwrote {args.output}", file=sys.stderr)
    return 0


def _check(args: argparse.Namespace) -> None:
    for name in ("pieces", "least_count", "train_lines", "valid_lines", "test_lines"):
        value = getattr(args, name)
        if value is not None and value < 1:
            raise UsageError(f"{flag(name)} is {value}; expected 1 or more.")
    for name in HELD_OUT:
        share = getattr(args, f"{name}_share")
        if share is not None and not 0 < share < 1:
            raise UsageError(f"--{name}-share is {share}; expected above 0 and below 1.")
        ways = [way for way in (name, f"{name}_share", f"{name}_lines") if getattr(args, way)]
        if len(ways) > 1:
            raise UsageError(
                f"{' and '.join(map(flag, ways))} both make {name} texts; pass one of them."
            )
    if (args.valid_share or 0) + (args.test_share or 0) >= 1:
        raise UsageError("--valid-share and --test-share together leave nothing to train on.")
    check_new(args.output, args.overwrite)


def _labeled_splits(args: argparse.Namespace) -> dict[str, Any]:
    """Return the labeled texts by split, and under rest_texts those that lose their labels."""
    splits: dict[str, Any] = {"train": list(read_labeled_text(args.labeled, args.text_first))}
    for name in HELD_OUT:
        if getattr(args, name):
            splits[name] = list(read_labeled_text(getattr(args, name), args.text_first))
    below = 0.0
    for name in reversed(HELD_OUT):  # of a hash, test texts have the lowest values
        texts, count = splits["train"], getattr(args, f"{name}_lines")
        share = getattr(args, f"{name}_share")
        if share:
            below += share
            splits[name] = [one for one in texts if is_in_share(one.text, below)]
            splits["train"] = [one for one in texts if not is_in_share(one.text, below)]
        elif count:
            if count >= len(texts):
                raise DataError(
                    f"{args.labeled} has {len(texts)} texts for training and {name}, and "
                    f"{flag(f'{name}_lines')} is {count}. Expected fewer."
                )
            splits[name], splits["train"] = take_balanced(texts, count)
    splits["rest_texts"] = []
    if args.train_lines is not None and args.train_lines < len(splits["train"]):
        # By the end of the mark: its beginning decides about the test texts.
        order = sorted(splits["train"], key=lambda one: duplicate_key(one.text)[::-1])
        kept = set(map(id, order[: args.train_lines]))
        splits["rest_texts"] = [one.text for one in splits["train"] if id(one) not in kept]
        splits["train"] = [one for one in splits["train"] if id(one) in kept]
    return splits


def _without_leaks(
    args: argparse.Namespace,
    splits: dict[str, list[LabeledText]],
    unlabeled: list[str],
    held: dict[bytes, str],
) -> int:
    """Find training and unlabeled texts that are valid or test texts; drop them or refuse."""
    leaked = [text for text in unlabeled if duplicate_key(text) in held]
    trained = [one.text for one in splits["train"] if duplicate_key(one.text) in held]
    both = leaked + trained
    if both and args.leaks == REFUSE:
        found = f"{len(leaked)} unlabeled and {len(trained)} training texts are"
        raise _leak(found, both[0], held)
    if both and args.leaks == DROP:
        unlabeled[:] = [text for text in unlabeled if duplicate_key(text) not in held]
        splits["train"] = [one for one in splits["train"] if duplicate_key(one.text) not in held]
    return len(both)


def _leak(found: str, text: str, held: dict[bytes, str]) -> DataError:
    return DataError(
        f"{found} among the {held[duplicate_key(text)]} texts or the like, as {text[:80]!r}: what "
        "is measured on those would not be new to the model. Pass --leaks drop to leave them out "
        "of training, or --leaks keep."
    )


def _cased(text: str, lower: bool) -> str:
    return text.lower() if lower else text


class _ExtraTexts:
    """The texts of --extra-unlabeled, read again for each view: they may be millions."""

    def __init__(
        self, paths: Sequence[Path], leaks: str, lower: bool, held: dict[bytes, str]
    ) -> None:
        self.paths, self.leaks, self.lower, self.held = paths, leaks, lower, held
        self.count = sum(1 for _ in self)

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[str]:
        for path in self.paths:
            for number, line in enumerate(read_lines(path), 1):
                text = line.strip()
                if self.leaks == KEEP or duplicate_key(text) not in self.held:
                    yield _cased(text, self.lower)
                elif self.leaks == REFUSE:
                    raise _leak(f"{path}:{number} is", text, self.held)


def _write(
    args: argparse.Namespace,
    folder: Path,
    splits: dict[str, list[LabeledText]],
    unlabeled: list[str],
    extra: _ExtraTexts,
) -> dict[str, Any]:
    """Write all views; return what a signature tells of them."""
    from fairseq_ssl.data import classification_folder as views

    cut = views.load_segmenter(args.cut)
    texts: dict[str, Iterable[str]] = {
        name: [_cased(one.text, args.lower) for one in found] for name, found in splits.items()
    }
    if unlabeled:
        texts[views.UNLABELED] = unlabeled
    learned = [*texts["train"], *texts.get(views.UNLABELED, [])]
    counts = _counts(word_view(learned, cut))
    words = views.ViewWriter(folder / views.WORDS, views.build_dictionary(counts, args.least_count))
    known = set(words.dictionary.symbols) if args.drop_unknown else None
    trained = sentencepiece_model.train(
        iter(learned), folder / "pieces", args.pieces, size_name="pieces"
    )
    model = SentencepieceModel(trained.model)
    pieces = views.ViewWriter(
        folder / views.PIECES,
        views.build_dictionary(_counts(" ".join(model.cut(text)) for text in learned)),
    )
    labels = sorted({one.label for one in splits["train"]})
    if len(labels) < 2:
        raise DataError(f"All training texts have the label {labels[0]}. Expected two or more.")
    _check_labels(splits, labels)
    label = views.ViewWriter(folder / views.LABEL, views.build_dictionary(Counter(labels)))
    unknown = {}
    if extra:
        texts[views.EXTRA] = extra
    for name, found in texts.items():
        lines = watched(word_view(found, cut, known), f"classify prepare, {name}", "texts")
        unknown[name] = words.write(name, lines)
        pieces.write(name, (" ".join(model.cut(text)) for text in found))
        if name in splits:
            label.write(name, (one.label for one in splits[name]))
    views.link_language_model(folder)
    _write_text(args, folder, splits, views.VIEWS_FILE)
    return {
        "classes": len(labels),
        "words": len(words.dictionary),
        "pieces": len(pieces.dictionary),
        "unknown_words": unknown,
    }


def _write_text(
    args: argparse.Namespace, folder: Path, splits: dict[str, list[LabeledText]], views_file: str
) -> None:
    """Write the labeled splits as text too, and how words were cut."""
    for name, found in splits.items():
        with atomic_lines(folder / "text" / f"{name}.tsv") as file:
            file.writelines(f"{one.label}\t{one.text}\n" for one in found)
    settings = {"cut": args.cut, "lower": args.lower, "drop_unknown": args.drop_unknown}
    (folder / views_file).write_text(json.dumps(settings) + "\n", encoding="utf-8")


def _counts(lines: Iterable[str]) -> Counter[str]:
    return Counter(chain.from_iterable(line.split() for line in lines))


def _check_labels(splits: dict[str, list[LabeledText]], labels: list[str]) -> None:
    for name, found in splits.items():
        for number, one in enumerate(found, 1):
            if one.label not in labels:
                raise DataError(
                    f"{name} text {number} has the label {one.label!r}, which no training text "
                    f"has. Expected one of {', '.join(labels)}."
                )
