"""``fairseq-ssl filter learned``: synthetic pairs judged by what is learned from genuine ones."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fairseq_ssl.cli import options, scorer_options
from fairseq_ssl.cli.filter_learned_job import Apply, Fit
from fairseq_ssl.cli.options import add_data, check_new, one_writer
from fairseq_ssl.cli.sub_verbs import Steps, run_step
from fairseq_ssl.errors import UsageError
from fairseq_ssl.errors import flag as option
from fairseq_ssl.inference.scoring import MASKED_MODEL, TRANSLATION, ScoringConfig

SUMMARY = "learn to tell clean pairs from noisy ones, and keep the best share of others"
EXAMPLES = """\
  fairseq-ssl filter learned fit bitext.en bitext.de --clean newstest.en newstest.de \\
      --vectors en.vec de.vec --translation en-de.pt --subwords bpe.en bpe.de -o clean.filter
  fairseq-ssl filter learned apply clean.filter bt.en bt.de --keep 50 -o kept.en kept.de
  fairseq-ssl filter learned apply clean.filter bt.en bt.de --keep 25 -o less.en less.de \\
      --scores kept.en.scores"""

BOTH = ("SOURCE", "TARGET")
NEEDED = (("counts", "vectors"), ("reverse", "translation"), ("masked_data", "masked_models"))
"""Options, and those that they go with."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare fit and apply."""
    steps = Steps(parser)
    _add_fit(steps)
    _add_apply(steps)


def run(args: argparse.Namespace) -> int:
    """Do the step."""
    return run_step(args)


def _add_fit(steps: Steps) -> None:
    fit = steps.add(
        "fit",
        "learn PHSIC on a bitext, which is read twice and never whole, and a linear SVM on clean "
        "pairs against copies of them with noise (thesis, 5.5.1)",
        _fit,
    )
    _add_pairs(fit, "of the bitext")
    fit.add_argument(
        "--clean",
        type=Path,
        nargs=2,
        required=True,
        metavar=BOTH,
        help="clean pairs, some thousands, as the test sets of earlier years",
    )
    fit.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILTER", help="folder to write"
    )
    _add_measures(fit)
    fit.add_argument(
        "--copies", type=int, default=1, metavar="N", help="with noise, of each clean pair (1)"
    )
    fit.add_argument(
        "--penalty", type=float, default=1.0, metavar="C", help="of the SVM; above 0 (default: 1)"
    )
    fit.add_argument("--seed", type=int, default=1, help="of the noise; 0 or more (default: 1)")
    scorer_options.add_device(fit)
    options.add_overwrite(fit)


def _add_apply(steps: Steps) -> None:
    apply = steps.add(
        "apply",
        "score pairs, and keep the best; scores are kept too, so that another share needs no model",
        _apply,
    )
    apply.add_argument("filter", type=Path, metavar="FILTER", help="what fit wrote")
    _add_pairs(apply, "to filter")
    apply.add_argument(
        "--keep",
        type=float,
        required=True,
        metavar="R",
        help="share of the pairs that is kept, r of the thesis; above 0, to 100 percent",
    )
    apply.add_argument(
        "-o",
        "--output",
        type=Path,
        nargs=2,
        required=True,
        metavar=BOTH,
        help="where to write the pairs kept, in their order, .gz by suffix",
    )
    apply.add_argument(
        "--scores",
        type=Path,
        metavar="FILE",
        help="where a score of each pair goes, a line each, and is found again; above 0 the pair "
        "is more like a clean one (default: OUTPUT.scores, of the first)",
    )
    scorer_options.add_device(apply)
    options.add_overwrite(apply)


def _add_pairs(parser: argparse.ArgumentParser, what: str) -> None:
    for name in ("source", "target"):
        parser.add_argument(
            name, type=Path, metavar=name.upper(), help=f"{name} sentences {what}; .gz by suffix"
        )


def _add_measures(fit: argparse.ArgumentParser) -> None:
    measures = fit.add_argument_group("features, one or more")
    measures.add_argument(
        "--vectors",
        type=Path,
        nargs=2,
        metavar=BOTH,
        help="PHSIC of sentences as sums of words' vectors, weighted by SIF: .vec or .bin files as "
        "`fairseq-ssl rerank vectors` trains",
    )
    measures.add_argument(
        "--counts",
        type=Path,
        nargs=2,
        metavar=BOTH,
        help="with --vectors: words and their counts in monolingual text, `word count` a line, for "
        "SIF; `fairseq-ssl rerank vectors` writes them beside its vectors, with .counts behind; a "
        "word that is not counted is left out (default: those of the bitext)",
    )
    measures.add_argument(
        "--sif",
        type=float,
        default=1e-3,
        metavar="A",
        help="a word w counts a / (a + p(w)); above 0 (default: %(default)s)",
    )
    measures.add_argument(
        "--tokenizers",
        nargs=2,
        default=["none", "none"],
        metavar=BOTH,
        help="what cuts lines into words, of sacreBLEU's, as none ja-mecab (default: none none, "
        "words stand between spaces)",
    )
    _add_models(measures)


