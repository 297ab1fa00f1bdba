"""``fairseq-ssl learned-filter``: train a filter on clean pairs, and apply it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import fairseq_ssl
from fairseq_ssl.cli import options
from fairseq_ssl.cli.console import print_lines, progress
from fairseq_ssl.cli.main import Steps
from fairseq_ssl.errors import UsageError, flag
from fairseq_ssl.inference.scoring import MASKED_MODEL, TRANSLATION, ScoringConfig
from fairseq_ssl.io.jobs import check_distinct
from fairseq_ssl.options import add_options, passed

EXAMPLES = """\
  fairseq-ssl learned-filter fit bitext.en bitext.de --clean newstest.en newstest.de \\
      --vectors en.vec de.vec --translation en-de.pt --data-dir bin --subwords en.model de.model \\
      -o clean.filter
  fairseq-ssl learned-filter apply clean.filter bt.en bt.de --keep 50 -o kept.en kept.de
  fairseq-ssl learned-filter apply clean.filter bt.en bt.de --keep 25 -o less.en less.de \\
      --scores kept.en.scores"""

BOTH = ("SOURCE", "TARGET")
NEEDED = (
    *(("counts", "vectors"), ("masked_data", "masked_models")),
    *((name, "translation") for name in ("data_dir", "source_lang", "target_lang")),
)
"""Pairs of an option and a second option that the first one needs."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands ``fit`` and ``apply`` and their arguments to the parser."""
    steps = Steps(parser)
    _add_fit(steps)
    _add_apply(steps)


def _add_fit(steps: Steps) -> None:
    fit = steps.add(
        "fit",
        "estimate PHSIC on parallel text, and train a linear SVM on clean pairs and noised copies "
        "(thesis, 5.5.1)",
        _fit,
    )
    options.add_files(fit, source="source side of the parallel text", target="target side")
    fit.add_argument(
        "--clean",
        type=Path,
        nargs=2,
        required=True,
        metavar=BOTH,
        help="a few thousand clean pairs, such as test sets of earlier years",
    )
    options.add_output(fit, "output folder of the filter", "FILTER")
    _add_measures(fit)
    options.add_seed(fit)
    options.add_device(fit)
    add_options(fit, ScoringConfig, ["fp16"])
    options.add_overwrite(fit)


def _add_apply(steps: Steps) -> None:
    apply = steps.add(
        "apply",
        "score pairs and keep the best; stored scores are reused for other percentages",
        _apply,
    )
    apply.add_argument("filter", type=Path, metavar="FILTER", help="output folder of fit")
    options.add_files(apply, source="source side of the pairs", target="target side")
    apply.add_argument(
        "--keep",
        type=options.number(0, 100, exclusive=True),
        required=True,
        metavar="R",
        help="percentage of pairs to keep, r in the thesis, above 0, up to 100",
    )
    apply.add_argument(
        "-o",
        "--output",
        type=Path,
        nargs=2,
        required=True,
        metavar=BOTH,
        help="kept pairs in the order of the input; .gz by suffix",
    )
    apply.add_argument(
        "--scores",
        type=Path,
        metavar="FILE",
        help="scores of all pairs, one per line, above 0 for clean pairs; reused if complete "
        "(default: OUTPUT.scores)",
    )
    options.add_device(apply)
    add_options(apply, ScoringConfig, ["fp16"])
    options.add_overwrite(apply)


def _add_measures(fit: argparse.ArgumentParser) -> None:
    measures = fit.add_argument_group("features, one or more")
    measures.add_argument(
        "--vectors",
        type=Path,
        nargs=2,
        metavar=BOTH,
        help="PHSIC of sums of word vectors, weighted by SIF: .vec or .bin files, for example of "
        "fairseq-ssl rerank vectors",
    )
    measures.add_argument(
        "--counts",
        type=Path,
        nargs=2,
        metavar=BOTH,
        help="for --vectors: word counts of monolingual text for SIF, one word and its count per "
        "line, such as VECTORS.counts of fairseq-ssl rerank vectors; words without a count are "
        "skipped (default: counts of the bitext)",
    )
    measures.add_argument(
        "--tokenize",
        nargs=2,
        default=["none", "none"],
        metavar=BOTH,
        help="tokenizers of sacreBLEU: none (words separated by spaces), 13a, intl, zh, char, "
        "ja-mecab or ko-mecab (default: none none)",
    )
    _add_models(measures)


