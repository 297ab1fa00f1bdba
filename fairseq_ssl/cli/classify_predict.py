"""``fairseq-ssl classify label`` and ``predict``: what a trained classifier says of texts."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import fairseq_ssl
from fairseq_ssl.cli import options
from fairseq_ssl.cli.console import progress
from fairseq_ssl.cli.growing_job import GrowingJob, Pieces
from fairseq_ssl.cli.options import (
    add_file,
    add_one_device,
    add_output,
    check_output,
    input_lines,
    one_device,
    parse_shard,
    write_lines,
)
from fairseq_ssl.cli.sub_verbs import Steps
from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.io.resumable import file_fingerprint
from fairseq_ssl.signature import Signature

BLOCK = 4096
"""Lines that are read, sorted by length and written at a time."""


def add(steps: Steps) -> None:
    """Declare both steps."""
    label = steps.add(
        "label",
        "write what an expert says of the lines of a split, once, for --imitator-teacher",
        _label,
    )
    _add_model(label)
    label.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="write SPLIT.npy in it: probabilities of the classes in half precision, a row a line. "
        "Killed, it goes on when the command is given again",
    )
    label.add_argument(
        "--split", default="unlabeled", help="of the data folder (default: %(default)s)"
    )
    label.add_argument(
        "--shard",
        metavar="I/N",
        help="label the I-th of N parts of the lines alone, from 1, into SPLIT.I-of-N.npy; a "
        "teacher's folder may hold such parts",
    )
    options.add_overwrite(label)
    predict = steps.add(
        "predict",
        "print for each text its label, the probabilities, and with --windows what weighed most",
        _predict,
    )
    _add_model(predict)
    add_file(predict, "texts, one a line")
    predict.add_argument(
        "--labeled",
        action="store_true",
        help="lines are a label, a tab and a text",
    )
    predict.add_argument(
        "--windows",
        type=int,
        default=0,
        metavar="N",
        help="of a model with imitators, the windows that the label owes most to; 0 or more "
        "(default: %(default)s)",
    )
    add_output(predict)


def _add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--model",
        type=Path,
        required=True,
        metavar="FILE",
        help="checkpoint of --classification-stage supervised or mixture",
    )
    parser.add_argument(
        "--data",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="data folder, as `classify prepare` writes it",
    )
    parser.add_argument(
        "--batch-size",
        type=int,
        default=64,
        metavar="N",
        help="texts at a time; 1 or more (default: %(default)s)",
    )
    add_one_device(parser)


def _classifier(args: argparse.Namespace) -> Any:
    fairseq_ssl.register()
    from fairseq_ssl.analysis.classification import TextClassifierPipeline

    if args.batch_size < 1:
        raise UsageError(f"--batch-size is {args.batch_size}; expected 1 or more.")
    return TextClassifierPipeline.load(args.model, args.data, one_device(args.device))


def _label(args: argparse.Namespace) -> int:
    part, parts = parse_shard(args.shard)
    name = args.split if parts == 1 else f"{args.split}.{part}-of-{parts}"
    classifier = _classifier(args)
    dataset = classifier.split(args.split)
    first, last = (len(dataset) * one // parts for one in (part - 1, part))
    if first == last:
        raise UsageError(f"--shard {args.shard} has no lines: there are {len(dataset)}.")
    task = {
        "split": args.split,
        "model": [str(args.model), *file_fingerprint(args.model)],
        "lines": [first, last],
    }
    output = args.output / f"{name}.npy"
    job = LabelJob([output], task, args.overwrite, False, classifier, dataset, first, last, args)
    if job.make(io.BytesIO()):
        told = f"{job.signature()}\nwrote {last - first} lines to {output}"
        print(told, file=sys.stderr)
    return 0


@dataclass
class LabelJob(GrowingJob):
    """One run of `label`."""

    classifier: Any
    dataset: Any
    first: int
    last: int
    args: argparse.Namespace
    done: int = 0

    def pieces(self) -> Iterator[tuple[Pieces, Mapping[str, Any]]]:
        """Yield the rows of block after block; the array's header comes before the first."""
        tell = progress("classify label", "lines", self.last - self.first)
        while self.done < self.last - self.first:
            start = self.first + self.done
            count = min(BLOCK, self.last - start)
            rows = self.classifier.probabilities(
                self.dataset, start, count, self.args.batch_size
            ).astype(np.float16)
            header = b"" if self.done else _header(self.last - self.first, rows.shape[1])
            self.done += count
            tell(count)
            yield [header + rows.tobytes()], {"done": self.done}

    def go_on(self, state: Mapping[str, Any]) -> int:
        """Begin after the lines that are done."""
        self.done = int(state["done"])
        return self.done

    def signature(self) -> Signature:
        """Return what the array was made by."""
        return Signature("classify-label", {**self.task, "classes": self.classifier.task.classes})


def _header(lines: int, classes: int) -> bytes:
    """Return the beginning of a .npy file."""
    file = io.BytesIO()
    form = {"descr": "<f2", "fortran_order": False, "shape": (lines, classes)}
    np.lib.format.write_array_header_1_0(file, form)
    return file.getvalue()


def _predict(args: argparse.Namespace) -> int:
    if args.windows < 0:
        raise UsageError(f"--windows is {args.windows}; expected 0 or more.")
    check_output(args.output, args.file, args.model)
    classifier = _classifier(args)
    if args.windows and not classifier.has_imitators:
        raise UsageError(f"--windows is for a model with imitators, and {args.model} has none.")
    signature = Signature("classify-predict", {"model": str(args.model), "windows": args.windows})
    write_lines(_predictions(args, classifier), args.output, signature)
    return 0


def _predictions(args: argparse.Namespace, classifier: Any) -> Iterator[str]:
    lines = input_lines(args.file)
    count = 0
    while block := list(islice(lines, BLOCK)):
        if args.labeled:
            for number, line in enumerate(block, count + 1):
                if "\t" not in line:
                    raise DataError(f"{args.file or 'stdin'}:{number} has no tab after a label.")
        count += len(block)
        texts = [line.partition("\t")[2] if args.labeled else line for line in block]
        for one in classifier.classify(texts, args.windows, args.batch_size):
            named = " ".join(f"{name}={value:.4f}" for name, value in one.probabilities.items())
            shown = [f"{window.text} ({window.weight:.3f})" for window in one.windows]
            yield "\t".join([one.label, named, *([" | ".join(shown)] if args.windows else [])])
