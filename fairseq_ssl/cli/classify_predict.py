"""``fairseq-ssl classify label`` and ``predict``: the labels of a trained classifier."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import fairseq_ssl
from fairseq_ssl.cli import options
from fairseq_ssl.cli.console import print_lines, progress
from fairseq_ssl.cli.sub_verbs import Steps
from fairseq_ssl.signature import Signature

if TYPE_CHECKING:
    from fairseq_ssl.analysis.classification import TextClassifierPipeline


def add(steps: Steps) -> None:
    """Declare the steps."""
    label = steps.add(
        "label",
        "write an expert's class probabilities of the lines of a split, for --imitator-teacher",
        _label,
    )
    _add_model(label)
    label.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="folder for SPLIT.npy, class probabilities in half precision, a row a line; an "
        "interrupted run resumes when the same command is run again",
    )
    label.add_argument(
        "--split", default="unlabeled", help="split of the data folder (default: %(default)s)"
    )
    label.add_argument(
        "--shard",
        metavar="I/N",
        help="label the I-th of N parts of the lines, I from 1, and write SPLIT.I-of-N.npy; a "
        "teacher's folder may consist of such parts",
    )
    options.add_overwrite(label)
    predict = steps.add(
        "predict",
        "print the label and the class probabilities of each text",
        _predict,
    )
    _add_model(predict)
    options.add_file(predict, "texts, one a line")
    predict.add_argument(
        "--labeled",
        action="store_true",
        help="each line is a label, a tab and a text",
    )
    predict.add_argument(
        "--windows",
        type=options.integer(0),
        default=0,
        metavar="N",
        help="for models with imitators: print the N windows that the label depends on most, 0 or "
        "more (default: %(default)s)",
    )
    options.add_output(predict)


def _add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--model",
        type=Path,
        required=True,
        metavar="FILE",
        help="checkpoint of --classification-stage supervised or mixture",
    )
    parser.add_argument(
        "--data-dir",
        type=Path,
        required=True,
        metavar="DIR",
        help="data folder of `classify prepare`",
    )
    parser.add_argument(
        "--batch-size",
        type=options.integer(1),
        default=64,
        metavar="N",
        help="texts of a batch, 1 or more (default: %(default)s)",
    )
    options.add_one_device(parser)


def _classifier(args: argparse.Namespace) -> TextClassifierPipeline:
    fairseq_ssl.register()
    from fairseq_ssl.analysis.classification import TextClassifierPipeline

    device = options.one_device(args.device)
    return TextClassifierPipeline.load(args.model, args.data_dir, device)


def _label(args: argparse.Namespace) -> int:
    from fairseq_ssl.analysis.classification import label_split

    shard = options.parse_shard(args.shard)
    summary = label_split(
        _classifier(args),
        args.model,
        args.output,
        args.split,
        shard=shard,
        batch_size=args.batch_size,
        overwrite=args.overwrite,
        progress=progress,
    )
    if summary:
        print_lines(summary.signature, f"wrote {summary.lines} lines to {summary.path}")
    return 0


def _predict(args: argparse.Namespace) -> int:
    from fairseq_ssl.analysis.classification import predict_lines

    options.check_output(args.output, args.file, args.model)
    classifier = _classifier(args)
    classifier.check_windows(args.windows)  # before stdin is read
    signature = Signature("classify-predict", {"model": str(args.model), "windows": args.windows})
    lines = predict_lines(
        classifier,
        options.input_lines(args.file),
        labeled=args.labeled,
        windows=args.windows,
        batch_size=args.batch_size,
        name=str(args.file or "stdin"),
    )
    options.write_lines(lines, args.output, signature)
    return 0
