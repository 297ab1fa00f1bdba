"""``fairseq-ssl classify``: prepare data, label texts with an expert, predict and score."""

from __future__ import annotations

import argparse
import json
import logging
from typing import TYPE_CHECKING

import fairseq_ssl
from fairseq_ssl.cli import options
from fairseq_ssl.cli.console import print_lines, progress
from fairseq_ssl.cli.main import Subcommands
from fairseq_ssl.errors import UsageError
from fairseq_ssl.io.fingerprints import content_digest
from fairseq_ssl.io.jobs import check_new
from fairseq_ssl.metrics.classifier_scores import COLUMNS, ClassificationReport, score_predictions
from fairseq_ssl.metrics.metric import SAMPLES, SeedRange
from fairseq_ssl.options import add_options, passed
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.labeled_text import PreparationConfig

if TYPE_CHECKING:
    from fairseq_ssl.inference.classification import TextClassifierPipeline


def add_prepare(subcommands: Subcommands) -> None:
    """Add the subcommand ``prepare`` and its arguments."""
    summary = (
        "create the data folder of --task semi_supervised_classification from labeled and "
        "unlabeled texts"
    )
    parser = subcommands.add("prepare", summary, _prepare)
    options.add_files(parser, labeled="training texts, one per line: label, tab, text")
    options.add_output(parser, "data folder", "FOLDER")
    add_options(parser, PreparationConfig)
    options.add_replace(parser, "FOLDER")


@options.one_writer
def _prepare(args: argparse.Namespace) -> None:
    """Create the data folder and print its signature."""
    check_new(args.output, args.overwrite)
    config = PreparationConfig(args.labeled, **passed(args, PreparationConfig))
    from fairseq_ssl.data.classification_preparation import prepare_folder

    print_lines(prepare_folder(config, args.output, progress), f"wrote {args.output}")


def add_predict(subcommands: Subcommands) -> None:
    """Add the subcommands ``label`` and ``predict`` and their arguments."""
    label = subcommands.add(
        "label",
        "write an expert's class probabilities for a split, as input of --imitator-teacher",
        _label,
    )
    _add_model(label)
    options.add_output(
        label,
        "output folder; its subfolder SPLIT.npy contains parts of the class probabilities, one row "
        "per text in half precision; an interrupted run resumes if the same command is run again",
        "FOLDER",
    )
    label.add_argument(
        "--split", default="unlabeled", help="data split to label (default: %(default)s)"
    )
    options.add_device(
        label.add_argument_group("parallelism"),
        max_tokens=False,
        part_size="number of lines per part (default: 32K)",
    )
    options.add_overwrite(label)
    predict = subcommands.add(
        "predict", "print the label and the class probabilities of each text", _predict
    )
    _add_model(predict)
    options.add_one_device(predict)
    options.add_input(predict, "texts, one per line", "file")
    predict.add_argument(
        "--split",
        help="split of the data folder, such as test, to classify instead of FILE; this is faster, "
        "because the split is already tokenized",
    )
    options.add_integer(
        predict,
        "--windows",
        "for models with imitators: max number of the most influential windows to print per text",
        0,
        minimum=0,
    )
    options.add_output_or_stdout(predict)


def _add_model(parser: argparse.ArgumentParser) -> None:
    model = "checkpoint trained with --classification-stage supervised or mixture"
    options.add_path(parser, "--model", model, required=True)
    data = "data folder created by `classify prepare`"
    options.add_path(parser, "--data-dir", data, "DIR", required=True)
    options.add_integer(parser, "--batch-size", "number of texts per batch", 64)


def _classifier(args: argparse.Namespace) -> TextClassifierPipeline:
    fairseq_ssl.register()
    from fairseq_ssl.inference.classification import TextClassifierPipeline

    device = options.one_device(args.device)
    return TextClassifierPipeline.load(args.model, args.data_dir, device, args.batch_size)


