"""``fairseq-ssl export``: convert a checkpoint to another format or one translation direction."""

from __future__ import annotations

import argparse

import fairseq_ssl
from fairseq_ssl.cli import options
from fairseq_ssl.cli.console import print_lines
from fairseq_ssl.inference.correction import CorrectionConfig
from fairseq_ssl.inference.translation import QUANTIZATIONS
from fairseq_ssl.io.jobs import check_new
from fairseq_ssl.options import add_options

EXAMPLES = """\
  fairseq-ssl export checkpoint_best.pt --to fairseq -o plain.pt
  fairseq-ssl export checkpoint_best.pt --to ctranslate2 --data-dir data-bin -o ct2
  fairseq-ssl export model.pt --to ctranslate2 --quantization int8 --data-dir data-bin -o int8
  fairseq-ssl export two_way.pt --to translation -s de -t en -o de-en.pt
  fairseq-ssl export tagger.pt --to onnx --quantization int8 --data-dir data-bin -o onnx
  fairseq-ssl export gector-roberta-base-5k --to onnx --quantization int8 -o onnx
  fairseq-ssl export tagger.pt --to huggingface --data-dir data-bin -o classifier"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``export`` to the parser."""
    options.add_path(
        parser,
        "checkpoint",
        "checkpoint of a shape_transformer, a fairseq Transformer, a two-way model "
        "(reconstruction_translation) or an edit_tagger; for --to onnx, also a GECToR model",
        "CHECKPOINT",
    )
    parser.add_argument(
        "--to",
        choices=("fairseq", "ctranslate2", "translation", "onnx", "huggingface"),
        required=True,
        help="output format; fairseq: checkpoint of fairseq's Transformer; ctranslate2: "
        "CTranslate2 model; translation: checkpoint for one direction of a two-way model, from -s "
        "to -t; onnx: edit tagger for onnxruntime; huggingface: Hugging Face token classifier, "
        "only for word-level edit taggers with --edit-unfactorized",
    )
    options.add_output(parser, "converted checkpoint or folder", "PATH")
    options.add_replace(parser)
    fast = parser.add_argument_group(
        "options for ctranslate2, onnx and huggingface; for translation, only -s and -t"
    )
    options.add_data(fast)
    add_options(fast, CorrectionConfig, ["encoder"])
    fast.add_argument(
        "--quantization",
        choices=QUANTIZATIONS,
        default="float32",
        help="data type of the weights; int8 takes a quarter of the space of float32; onnx "
        "supports only float32 and int8, huggingface only float32 (default: %(default)s)",
    )


@options.one_writer
def run(args: argparse.Namespace) -> None:
    """Convert the checkpoint and print the signature."""
    from fairseq_ssl.inference import export

    options.check_output(args.output, args.checkpoint)
    check_new(args.output, args.overwrite)
    fairseq_ssl.register()
    signature = export(
        args.checkpoint,
        args.output,
        args.to,
        data_dir=args.data_dir,
        source_lang=args.source_lang,
        target_lang=args.target_lang,
        encoder=getattr(args, "encoder", None),
        quantization=args.quantization,
        overwrite=args.overwrite,
    )
    print_lines(signature, f"wrote {args.output}")
