"""``fairseq-ssl correct``: correct the grammar of text with an edit tagger."""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fairseq_ssl
from fairseq_ssl.checkpoints.ensembles import is_checkpoint
from fairseq_ssl.cli import options
from fairseq_ssl.cli.console import print_lines, progress
from fairseq_ssl.edits.decoding import CorrectionSearch
from fairseq_ssl.errors import UsageError
from fairseq_ssl.inference.correction import (
    CorrectedLine,
    CorrectionConfig,
    Edit,
    correct_file,
)
from fairseq_ssl.options import add_options, passed
from fairseq_ssl.text.m2 import SPACY_MODEL
from fairseq_ssl.text.raw_text import TOKENIZERS, UNSPACED

EXAMPLES = """\
  echo 'He go to  school.' | fairseq-ssl correct --model run/checkpoint_best.pt
  fairseq-ssl correct essay.txt --model run/checkpoint_best.pt -o essay.corrected.txt
  fairseq-ssl correct essay.txt --model run/checkpoint_best.pt --diff --explain
  fairseq-ssl correct dev.src --tokenizer none --model a.pt b.pt --weights 2,1 --keep-bias 0.1 \\
      -o dev.hyp
  fairseq-ssl correct essay.txt --model onnx-int8 --json"""
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
    add_explain(form, "print each edit with its ERRANT type and its probability")
    add_corrector(parser)
    work = parser.add_argument_group("parallelism")
    options.add_device(work, max_tokens=False)
    options.add_batch_size(work)
    options.add_overwrite(parser)


def add_explain(parser: options.Options, what: str) -> None:
    """Add --explain and the spaCy pipeline that it needs."""
    parser.add_argument("--explain", action="store_true", help=what)
    parser.add_argument(
        "--spacy-model",
        metavar="NAME",
        help=f"with --explain: name or folder of a spaCy pipeline (default: {SPACY_MODEL})",
    )


def add_corrector(parser: argparse.ArgumentParser) -> None:
    """Add the options of the models, the text and the search."""
    model = parser.add_argument_group("model")
    add_taggers(model, "; or folders of fairseq-ssl export --to onnx, which run with ONNX")
    _add_text(parser)
    add_options(parser.add_argument_group("search"), CorrectionSearch, prefix="edit_")


def _add_text(parser: argparse.ArgumentParser) -> None:
    text = parser.add_argument_group("text")
    text.add_argument(
        "--tokenizer",
        choices=[*TOKENIZERS, "none"],
        default=TOKENIZERS[0],
        help="tokenizer of raw text, as in the training data; none: each line is a sentence of "
        "tokens separated by spaces (default: %(default)s)",
    )
    text.add_argument(
        "--lang",
        dest="language",
        metavar="LANG",
        help="language of the tokenizer (default: en)",
    )
    add_spelling(text)


def add_spelling(parser: options.Options) -> None:
    """Add the option --spelling."""
    parser.add_argument(
        "--spelling",
        type=Path,
        metavar="FILE",
        help="correct the spelling and capitals of English text first, with this output of "
        "spelling count",
    )


def add_taggers(parser: options.Options, more: str = "") -> None:
    """Add the options of an edit tagger or an ensemble."""
    parser.add_argument(
        "--model",
        type=Path,
        nargs="+",
        required=True,
        metavar="CHECKPOINT",
        help=f"edit tagger, several for an ensemble{more}",
    )
    parser.add_argument(
        "--data-dir",
        type=Path,
        metavar="DIR",
        help="folder with the dictionaries of the model; not needed for models on words",
    )
    parser.add_argument(
        "--weights",
        type=_weights,
        default=(),
        metavar="W,...",
        help="weights of the models of an ensemble, above 0, separated by commas (default: equal)",
    )


def check_models(args: argparse.Namespace, inputs: str) -> None:
    """Raise UsageError if --model also took the input, because it takes all words after it."""
    last = args.model[-1]
    if len(args.model) > 1 and last.is_file() and not is_checkpoint(last):
        raise UsageError(f"{last} is not a checkpoint. Write {inputs} before --model.")


def tagger_device(args: argparse.Namespace) -> Any:
    """Return --device, or cpu for models in ONNX format."""
    if not is_onnx(args):
        return args.device
    if args.device not in (None, "auto", "cpu"):
        raise UsageError("A model in ONNX format needs --device cpu.")
    return "cpu"


def is_onnx(args: argparse.Namespace) -> bool:
    """Return True for folders of ``fairseq-ssl export``, which are models in ONNX format."""
    return bool(args.model[0].is_dir())


def _weights(text: str) -> tuple[float, ...]:
    parse = options.number(0, 1e6, exclusive=True)
    return tuple(map(parse, text.split(",")))


def corrector_config(args: argparse.Namespace, **fields: Any) -> CorrectionConfig:
    """Return the config of the options of `add_corrector` and `add_explain`."""
    if args.spacy_model and not args.explain:
        raise UsageError("--spacy-model needs --explain.")
    tokenizer = None if args.tokenizer == "none" else args.tokenizer
    if args.language is not None and tokenizer is None:
        raise UsageError("--lang cannot be used with --tokenizer none. Remove one of them.")
    if args.spacy_model:
        fields["spacy_model"] = args.spacy_model
    return CorrectionConfig(
        tuple(args.model),
        args.data_dir,
        args.weights,
        "onnx" if is_onnx(args) else "torch",
        tokenizer=tokenizer,
        language="en" if args.language is None else args.language,
        spelling=args.spelling,
        explain=args.explain,
        **passed(args, CorrectionSearch),
        **fields,
    )


def run(args: argparse.Namespace) -> None:
    """Correct the text and print a summary."""
    check_models(args, "INPUT")
    args.device = tagger_device(args)
    device = options.chosen_device(args)
    config = corrector_config(args, device=device, threads=1, batch_size=args.batch_size)
    fairseq_ssl.register()
    is_terminal = args.output is None and sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    form = "json" if args.json else "diff" if args.diff else "text"
    summary = correct_file(
        args.input,
        args.output or sys.stdout.buffer,
        config,
        _Formatter(form, args.explain, is_terminal),
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
