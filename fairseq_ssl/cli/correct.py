"""``fairseq-ssl correct``: correct the grammar of text with an edit tagger."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fairseq_ssl
from fairseq_ssl.checkpoints.ensembles import is_checkpoint
from fairseq_ssl.cli import options
from fairseq_ssl.cli.console import print_lines, progress
from fairseq_ssl.edits.decoding import CorrectionSearch
from fairseq_ssl.errors import UsageError
from fairseq_ssl.inference.correction import CorrectedLine, CorrectionConfig, Edit, correct_file
from fairseq_ssl.options import add_options, passed
from fairseq_ssl.text.raw_text import UNSPACED

EXAMPLES = """\
  echo 'He go to  school.' | fairseq-ssl correct --model run/checkpoint_best.pt
  fairseq-ssl correct essay.txt --model run/checkpoint_best.pt -o essay.corrected.txt
  fairseq-ssl correct essay.txt --model run/checkpoint_best.pt --diff --explain
  fairseq-ssl correct dev.src --tokenizer none --model a.pt b.pt --weights 2,1 --keep-bias 0.1 \\
      -o dev.hyp
  fairseq-ssl correct essay.txt --model onnx-int8 --json"""
EXPLAIN = ["explain", "spacy_model"]
MODEL = ["models", "data_dir", "weights"]
TEXT = ["tokenizer", "language", "spelling"]
REMOVED, ADDED, END = "\33[31;9m", "\33[32m", "\33[0m"
"""Terminal codes: red and struck through, green, and the end of both."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``correct`` to the parser."""
    options.add_input(parser, "text to correct, one or more sentences a line")
    options.add_resumable_output(parser, "corrected lines")
    form = parser.add_argument_group("output format")
    kind = form.add_mutually_exclusive_group()
    kind.add_argument("--json", action="store_true", help="print a JSON object for each line")
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
    """Add the options of the models, the text and the search."""
    add_options(parser.add_argument_group("model"), CorrectionConfig, MODEL)
    add_options(parser.add_argument_group("text"), CorrectionConfig, TEXT)
    add_options(parser.add_argument_group("search"), CorrectionSearch, prefix="edit_")


def check_models(models: Sequence[Path], inputs: str) -> None:
    """Raise UsageError if --model also took the input, because it takes all words after it."""
    if len(models) > 1 and models[-1].is_file() and not is_checkpoint(models[-1]):
        raise UsageError(f"{models[-1]} is not a checkpoint. Write {inputs} before --model.")


def tagger_device(args: argparse.Namespace) -> Any:
    """Return --device, or cpu for models in ONNX format."""
    if not args.models[0].is_dir():
        return args.device
    if args.device not in (None, "auto", "cpu"):
        raise UsageError("A model in ONNX format needs --device cpu.")
    return "cpu"


def corrector_config(args: argparse.Namespace, **fields: Any) -> CorrectionConfig:
    """Return the config of the options of `add_corrector`. Folders are models in ONNX format."""
    values = passed(args, CorrectionConfig)
    if "spacy_model" in values and "explain" not in values:
        raise UsageError("--spacy-model needs --explain.")
    if "language" in values and values.get("tokenizer") == "none":
        raise UsageError("--lang cannot be used with --tokenizer none. Remove one of them.")
    engine = "onnx" if values["models"][0].is_dir() else "torch"
    return CorrectionConfig(**values, engine=engine, **fields)


def run(args: argparse.Namespace) -> None:
    """Correct the text and print a summary."""
    check_models(args.models, "INPUT")
    args.device = tagger_device(args)
    config = corrector_config(args, device=options.chosen_device(args), threads=1)
    fairseq_ssl.register()
    is_terminal = args.output is None and sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    form = "json" if args.json else "diff" if args.diff else "text"
    summary = correct_file(
        args.input,
        args.output or sys.stdout.buffer,
        config,
        _Formatter(form, config.explain, is_terminal),
        format_name=form,
        executor=options.model_executor(args),
        overwrite=args.overwrite,
        progress=progress,
    )
    if summary:
        print_lines(
            f"{summary.lines} lines, {summary.changed} changed, {summary.edits} edits; "
            f"{summary.lines / max(summary.seconds, 1e-9):.1f} lines/s, {summary.seconds:.0f} s",
            summary.signature,
        )


@dataclass(frozen=True)
class _Formatter:
    """Picklable function that formats a corrected line."""

    form: str
    explain: bool
    color: bool

    def __call__(self, line: CorrectedLine) -> str:
        if self.form == "json":
            return json.dumps(line.as_json(), ensure_ascii=False)
        text = _marked(line, self.color) if self.form == "diff" else line.text
        return "\n".join([text, *map(_explanation, line.edits if self.explain else ())])


def _explanation(edit: Edit) -> str:
    source, span = edit.source.replace("\t", " "), f"{edit.start}:{edit.end}"
    return "\t".join(["", span, source, edit.target, edit.type or "", f"{edit.probability:.3f}"])


def _marked(line: CorrectedLine, color: bool) -> str:
    """Return the source line with its edits marked."""
    parts, at = [], 0
    for edit in line.edits:
        parts.append(line.source[at : edit.start])
        parts.append(_mark(edit, color, line.source[: edit.start]))
        at = edit.end
    return "".join([*parts, line.source[at:]])


def _mark(edit: Edit, color: bool, before: str) -> str:
    removed = (REMOVED, END) if color else ("[-", "-]")
    added = (ADDED, END) if color else ("{+", "+}")
    marks = [
        begin + text + end
        for text, (begin, end) in ((edit.source, removed), (edit.target, added))
        if text
    ]
    is_apart = not before or before[-1].isspace() or UNSPACED.search(before[-1] + edit.target[:1])
    space = " " if edit.start == edit.end and not is_apart else ""
    return space + "".join(marks)
