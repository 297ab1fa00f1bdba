"""``fairseq-ssl back-translate``: create synthetic pairs from monolingual text, in parallel."""

from __future__ import annotations

import argparse
from pathlib import Path

import fairseq_ssl
from fairseq_ssl.cli import options
from fairseq_ssl.cli.console import print_lines, progress
from fairseq_ssl.cli.correct import check_models
from fairseq_ssl.inference.back_translation import (
    DECODERS,
    BackTranslationSummary,
    back_translate_file,
    needs_fairseq,
)
from fairseq_ssl.inference.translation import DecodingConfig
from fairseq_ssl.options import add_options, options_of, passed

EXAMPLES = """\
  fairseq-ssl back-translate mono.bpe.de --model de-en.pt --data-dir bin -o bt.en \\
      --source-output bt.de
  fairseq-ssl back-translate mono.bpe.de --model de-en.pt --data-dir bin --engine ctranslate2 \\
      --compute-type int8 -o bt.en --source-output bt.de
  fairseq-ssl back-translate correct.en --model errors.pt --data-dir bin --noisy-beam-beta 6 \\
      --fairseq-options='--unkpen 10 --temperature 0.7' -o wrong.en
  fairseq-ssl back-translate mono.bpe.de --model de-en.pt --data-dir bin --sampling \\
      --sampling-topk 10 -o bt.en
  fairseq-ssl back-translate correct.en --model errors.pt --data-dir bin --beam 10 --nbest 10 \\
      --fluency-boost-lm lm.pt --fluency-boost-data lm-bin -o wrong.en --source-output right.en
  fairseq-ssl back-translate mono.bpe.de --model de-en.pt --data-dir bin -o bt.en/ \\
      --source-output bt.de/ --shard "$SLURM_ARRAY_TASK_ID/99"
  fairseq-ssl back-translate mono.bpe.en --model en-de.pt --data-dir bin -o forward.de"""
SEARCH = [name for name in options_of(DecodingConfig) if name not in ("model", "compute_type")]
NOT_TRANSLATED = ("blank", "too_long", "undecodable", "failed")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``back-translate`` to the parser."""
    options.add_input(
        parser,
        "source text, preprocessed like the model's training data: tokens or subwords separated by "
        "spaces",
    )
    options.add_job_output(parser, "translations")
    what = "source lines, aligned with the translations and repeated for each hypothesis"
    options.add_job_output(parser, what, "--source-output")
    model = parser.add_argument_group("model")
    add_options(model, DecodingConfig, ["model"])
    options.add_data(model)
    add_options(model, DecodingConfig, ["compute_type"])
    add_options(parser.add_argument_group("search"), DecodingConfig, SEARCH)
    work = parser.add_argument_group("parallelism")
    work.add_argument(
        "--engine",
        type=_engine,
        choices=tuple(DECODERS),
        default="fairseq",
        help="translation engine; fairseq: all architectures and search methods; ctranslate2: "
        "faster, but only beam search and sampling (default: %(default)s)",
    )
    options.add_device(work)
    options.add_overwrite(parser)


def run(args: argparse.Namespace) -> None:
    """Translate the text and print a summary."""
    check_models(args.model, "INPUT")
    engine = args.engine
    config = _config(args, engine)
    initializer = fairseq_ssl.register if engine == "fairseq" else None
    executor = options.model_executor(args, DECODERS[engine].gpu_count, initializer)
    if all(Path(path).exists() for path in config.model) and needs_fairseq(config, engine):
        fairseq_ssl.register()
    summary = back_translate_file(
        args.input,
        options.job_output(args),
        config,
        engine=engine,
        source_output=args.source_output and options.job_output(args, "source_output"),
        executor=executor,
        overwrite=args.overwrite,
        progress=progress,
    )
    if summary:
        _print(summary)


def _engine(word: str) -> str:
    if "ray" in word.split(","):
        raise argparse.ArgumentTypeError("ray is not an engine. Pass --executor ray instead.")
    return word


def _config(args: argparse.Namespace, engine: str) -> DecodingConfig:
    gpus = DECODERS[engine].gpu_count
    return DecodingConfig(
        max_tokens=options.batch_tokens(args, gpus),
        device=options.chosen_device(args, gpus),
        threads=1,
        data_dir=args.data_dir,
        source_lang=args.source_lang,
        target_lang=args.target_lang,
        **passed(args, DecodingConfig),
    )


def _print(summary: BackTranslationSummary) -> None:
    counts = ((name.replace("_", " "), getattr(summary, name)) for name in NOT_TRANSLATED)
    failed = ", ".join(f"{count} {name}" for name, count in counts if count)
    empty = f", not translated and left empty: {failed}" if failed else ""
    seconds = max(summary.seconds, 1e-9)
    print_lines(
        f"{summary.lines} lines, {summary.pairs} pairs{empty}",
        f"{summary.lines / seconds:.1f} sentences/s, {summary.written / seconds:.0f} tokens/s "
        f"written, {seconds:.0f} s",
        summary.signature,
    )
