"""``fairseq-ssl correct``: correct the grammar of text with an edit tagger."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fairseq_ssl
from fairseq_ssl.checkpoints.ensembles import is_checkpoint
from fairseq_ssl.cli import options
from fairseq_ssl.cli.console import print_lines, progress
from fairseq_ssl.edits.decoding import CorrectionSearch
from fairseq_ssl.errors import UsageError
from fairseq_ssl.inference.correction import (
    ONNX,
    CorrectionConfig,
    LineFormat,
    correct_file,
    model_format,
)
from fairseq_ssl.io.executors import Initializer
from fairseq_ssl.options import add_options, passed

EXAMPLES = """\
  echo 'He go to  school.' | fairseq-ssl correct --model run/checkpoint_best.pt
  fairseq-ssl correct essay.txt --model run/checkpoint_best.pt -o essay.corrected.txt
  fairseq-ssl correct essay.txt --model run/checkpoint_best.pt --diff --explain
  fairseq-ssl correct dev.src --tokenizer none --model a.pt b.pt --weights 2,1 --keep-bias 0.1 \\
      -o dev.hyp
  fairseq-ssl correct essay.txt --model onnx-int8 --json"""
EXPLAIN = ["explain", "spacy_model"]
MODEL = ["models", "data_dir", "encoder", "weights"]
TEXT = ["tokenizer", "language", "spelling"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``correct`` to the parser."""
    options.add_input(parser, "text to correct, one or more sentences per line")
    options.add_job_output(parser, "corrected lines")
    form = parser.add_argument_group("output format")
    kind = form.add_mutually_exclusive_group()
    kind.add_argument("--json", action="store_true", help="write a JSON object for each line")
    kind.add_argument(
        "--diff", action="store_true", help="mark edits as [-old-]{+new+}, in color on a terminal"
    )
    add_options(form, CorrectionConfig, EXPLAIN)
    add_corrector(parser)
    work = parser.add_argument_group("parallelism")
    options.add_device(work, max_tokens=False)
    add_options(work, CorrectionConfig, ["batch_size"])
    options.add_overwrite(parser)


def add_corrector(parser: argparse.ArgumentParser) -> None:
    """Add the options for the models, the text and the search."""
    add_options(parser.add_argument_group("model"), CorrectionConfig, MODEL)
    add_options(parser.add_argument_group("text"), CorrectionConfig, TEXT)
    add_options(parser.add_argument_group("search"), CorrectionSearch, prefix="edit_")


def check_models(models: Sequence[Path], inputs: str) -> None:
    """Raise UsageError if the last of several --model values is an input, not a checkpoint."""
    if len(models) > 1 and models[-1].is_file() and not is_checkpoint(models[-1]):
        raise UsageError(f"{models[-1]} is not a checkpoint. Pass {inputs} before --model.")


def tagger_device(args: argparse.Namespace) -> Any:
    """Return --device, or cpu for ONNX models. Reject missing models, and ONNX models on a GPU."""
    formats = [model_format(path) for path in args.models]  # without torch, which can be missing
    if formats[0] != ONNX:
        return args.device
    if args.device not in (None, "auto", "cpu"):
        raise UsageError(
            f"--device is {args.device}, but ONNX models run only on the CPU. Pass --device cpu."
        )
    return "cpu"


def corrector_config(args: argparse.Namespace, **fields: Any) -> CorrectionConfig:
    """Create the config from the options of `add_corrector`. Raise UsageError for conflicts."""
    values = passed(args, CorrectionConfig)
    if "spacy_model" in values and "explain" not in values:
        raise UsageError("--spacy-model needs --explain.")
    if "language" in values and values.get("tokenizer") == "none":
        raise UsageError("--lang cannot be used with --tokenizer none. Remove one of them.")
    return CorrectionConfig(**values, **fields)


def register(config: CorrectionConfig) -> Initializer | None:
    """Register the plug-in and return the worker initializer, or return None for ONNX models."""
    if config.format == ONNX:
        return None
    fairseq_ssl.register()
    return fairseq_ssl.register


def run(args: argparse.Namespace) -> None:
    """Correct the text and print a summary."""
    check_models(args.models, "INPUT")
    args.device = tagger_device(args)
    config = corrector_config(args, device=options.chosen_device(args), threads=1)
    initializer = register(config)
    is_terminal = args.output is None and sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    form = "json" if args.json else "diff" if args.diff else "text"
    summary = correct_file(
        args.input,
        options.job_output(args),
        config,
        LineFormat(form, config.explain, is_terminal),
        format_name=form,
        executor=options.model_executor(args, initializer=initializer),
        overwrite=args.overwrite,
        progress=progress,
    )
    if summary:
        print_lines(
            f"{summary.lines} lines, {summary.changed} changed, {summary.edits} edits; "
            f"{summary.lines / max(summary.seconds, 1e-9):.1f} lines/s, {summary.seconds:.0f} s",
            summary.signature,
        )
