"""``fairseq-ssl rerank features``: model scores of the candidates of an n-best list."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fairseq_ssl.cli import options
from fairseq_ssl.cli.console import print_lines, progress
from fairseq_ssl.cli.main import Steps
from fairseq_ssl.errors import UsageError, flag
from fairseq_ssl.inference.nbest_scores import score_nbest_file
from fairseq_ssl.inference.scoring import LANGUAGE_MODEL, MASKED_MODEL, TRANSLATION, ScoringConfig


def add_features(steps: Steps) -> None:
    """Add the subcommand ``features`` of ``rerank`` and its arguments."""
    parser = steps.add(
        "features",
        "add a model's score of each candidate to an n-best list; run one command per model in "
        "parallel, and join the lists with merge",
        _features,
    )
    parser.add_argument(
        "nbest_list",
        type=Path,
        metavar="LIST",
        help="n-best list, output of rerank merge; .gz by suffix; - for stdin",
    )
    options.add_resumable_output(parser, "n-best list with the scores")
    _add_models(parser)
    _add_text(parser)
    _add_scores(parser)
    _add_work(parser)


def _add_models(parser: argparse.ArgumentParser) -> None:
    models = parser.add_argument_group("model, several checkpoints for an ensemble")
    kinds = models.add_mutually_exclusive_group(required=True)
    kinds.add_argument(
        "--translation",
        type=Path,
        nargs="+",
        metavar="CHECKPOINT",
        help="translation model: natural log P(candidate | source), with </s>, divided by "
        "length ** lenpen as in fairseq-generate",
    )
    kinds.add_argument(
        "--language-model",
        type=Path,
        nargs="+",
        metavar="CHECKPOINT",
        help="model of fairseq's task language_modeling: log P / length with </s>, named NAME, and "
        "SLOR without </s>, named NAME-slor",
    )
    kinds.add_argument(
        "--masked-model",
        type=Path,
        nargs="+",
        metavar="CHECKPOINT",
        help="model of fairseq's task masked_lm, or Hugging Face folder of a BERT or RoBERTa, "
        "which tokenizes text itself: sum of log P of each masked token divided by the length, "
        "named NAME, and PenLP, named NAME-penlp",
    )
    options.add_data(models)


def _add_text(parser: argparse.ArgumentParser) -> None:
    text = parser.add_argument_group("text")
    text.add_argument(
        "--source",
        type=Path,
        metavar="FILE",
        help="for --translation: source sentences, with index 0 for the first in the list",
    )
    text.add_argument(
        "--subwords",
        type=Path,
        nargs="+",
        metavar="MODEL",
        help="subword model of the text, of fairseq-ssl subwords, or two models, of the sources "
        "and of the candidates (default: tokens separated by spaces)",
    )


def _add_scores(parser: argparse.ArgumentParser) -> None:
    scores = parser.add_argument_group("scores")
    scores.add_argument(
        "--name",
        help="name of the score (default: s2t, or t2s with --reverse, with the suffix -r2l for "
        "right-to-left models; lm; mlm)",
    )
    scores.add_argument(
        "--reverse",
        action="store_true",
        help="score in the reverse direction: log P(source | candidate)",
    )
    scores.add_argument(
        "--right-to-left",
        action="store_true",
        help="the model generates the last token first (default: from the checkpoint)",
    )
    scores.add_argument(
        "--lenpen",
        type=float,
        default=1.0,
        metavar="X",
        help="for --translation: length penalty, 0 for log P, 0 to 20 (default: %(default)s)",
    )
    scores.add_argument(
        "--unigrams",
        type=Path,
        metavar="FILE",
        help="for SLOR: tokens and counts, one token per line; each count is incremented by one "
        "(default: the dictionary of the language model)",
    )


def _add_work(parser: argparse.ArgumentParser) -> None:
    work = parser.add_argument_group("parallelism")
    options.add_device(work)
    options.add_precision(work)
    options.add_overwrite(parser)


def _features(args: argparse.Namespace) -> None:
    path = None if str(args.nbest_list) == options.STDIN else args.nbest_list
    options.check_output(args.output, path, args.source)
    config = _config(args)
    subwords = args.subwords or [None]
    if len(subwords) > 1 + (config.kind == TRANSLATION):
        raise UsageError("--subwords has too many models. Expected one, or two with --translation.")
    summary = score_nbest_file(
        path,
        args.output or sys.stdout.buffer,
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
    kinds = {
        TRANSLATION: args.translation,
        LANGUAGE_MODEL: args.language_model,
        MASKED_MODEL: args.masked_model,
    }
    ((kind, models),) = ((kind, models) for kind, models in kinds.items() if models)
    _check_kind(args, kind)
    if args.name == "":
        raise UsageError("--name is empty. Expected a word.")
    return ScoringConfig(
        kind=kind,
        models=tuple(path.resolve() for path in models),
        name=args.name or "",
        data_dir=args.data_dir,
        languages=(args.source_lang, args.target_lang),
        reverse=args.reverse,
        right_to_left=args.right_to_left,
        lenpen=args.lenpen,
        unigrams=args.unigrams,
        max_tokens=options.batch_tokens(args),
        fp16=args.fp16,
        device=options.chosen_device(args),
        threads=1,
    )


def _check_kind(args: argparse.Namespace, kind: str) -> None:
    """Raise UsageError for options of another kind of model."""
    kinds = {
        TRANSLATION: {
            "source": args.source,
            "reverse": args.reverse,
            "right_to_left": args.right_to_left,
            "lenpen": args.lenpen != 1.0,
        },
        LANGUAGE_MODEL: {"unigrams": args.unigrams},
    }
    for other, names in kinds.items():
        for name, value in names.items():
            if value and kind != other:
                raise UsageError(f"{flag(name)} needs --{other}.")
