"""``fairseq-ssl classify score``: error rates of predictions, over seeds and against a baseline."""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path

from fairseq_ssl.cli import options
from fairseq_ssl.cli.sub_verbs import Steps
from fairseq_ssl.metrics.classifier_scores import COLUMNS, ClassificationReport, score_predictions
from fairseq_ssl.metrics.metric import SAMPLES, SeedRange


def add(steps: Steps) -> None:
    """Declare the options."""
    parser = steps.add(
        "score",
        "error rate, accuracy, macro F1 and expected calibration error in percent, the confusion "
        "of classes, and a paired bootstrap",
        run,
    )
    parser.add_argument(
        "gold", type=Path, metavar="GOLD", help="gold labels, each line a label, a tab and a text"
    )
    parser.add_argument(
        "output",
        nargs="+",
        metavar="[NAME=]FILE",
        help="output of `predict`, or labels, one a line; repeat a NAME for runs with other seeds, "
        "which are averaged",
    )
    parser.add_argument(
        "--baseline",
        metavar="NAME",
        help="compare the error rates of the other systems with this system",
    )
    parser.add_argument(
        "--samples",
        type=options.integer(1),
        default=SAMPLES,
        metavar="N",
        help="samples of the paired bootstrap, 1 or more (default: %(default)s)",
    )
    parser.add_argument(
        "--format",
        choices=("text", "json"),
        default="text",
        help="output format (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    """Score the predictions and print the report."""
    systems: dict[str, list[Path]] = defaultdict(list)
    for word in args.output:
        name, equals, path = word.partition("=")
        systems[name].append(Path(path if equals else word))
    report = score_predictions(args.gold, systems, args.baseline, args.samples)
    if args.format == "json":
        content = {"signature": str(report.signature), "classes": report.classes}
        print(json.dumps({**content, "systems": report.systems}, indent=2))
    else:
        _print(report)
    return 0


def _print(report: ClassificationReport) -> None:
    for name, scores in report.systems.items():
        shown = [
            f"{column.replace('_', ' ')} {SeedRange.of(scores[column]['values'])}"
            for column in COLUMNS
            if column in scores
        ]
        print(f"{name}: {', '.join(shown)}")
        if "against" in scores:
            one = scores["against"]
            low, high = one["interval"]
            print(
                f"  against {one['baseline']}: {one['difference']:+.2f} "
                f"({low:+.2f} to {high:+.2f}), p {one['p']:.3f}"
            )
        for label, row in zip(report.classes, scores["confusion"], strict=True):
            counts = " ".join(
                f"{other} {count}" for other, count in zip(report.classes, row, strict=True)
            )
            print(f"  {label} taken for: {counts}")
    print(report.signature)
