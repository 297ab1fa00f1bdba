"""``fairseq-ssl rerank features``: what models find of each candidate of an n-best list."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fairseq_ssl.cli import options, scorer_options
from fairseq_ssl.cli.options import (
    LENGTH_PENALTY,
    STDIN,
    add_data,
    check_length_penalty,
    check_output,
    check_range,
)
from fairseq_ssl.cli.rerank_features_job import FeaturesJob, Wanted
from fairseq_ssl.cli.sub_verbs import Steps
from fairseq_ssl.errors import UsageError
from fairseq_ssl.inference.scoring import LANGUAGE_MODEL, MASKED_MODEL, TRANSLATION, ScoringConfig
from fairseq_ssl.io import blocks
from fairseq_ssl.rerank.length_norms import PENALTY

NAMES = {LANGUAGE_MODEL: "lm", MASKED_MODEL: "mlm"}
"""What scores are called by default; those of translation by their direction."""


def add_features(steps: Steps) -> None:
    """Declare features."""
    parser = steps.add(
        "features",
        "add a model's score of each candidate to an n-best list. Lists with different scores of "
        "the same candidates are joined by merge, so several models can work side by side",
        _features,
    )
    parser.add_argument(
        "nbest_list",
        type=Path,
        metavar="LIST",
        help="an n-best list as merge writes it; .gz by suffix; - for stdin",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="where to write the list with the score, .gz by suffix (default: stdout); a run that "
        "was killed goes on when the same command is given again",
    )
    _add_models(parser)
    _add_text(parser)
    _add_scores(parser)
    _add_work(parser)


def _add_models(parser: argparse.ArgumentParser) -> None:
    models = parser.add_argument_group("model; several checkpoints are an ensemble")
    kinds = models.add_mutually_exclusive_group(required=True)
    kinds.add_argument(
        "--translation",
        type=Path,
        nargs="+",
        metavar="CHECKPOINT",
        help="made to write each candidate: log P(candidate | source), natural, </s> included, "
        "divided by length ** lenpen as fairseq-generate does",
    )
    kinds.add_argument(
        "--language-model",
        type=Path,
        nargs="+",
        metavar="CHECKPOINT",
        help="of fairseq's task language_modeling, as transformer_lm_big: log P / length as NAME, "
        "</s> included, and SLOR as NAME-slor, the words alone",
    )
    kinds.add_argument(
        "--masked-model",
        type=Path,
        nargs="+",
        metavar="CHECKPOINT",
        help="of fairseq's task masked_lm, as roberta_base, or folders of transformers', as BERT "
        "and RoBERTa, which cut plain text by themselves: the sum of log P of each token where "
        "it is masked, by length as NAME, and PenLP as NAME-penlp",
    )
    add_data(models)


def _add_text(parser: argparse.ArgumentParser) -> None:
    text = parser.add_argument_group("text")
    text.add_argument(
        "--source",
        type=Path,
        metavar="FILE",
        help="for --translation: the sentences that the candidates are translations of, the first "
        "is 0 in the list",
    )
    text.add_argument(
        "--subwords",
        type=Path,
        metavar="MODEL",
        help="cut the candidates with this model of `fairseq-ssl subwords` (default: their tokens "
        "stand between spaces)",
    )
    text.add_argument(
        "--source-subwords", type=Path, metavar="MODEL", help="cut the sources with this one"
    )


def _add_scores(parser: argparse.ArgumentParser) -> None:
    scores = parser.add_argument_group("scores")
    scores.add_argument(
        "--name",
        help="of the score (default: s2t or, with --reverse, t2s, with -r2l behind it for "
        "right-to-left models; lm; mlm)",
    )
    scores.add_argument(
        "--reverse",
        action="store_true",
        help="the model translates candidates into sources: log P(source | candidate)",
    )
    order = scores.add_mutually_exclusive_group()
    order.add_argument(
        "--right-to-left",
        action="store_true",
        help="the model writes the last token first (default: what the checkpoint tells)",
    )
    order.add_argument(
        "--left-to-right", action="store_true", help="it does not, whatever the checkpoint tells"
    )
    scores.add_argument(
        "--lenpen",
        type=float,
        default=1.0,
        help="for --translation: the power of the length; 0 for log P itself; 0 to 20 "
        "(default: %(default)s)",
    )
    scores.add_argument(
        "--alpha",
        type=float,
        default=PENALTY,
        help="of PenLP: log P / ((5 + length) / (5 + 1)) ** alpha; 0 to 20 (default: %(default)s)",
    )
    scores.add_argument(
        "--masked-scores",
        choices=("log-probabilities", "logits"),
        default="log-probabilities",
        help="what of a masked model is summed: log P, or what it has before the softmax, the "
        "literal reading of Wang and Cho (2019) (default: %(default)s)",
    )
    scores.add_argument(
        "--unigrams",
        type=Path,
        metavar="FILE",
        help="for SLOR: tokens and their counts, a token a line, each counted once more than it "
        "says (default: the dictionary of the language model)",
    )


def _add_work(parser: argparse.ArgumentParser) -> None:
    work = parser.add_argument_group("who does the work")
    scorer_options.add_device(work)
    work.add_argument(
        "--block",
        type=int,
        default=blocks.BLOCK_SIZE // 1024,
        metavar="KIB",
        help="how much of the list is sorted by length and scored at a time, and what a kill may "
        "cost each process (default: %(default)s)",
    )
    options.add_overwrite(work)


def _features(args: argparse.Namespace) -> int:
    path = None if str(args.nbest_list) == STDIN else args.nbest_list
    check_output(args.output, path, args.source)
    scorer_options.check_numbers(args)
    options.check_block(args.block)
    wanted = Wanted(
        scoring=_scoring(args),
        nbest_list=path,
        output=args.output,
        source=args.source,
        source_subwords=args.source_subwords,
        subwords=args.subwords,
        size=args.block * 1024,
    )
    job = FeaturesJob.of(wanted, scorer_options.engine(args), args.overwrite)
    return job.run(sys.stdout.buffer)


def _scoring(args: argparse.Namespace) -> ScoringConfig:
    kinds = {
        TRANSLATION: args.translation,
        LANGUAGE_MODEL: args.language_model,
        MASKED_MODEL: args.masked_model,
    }
    ((kind, models),) = ((kind, models) for kind, models in kinds.items() if models)
    _check(args, kind)
    right_to_left = True if args.right_to_left else False if args.left_to_right else None
    scoring = ScoringConfig(
        kind=kind,
        models=tuple(path.resolve() for path in models),
        name=args.name or NAMES.get(kind, ""),
        data_dir=args.data_dir,
        languages=(args.source_lang, args.target_lang),
        reverse=args.reverse,
        right_to_left=right_to_left,
        length_penalty=args.lenpen,
        penalty=args.alpha,
        logits=args.masked_scores == "logits",
        unigrams=args.unigrams,
        batch_tokens=scorer_options.batch_tokens(args),
        half=args.fp16,
        device=scorer_options.device(args),
        threads=args.threads,
    )
    return scoring


def _check(args: argparse.Namespace, kind: str) -> None:
    """Refuse numbers out of range, and what does not go with the kind of the model."""
    check_length_penalty(args.lenpen, 0)
    check_range("--alpha", args.alpha, 0, LENGTH_PENALTY)
    if args.name is not None and (args.name.split() != [args.name] or "=" in args.name):
        raise UsageError(f"--name is {args.name!r}; expected a word without =.")
    if kind == TRANSLATION and args.source is None:
        raise UsageError("--translation needs --source, the sentences that were translated.")
    own = {
        "--source": (TRANSLATION, args.source),
        "--source-subwords": (TRANSLATION, args.source_subwords),
        "--reverse": (TRANSLATION, args.reverse),
        "--right-to-left": (TRANSLATION, args.right_to_left),
        "--left-to-right": (TRANSLATION, args.left_to_right),
        "--lenpen": (TRANSLATION, args.lenpen != 1.0),
        "--alpha": (MASKED_MODEL, args.alpha != PENALTY),
        "--masked-scores": (MASKED_MODEL, args.masked_scores == "logits"),
        "--unigrams": (LANGUAGE_MODEL, args.unigrams),
    }
    for flag, (wanted, given) in own.items():
        if given and kind != wanted:
            raise UsageError(f"{flag} goes with --{wanted}.")
