"""``fairseq-ssl classify score``: how good predictions are, over seeds and against others."""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairseq_ssl.cli.sub_verbs import Steps
from fairseq_ssl.errors import DataError, UsageError, nearest
from fairseq_ssl.io.text_files import read_lines
from fairseq_ssl.metrics.classifier_scores import (
    ClassScores,
    class_scores,
    error_rate,
    error_statistics,
)
from fairseq_ssl.metrics.metric import SAMPLES, SEED, SeedRange, bootstrap_statistics
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.labeled_text import read_labeled_text

COLUMNS = ("error", "accuracy", "macro_f1", "calibration_error")


@dataclass(frozen=True)
class Predictions:
    """A file of them."""

    labels: list[int]
    confidence: list[float] | None


def add(steps: Steps) -> None:
    """Declare the step."""
    parser = steps.add(
        "score",
        "error rate, accuracy, macro F1 and expected calibration error in percent, the confusion "
        "of classes, and a paired bootstrap",
        run,
    )
    parser.add_argument(
        "gold", type=Path, metavar="GOLD", help="each line a label, a tab and a text"
    )
    parser.add_argument(
        "output",
        nargs="+",
        metavar="[NAME=]FILE",
        help="what `predict` wrote, or labels alone, one a line; several of one NAME are its "
        "seeds, whose mean and deviation are told",
    )
    parser.add_argument(
        "--baseline",
        metavar="NAME",
        help="compare the error rates of the others with those of this one",
    )
    parser.add_argument(
        "--samples",
        type=int,
        default=SAMPLES,
        metavar="N",
        help="draws of the bootstrap; 1 or more (default: %(default)s)",
    )
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="(default: %(default)s)"
    )


def run(args: argparse.Namespace) -> int:
    """Read, score, compare and print."""
    if args.samples < 1:
        raise UsageError(f"--samples is {args.samples}; expected 1 or more.")
    gold_names = [one.label for one in read_labeled_text(args.gold)]
    if not gold_names:
        raise DataError(f"{args.gold} is empty. Expected a line or more.")
    classes = sorted(set(gold_names))
    gold = [classes.index(name) for name in gold_names]
    systems: dict[str, list[Predictions]] = defaultdict(list)
    for given in args.output:
        name, equals, path = given.partition("=")
        systems[name].append(_read(Path(path if equals else given), classes, len(gold)))
    if args.baseline is not None and args.baseline not in systems:
        raise UsageError(
            f"--baseline {args.baseline} is none of the systems.{nearest(args.baseline, systems)}"
        )
    content = {name: _scored(gold, found, len(classes)) for name, found in systems.items()}
    if args.baseline is not None:
        _compare(args, gold, systems, content)
    signature = Signature("classify-score", {"gold": str(args.gold), "lines": len(gold)})
    if args.format == "json":
        told = {"signature": str(signature), "classes": classes, "systems": content}
        print(json.dumps(told, indent=2))
    else:
        _print(content, classes, signature)
    return 0


def _read(path: Path, classes: Sequence[str], lines: int) -> Predictions:
    labels, confidence = [], []
    for number, line in enumerate(read_lines(path), 1):
        label, _, rest = line.partition("\t")
        if label not in classes:
            raise DataError(
                f"{path}:{number} has the label {label!r}; expected one of {', '.join(classes)}."
            )
        labels.append(classes.index(label))
        named = dict(one.rpartition("=")[::2] for one in rest.partition("\t")[0].split())
        if label in named:
            confidence.append(float(named[label]))
    if len(labels) != lines:
        raise DataError(f"{path} has {len(labels)} lines; expected {lines}, as the gold labels.")
    return Predictions(labels, confidence if len(confidence) == lines else None)


def _scored(gold: list[int], found: list[Predictions], classes: int) -> dict[str, Any]:
    scores = [class_scores(gold, one.labels, classes, one.confidence) for one in found]
    told: dict[str, Any] = {"seeds": len(scores)}
    for column in COLUMNS:
        values = [getattr(one, column) for one in scores]
        if None not in values:
            spread = SeedRange.of(values)
            told[column] = {"mean": spread.mean, "sd": spread.deviation, "values": values}
    told["confusion"] = _summed(scores)
    return told


def _summed(scores: list[ClassScores]) -> list[list[int]]:
    total = scores[0].confusion.copy()
    for one in scores[1:]:
        total += one.confusion
    return [[int(count) for count in row] for row in total]


def _compare(
    args: argparse.Namespace,
    gold: list[int],
    systems: dict[str, list[Predictions]],
    content: dict[str, Any],
) -> None:
    rows = {
        name: [error_statistics(gold, one.labels) for one in found]
        for name, found in systems.items()
    }
    for name, own in rows.items():
        if name != args.baseline:
            found = bootstrap_statistics(own, rows[args.baseline], error_rate, args.samples, SEED)
            content[name]["against"] = {
                "baseline": args.baseline,
                "difference": found.difference,
                "interval": [found.low, found.high],
                "p": found.p,
            }


def _print(content: dict[str, Any], classes: list[str], signature: Signature) -> None:
    for name, told in content.items():
        shown = [
            f"{column.replace('_', ' ')} {SeedRange.of(told[column]['values'])}"
            for column in COLUMNS
            if column in told
        ]
        print(f"{name}: {', '.join(shown)}")
        if "against" in told:
            one = told["against"]
            low, high = one["interval"]
            print(
                f"  against {one['baseline']}: {one['difference']:+.2f} "
                f"({low:+.2f} to {high:+.2f}), p {one['p']:.3f}"
            )
        for label, row in zip(classes, told["confusion"], strict=True):
            counts = " ".join(f"{other} {count}" for other, count in zip(classes, row, strict=True))
            print(f"  {label} taken for: {counts}")
    print(signature)