def _add_models(measures: argparse._ArgumentGroup) -> None:
    measures.add_argument(
        "--masked-models",
        type=Path,
        nargs=2,
        metavar=BOTH,
        help="PHSIC of sentences as means of the last states of these checkpoints of masked_lm, "
        "or folders of a BERT or RoBERTa",
    )
    measures.add_argument(
        "--masked-data",
        type=Path,
        nargs=2,
        metavar=BOTH,
        help="with checkpoints as --masked-models: folders with their dict.txt",
    )
    measures.add_argument(
        "--translation",
        type=Path,
        nargs="+",
        metavar="CHECKPOINT",
        help="cross-entropy of the target given the source, per token; for pairs made by "
        "translating TARGET that is the model of the other direction",
    )
    measures.add_argument(
        "--reverse",
        action="store_true",
        help="the model of --translation makes SOURCE from TARGET",
    )
    measures.add_argument(
        "--subwords",
        type=Path,
        nargs=2,
        metavar=BOTH,
        help="models that cut lines for --translation and --masked-models (default: their tokens "
        "stand between spaces)",
    )
    add_data(measures)


@one_writer
def _fit(args: argparse.Namespace) -> int:
    scorer_options.check_numbers(args, "copies", "penalty", "sif")
    if args.seed < 0:
        raise UsageError(f"--seed is {args.seed}; expected 0 or more.")
    if not (args.vectors or args.masked_models or args.translation):
        raise UsageError("fit needs --vectors, --masked-models or --translation.")
    for flag, needed in NEEDED:
        if getattr(args, flag) and not getattr(args, needed):
            raise UsageError(f"{option(flag)} goes with {option(needed)}.")
    check_new(args.output, args.overwrite)
    masked = translation = None
    if args.masked_models:
        folders = args.masked_data or (None, None)
        one, other = (
            _scoring(args, MASKED_MODEL, [path], folder)
            for path, folder in zip(args.masked_models, folders, strict=True)
        )
        masked = one, other
    if args.translation:
        translation = _scoring(args, TRANSLATION, args.translation, args.data_dir)
    return Fit(
        bitext=(args.source, args.target),
        clean=(args.clean[0], args.clean[1]),
        output=args.output,
        vectors=_both(args.vectors),
        counts=_both(args.counts),
        smoothing=args.sif,
        tokenizers=(args.tokenizers[0], args.tokenizers[1]),
        masked=masked,
        translation=translation,
        subwords=_both(args.subwords) or (None, None),
        copies=args.copies,
        penalty=args.penalty,
        seed=args.seed,
        engine=scorer_options.engine(args),
    ).run()


def _apply(args: argparse.Namespace) -> int:
    scorer_options.check_numbers(args)
    if not 0 < args.keep <= 100:
        raise UsageError(f"--keep is {args.keep}; expected a share above 0, to 100 percent.")
    scores = args.scores or args.output[0].with_name(f"{args.output[0].name}.scores")
    paths = [args.source, args.target, *args.output, scores]
    if len({path.resolve() for path in paths}) < len(paths):
        raise UsageError("The inputs, the outputs and the scores must be different files.")
    return Apply(
        filter=args.filter,
        pairs=(args.source, args.target),
        keep=args.keep,
        kept=(args.output[0], args.output[1]),
        scores=scores,
        computing=_computing(args),
        engine=scorer_options.engine(args),
        afresh=args.overwrite,
    ).run()


def _scoring(
    args: argparse.Namespace, kind: str, models: list[Path], folder: Path | None
) -> ScoringConfig:
    is_translation = kind == TRANSLATION
    languages = (args.source_lang, args.target_lang) if is_translation else (None, None)
    return ScoringConfig(
        kind=kind,
        models=tuple(path.resolve() for path in models),
        name="",
        data_dir=folder,
        languages=languages,
        reverse=args.reverse and is_translation,
        **_computing(args),
    )


def _computing(args: argparse.Namespace) -> dict[str, Any]:
    """Return on what models run, as fields of a Scoring."""
    return {
        "max_tokens": scorer_options.batch_tokens(args),
        "fp16": args.fp16,
        "device": scorer_options.device(args),
        "threads": args.threads,
    }


def _both(paths: list[Path] | None) -> tuple[Path, Path] | None:
    return (paths[0], paths[1]) if paths else None
