"""``fairseq-ssl rerank features``: model scores of the candidates of an n-best list."""

from __future__ import annotations

import argparse

from fairseq_ssl.cli import options
from fairseq_ssl.cli.console import print_lines, progress
from fairseq_ssl.cli.main import Steps
from fairseq_ssl.errors import UsageError
from fairseq_ssl.inference.nbest_scores import score_nbest_file
from fairseq_ssl.inference.scoring import LANGUAGE_MODEL, MASKED_MODEL, TRANSLATION, ScoringConfig
from fairseq_ssl.options import add_options, passed

KINDS = {
    TRANSLATION: "translation model: natural log P(candidate | source), with </s>, divided by "
    "length ** lenpen as in fairseq-generate",
    LANGUAGE_MODEL: "model of fairseq's task language_modeling: log P / length with </s>, named "
    "NAME, and SLOR without </s>, named NAME-slor",
    MASKED_MODEL: "model of fairseq's task masked_lm, or Hugging Face folder of a BERT or RoBERTa, "
    "which tokenizes text itself: sum of log P of each masked token divided by the length, named "
    "NAME, and PenLP, named NAME-penlp",
}
"""Help texts of the kinds of models."""


def add_features(steps: Steps) -> None:
    """Add the subcommand ``features`` of ``rerank`` and its arguments."""
    parser = steps.add(
        "features",
        "add a model's score of each candidate to an n-best list; run one command per model in "
        "parallel, and join the lists with merge",
        _features,
    )
    options.add_path(
        parser,
        "nbest_list",
        "n-best list, output of rerank merge; .gz or .zst by suffix; - for stdin",
        "LIST",
    )
    options.add_job_output(parser, "n-best list with the scores")
    _add_models(parser)
    _add_text(parser)
    names = ("name", "reverse", "right_to_left", "lenpen", "unigrams")
    add_options(parser.add_argument_group("scores"), ScoringConfig, names)
    _add_work(parser)


def _add_models(parser: argparse.ArgumentParser) -> None:
    models = parser.add_argument_group("model, several checkpoints for an ensemble")
    kinds = models.add_mutually_exclusive_group(required=True)
    for kind, what in KINDS.items():
        options.add_path(kinds, f"--{kind}", what, "CHECKPOINT", nargs="+")
    options.add_data(models)


def _add_text(parser: argparse.ArgumentParser) -> None:
    text = parser.add_argument_group("text")
    options.add_path(
        text,
        "--source",
        "for --translation: source sentences, with index 0 for the first in the list",
    )
    options.add_path(
        text,
        "--subwords",
        "subword model of the text, of fairseq-ssl subwords, or two models, of the sources "
        "and of the candidates (default: tokens separated by spaces)",
        "MODEL",
        nargs="+",
    )


def _add_work(parser: argparse.ArgumentParser) -> None:
    work = parser.add_argument_group("parallelism")
    options.add_device(work)
    add_options(work, ScoringConfig, ["fp16"])
    options.add_overwrite(parser)


def _features(args: argparse.Namespace) -> None:
    path = None if str(args.nbest_list) == options.STDIN else args.nbest_list
    config = _config(args)
    subwords = args.subwords or [None]
    if len(subwords) > 1 + (config.kind == TRANSLATION):
        raise UsageError("--subwords has too many models. Expected one, or two with --translation.")
    summary = score_nbest_file(
        path,
        options.job_output(args),
        config,
        source=args.source,
        source_subwords=subwords[0] if args.source else None,
        subwords=subwords[-1],
        executor=options.model_executor(args),
        overwrite=args.overwrite,
        progress=progress,
    )
    if summary:
        speed = summary.candidates / max(summary.seconds, 1e-9)
        print_lines(
            f"{' and '.join(summary.names)}: {summary.candidates} candidates, {speed:.1f}/s"
        )
        if summary.cut:
            print_lines(f"{summary.cut} were longer than the model's maximum, and truncated")
        print_lines(summary.signature)


def _config(args: argparse.Namespace) -> ScoringConfig:
    models = {kind: getattr(args, kind.replace("-", "_")) for kind in KINDS}
    kind = next(kind for kind in KINDS if models[kind])
    if args.source and kind != TRANSLATION:
        raise UsageError("--source needs --translation.")
    return ScoringConfig(
        kind=kind,
        models=tuple(path.resolve() for path in models[kind]),
        data_dir=args.data_dir,
        languages=(args.source_lang, args.target_lang),
        max_tokens=options.batch_tokens(args),
        device=options.chosen_device(args),
        threads=1,
        **passed(args, ScoringConfig),
    )