def _label(args: argparse.Namespace) -> None:
    fairseq_ssl.register()
    from fairseq_ssl.inference.classification import PART_SIZE, label_split

    logging.disable(logging.INFO)
    summary = label_split(
        args.model,
        args.data_dir,
        args.output,
        args.split,
        device=options.chosen_device(args),
        threads=1,
        batch_size=args.batch_size,
        part_size=PART_SIZE if args.part_size is None else args.part_size,
        shard=args.shard,
        executor=options.model_executor(args),
        overwrite=args.overwrite,
        progress=progress,
    )
    if summary:
        print_lines(summary.signature, f"wrote {summary.lines} lines to {summary.path}")


def _predict(args: argparse.Namespace) -> None:
    from fairseq_ssl.inference.classification import predict_lines, predict_split

    if args.split and args.file:
        raise UsageError("--split replaces FILE. Pass only one of them.")
    options.check_output(args.output, args.file, args.model)
    classifier = _classifier(args)
    classifier.check_windows(args.windows)  # before stdin is read
    parameters = {"windows": args.windows, "split": args.split}
    parameters["model_digest"] = content_digest(args.model)
    signature = Signature("classify-predict", parameters, {"model": str(args.model)})
    if args.split:
        lines = predict_split(classifier, args.split, windows=args.windows)
    else:
        lines = predict_lines(
            classifier,
            options.input_lines(args.file),
            windows=args.windows,
            name=str(args.file or "stdin"),
        )
    options.write_lines(lines, args.output, signature)


def add_score(subcommands: Subcommands) -> None:
    """Add the subcommand ``score`` and its arguments."""
    parser = subcommands.add(
        "score",
        "print error rate, accuracy, macro F1 and expected calibration error in percent, and the "
        "confusion matrix",
        _score_predictions,
    )
    gold = "gold labels, one text per line: label, tab, text"
    options.add_path(parser, "gold", gold, "GOLD")
    parser.add_argument(
        "systems",
        nargs="+",
        metavar="[NAME=]FILE",
        help="output file of `classify predict`, or labels, one per line; scores of files with the "
        "same NAME, such as runs with different seeds, are averaged",
    )
    parser.add_argument(
        "--baseline",
        metavar="NAME",
        help="name of the system with which the error rates of the other systems are compared in a "
        "paired bootstrap test",
    )
    options.add_integer(parser, "--resamples", "number of bootstrap samples", SAMPLES)
    options.add_format(parser)


def _score_predictions(args: argparse.Namespace) -> None:
    """Score the predictions of all systems, and print the report as text or JSON."""
    systems = options.named_files(args.systems)
    report = score_predictions(args.gold, systems, args.baseline, args.resamples)
    if args.format == "json":
        content = {"signature": str(report.signature), "classes": report.classes}
        print(json.dumps({**content, "systems": report.systems}, indent=2))
    else:
        _print(report)


def _print(report: ClassificationReport) -> None:
    for name, scores in report.systems.items():
        columns = [
            f"{column.replace('_', ' ')} {SeedRange(scores[column]['values'])}"
            for column in COLUMNS
            if column in scores
        ]
        print(f"{name}: {', '.join(columns)}")
        if "against" in scores:
            test = scores["against"]
            low, high = test["interval"]
            print(
                f"  against {test['baseline']}: {test['difference']:+.2f} "
                f"({low:+.2f} to {high:+.2f}), p {test['p']:.3f}"
            )
        for label, row in zip(report.classes, scores["confusion"], strict=True):
            counts = " ".join(
                f"{other} {count}" for other, count in zip(report.classes, row, strict=True)
            )
            print(f"  {label} taken for: {counts}")
    print(report.signature)


EXAMPLES = """\
  fairseq-ssl classify prepare train.tsv --valid dev.tsv --test-size 0.1 \\
      --unlabeled reviews.txt.gz -o data
  fairseq-ssl classify label --model expert.pt --data-dir data -o teacher --shard 1/4
  fairseq-ssl classify predict --split test --model best.pt --data-dir data -o test.predicted
  fairseq-ssl classify score data/text/test.tsv expert=expert.predicted both=test.predicted \\
      --baseline expert"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands of ``classify`` and their arguments to the parser."""
    subcommands = Subcommands(parser)
    add_prepare(subcommands)
    add_predict(subcommands)
    add_score(subcommands)