def _add_models(measures: argparse._ArgumentGroup) -> None:
    measures.add_argument(
        "--masked-models",
        type=Path,
        nargs=2,
        metavar=BOTH,
        help="PHSIC of means of the last states of masked language models: checkpoints of "
        "fairseq, or folders of a BERT or RoBERTa",
    )
    measures.add_argument(
        "--masked-data",
        type=Path,
        nargs=2,
        metavar=BOTH,
        help="for --masked-models that are checkpoints: folders with the dict.txt of each",
    )
    measures.add_argument(
        "--translation",
        type=Path,
        nargs="+",
        metavar="CHECKPOINT",
        help="translation model, or an ensemble: cross-entropy of the target given the source, per "
        "token; for back-translated pairs, use the model of the other direction; for forward-"
        "translated pairs, swap source and target of all options",
    )
    measures.add_argument(
        "--subwords",
        type=Path,
        nargs=2,
        metavar=BOTH,
        help="subword models for --translation and --masked-models (default: tokens separated by "
        "spaces)",
    )
    options.add_data(measures)


def _fit(args: argparse.Namespace) -> None:
    from fairseq_ssl.learned_filter.features import FeatureExtractor
    from fairseq_ssl.learned_filter.learned_filter_job import train_filter

    for name, needed in NEEDED:
        if getattr(args, name) and not getattr(args, needed):
            raise UsageError(f"{flag(name)} needs {flag(needed)}.")
    if args.masked_models or args.translation:
        fairseq_ssl.register()
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
    features = FeatureExtractor(
        vectors=_both(args.vectors),
        counts=_both(args.counts),
        tokenizers=(args.tokenize[0], args.tokenize[1]),
        masked=masked,
        translation=translation,
        subwords=_both(args.subwords) or (None, None),
    )
    summary = train_filter(
        (args.source, args.target),
        (args.clean[0], args.clean[1]),
        args.output,
        features,
        seed=args.seed,
        overwrite=args.overwrite,
        executor=options.model_executor(args),
        progress=progress,
    )
    print_lines(
        *(
            f"{one.name}: {one.clean_mean:.4g} for clean pairs, {one.noisy_mean:.4g} for noisy "
            f"pairs, weight {one.weight:.3f}"
            for one in summary.features
        ),
        f"accuracy {summary.accuracy:.1%} on {summary.clean} clean and {summary.noisy} noisy pairs "
        "in cross-validation",
        f"wrote {args.output}",
    )


def _apply(args: argparse.Namespace) -> None:
    from fairseq_ssl.learned_filter.learned_filter_job import keep_best, score_pairs

    scores = args.scores or args.output[0].with_name(f"{args.output[0].name}.scores")
    pairs, outputs = (args.source, args.target), (args.output[0], args.output[1])
    check_distinct(pairs, [*outputs, scores])
    score_pairs(
        args.filter,
        pairs,
        scores,
        computing=_computing(args),
        overwrite=args.overwrite,
        executor=options.model_executor(args),
        progress=progress,
    )
    summary = keep_best(pairs, scores, outputs, args.keep, overwrite=args.overwrite)
    if summary:
        print_lines(
            f"kept {summary.kept} of {summary.pairs} pairs, with a score of "
            f"{summary.threshold:.6g} or more"
        )


def _scoring(
    args: argparse.Namespace, kind: str, models: list[Path], folder: Path | None
) -> ScoringConfig:
    is_translation = kind == TRANSLATION
    return ScoringConfig(
        kind=kind,
        models=tuple(path.resolve() for path in models),
        data_dir=folder,
        languages=(args.source_lang, args.target_lang) if is_translation else (None, None),
        **_computing(args),
    )


def _computing(args: argparse.Namespace) -> dict[str, Any]:
    """Return the device and batch options as fields of a `ScoringConfig`."""
    return {
        "max_tokens": options.batch_tokens(args),
        **passed(args, ScoringConfig),
        "device": options.chosen_device(args),
        "threads": 1,
    }


def _both(paths: list[Path] | None) -> tuple[Path, Path] | None:
    return (paths[0], paths[1]) if paths else None
