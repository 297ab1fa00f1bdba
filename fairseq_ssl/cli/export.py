"""``fairseq-ssl export``: a checkpoint that runs without this plug-in."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import fairseq_ssl
from fairseq_ssl.cli.options import QUANTIZATIONS, add_data, add_replace, check_new, one_writer
from fairseq_ssl.errors import UsageError
from fairseq_ssl.signature import Signature

SUMMARY = (
    "turn a checkpoint into one of fairseq's own architecture, of one direction, or a CTranslate2 "
    "model"
)
EXAMPLES = """\
  fairseq-ssl export checkpoint_best.pt --to fairseq -o plain.pt
  fairseq-ssl export checkpoint_best.pt --to ctranslate2 --data-dir data-bin -o ct2
  fairseq-ssl export checkpoint_best.pt --to ctranslate2 --quantization int8 -o ct2-int8
  fairseq-ssl export two_way.pt --to translation -s de -t en -o de-en.pt"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the checkpoint, the target and its options."""
    parser.add_argument(
        "checkpoint",
        type=Path,
        metavar="CHECKPOINT",
        help="a checkpoint of a shape_transformer or of fairseq's own, or of two models trained by "
        "reconstruction_translation",
    )
    parser.add_argument(
        "--to",
        choices=("fairseq", "ctranslate2", "translation"),
        required=True,
        help="fairseq: a checkpoint of the stock transformer, a file; "
        "ctranslate2: a folder for fast decoding; translation: of two models of whatever "
        "architecture the one for -s and -t, a file",
    )
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="PATH", help="what to write"
    )
    add_replace(parser)
    fast = parser.add_argument_group("with --to ctranslate2")
    add_data(fast)
    fast.add_argument(
        "--quantization",
        choices=QUANTIZATIONS,
        default="float32",
        help="type of the stored weights; int8 is a quarter of the size (default: %(default)s)",
    )


@one_writer
def run(args: argparse.Namespace) -> int:
    """Convert, write the result and its signature."""
    check_new(args.output, args.overwrite)
    if args.to != "ctranslate2" and (args.data_dir or args.quantization != "float32"):
        raise UsageError("--data-dir and --quantization go with --to ctranslate2 only.")
    fairseq_ssl.register()
    from fairseq_ssl.checkpoints import files
    from fairseq_ssl.checkpoints.conversion import to_stock

    state = _one_model(files.read_checkpoint(args.checkpoint), args)
    parameters = {"to": args.to, "arch": files.architecture(state)}
    stock = state if args.to == "translation" else to_stock(state)
    if args.to != "ctranslate2":
        files.write_checkpoint(stock, args.output)
    else:
        from fairseq_ssl.checkpoints.ctranslate2 import write_ctranslate2
        from fairseq_ssl.checkpoints.files import training_data

        data = training_data(state, args.data_dir, args.source_lang, args.target_lang)
        write_ctranslate2(stock, data, args.output, args.quantization)
        parameters["quantization"] = args.quantization
    signature = Signature("export", parameters | {"checkpoint": str(args.checkpoint)})
    signature.write_beside(args.output)
    print(f"{signature}\nwrote {args.output}", file=sys.stderr)
    return 0


def _one_model(state: dict[str, Any], args: argparse.Namespace) -> dict[str, Any]:
    """Take the model that is wanted out of a checkpoint of two."""
    from fairseq_ssl.checkpoints.conversion import is_two_way, one_direction

    if is_two_way(state):
        return one_direction(state, args.source_lang, args.target_lang)
    if args.to == "translation":
        raise UsageError(
            f"{args.checkpoint} holds one model. --to translation is for checkpoints of two "
            "directions."
        )
    if args.to == "fairseq" and (args.source_lang or args.target_lang):
        raise UsageError(
            "-s and -t go with --to ctranslate2 or a checkpoint of two directions only."
        )
    return state
