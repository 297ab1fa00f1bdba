"""``fairseq-ssl learned-filter``: train a filter on clean pairs, and apply it."""

from __future__ import annotations

import argparse
from typing import Any

import fairseq_ssl
from fairseq_ssl.cli import options
from fairseq_ssl.cli.console import print_lines, progress
from fairseq_ssl.cli.main import Subcommands
from fairseq_ssl.errors import UsageError, flag
from fairseq_ssl.inference.scoring import MASKED_MODEL, TRANSLATION, ScoringConfig
from fairseq_ssl.io.jobs import check_distinct
from fairseq_ssl.io.remote import as_path
from fairseq_ssl.io.text_files import MANIFEST
from fairseq_ssl.io.text_jobs import is_folder
from fairseq_ssl.options import add_options, number, passed

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
"""Pairs of an option and the option that it requires."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands ``fit`` and ``apply`` and their arguments to the parser."""
    subcommands = Subcommands(parser)
    _add_fit(subcommands)
    _add_apply(subcommands)


def _add_fit(subcommands: Subcommands) -> None:
    fit = subcommands.add(
        "fit",
        "estimate PHSIC on parallel text, and train a linear SVM on clean pairs and noised copies "
        "(Kiyono, 2022, section 5.5.1)",
        _fit,
    )
    options.add_files(fit, source="source side of parallel text", target="target side")
    clean = "a few thousand clean pairs, such as test sets of earlier years"
    _add_both(fit, "--clean", clean, required=True)
    options.add_output(fit, "output folder of the filter", "FILTER")
    _add_features(fit)
    options.add_seed(fit)
    options.add_device(fit, part_size=None)
    add_options(fit, ScoringConfig, ["fp16"])
    options.add_overwrite(fit)


def _add_apply(subcommands: Subcommands) -> None:
    apply = subcommands.add(
        "apply",
        "score pairs and keep the best; stored scores are reused for other percentages",
        _apply,
    )
    options.add_path(apply, "filter", "output folder of learned-filter fit", "FILTER")
    options.add_files(apply, source="source side of the pairs", target="target side")
    apply.add_argument(
        "--keep",
        type=number,
        required=True,
        metavar="R",
        help="percentage of pairs to keep, above 0, up to 100",
    )
    what = "kept pairs in the order of the input"
    options.add_job_output(apply, what, nargs=2, required=True, metavar=BOTH)
    apply.add_argument(
        "--scores",
        metavar="FILE",
        help="file for the scores of all pairs, or a folder if the outputs are folders; each line "
        "contains a score, which is above 0 for pairs classified as clean; complete scores from an "
        "earlier run are reused (default: the first --output with .scores appended)",
    )
    options.add_device(apply)
    add_options(apply, ScoringConfig, ["fp16"])
    options.add_overwrite(apply)


def _add_features(fit: argparse.ArgumentParser) -> None:
    features = fit.add_argument_group("features, at least one")
    _add_both(
        features,
        "--vectors",
        "word vectors (.vec or .bin), such as output of fairseq-ssl rerank vectors; adds the PHSIC "
        "of sentence vectors, which are SIF-weighted sums of word vectors",
    )
    _add_both(
        features,
        "--counts",
        "word counts of monolingual text for the SIF weights, one word and its count per line, "
        "such as VECTORS.counts from fairseq-ssl rerank vectors; words without a count are skipped "
        "(default: counts in the parallel text)",
    )
    features.add_argument(
        "--tokenize",
        nargs=2,
        default=["none", "none"],
        metavar=BOTH,
        help="sacreBLEU tokenizers for word vectors: none (words separated by spaces), 13a, intl, "
        "zh, char, ja-mecab or ko-mecab (default: none none)",
    )
    _add_both(
        features,
        "--masked-models",
        "masked language models: fairseq checkpoints, or Hugging Face folders of BERT or RoBERTa "
        "models; adds the PHSIC of their mean last-layer hidden states",
    )
    data = "folders with the dict.txt of each --masked-models checkpoint"
    _add_both(features, "--masked-data", data)
    options.add_path(
        features,
        "--translation",
        "translation model from SOURCE to TARGET, or an ensemble; adds the cross-entropy per token "
        "of the target given the source; for forward-translated pairs, swap source and target in "
        "all options",
        "CHECKPOINT",
        nargs="+",
    )
    _add_both(
        features,
        "--subwords",
        "subword models for --translation and --masked-models (default: tokens separated by "
        "spaces)",
    )
    options.add_data(features)


def _add_both(parser: options.Options, name: str, what: str, **more: Any) -> None:
    """Add an option that takes two paths, for the source and the target."""
    options.add_path(parser, name, what, BOTH, nargs=2, **more)


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
        source, target = (
            ScoringConfig(MASKED_MODEL, (path.resolve(),), data_dir=folder, **_computing(args))
            for path, folder in zip(
                args.masked_models, args.masked_data or (None, None), strict=True
            )
        )
        masked = source, target
    if args.translation:
        translation = ScoringConfig(
            TRANSLATION,
            tuple(path.resolve() for path in args.translation),
            data_dir=args.data_dir,
            languages=(args.source_lang, args.target_lang),
            **_computing(args),
        )
    features = FeatureExtractor(
        vectors=args.vectors,
        counts=args.counts,
        tokenizers=args.tokenize,
        masked=masked,
        translation=translation,
        subwords=args.subwords or (None, None),
    )
    summary = train_filter(
        (args.source, args.target),
        args.clean,
        args.output,
        features,
        seed=args.seed,
        overwrite=args.overwrite,
        executor=options.model_executor(args),
        progress=progress,
    )
    print_lines(
        *(
            f"{feature.name}: {feature.clean_mean:.4g} for clean pairs, {feature.noisy_mean:.4g} "
            f"for noisy pairs, weight {feature.weight:.3f}"
            for feature in summary.features
        ),
        f"accuracy {summary.accuracy:.1%} on {summary.clean} clean and {summary.noisy} noisy pairs "
        "in cross-validation",
        f"wrote {args.output}",
    )


def _apply(args: argparse.Namespace) -> None:
    from fairseq_ssl.learned_filter.learned_filter_job import check_keep, keep_best, score_pairs

    check_keep(args.keep)  # before the pairs are scored
    executor = options.model_executor(args)
    scores = args.scores or f"{args.output[0].rstrip('/')}.scores"
    in_parts = is_folder(args.output[0])
    pairs = args.source, args.target
    check_distinct(pairs, map(as_path, [*args.output, scores]))
    score_pairs(
        args.filter,
        pairs,
        options.output_of(args, f"{scores.rstrip('/')}/" if in_parts else scores),
        computing=_computing(args),
        overwrite=args.overwrite,
        executor=executor,
        progress=progress,
    )
    if in_parts and not (as_path(scores) / MANIFEST).exists():
        return  # other shards must finish first
    source, target = (options.output_of(args, path) for path in args.output)
    summary = keep_best(
        pairs,
        scores,
        (source, target),
        args.keep,
        overwrite=args.overwrite,
        executor=executor,
        progress=progress,
    )
    if summary:
        print_lines(
            f"kept {summary.kept} of {summary.pairs} pairs, with a score of "
            f"{summary.threshold:.6g} or more"
        )


def _computing(args: argparse.Namespace) -> dict[str, Any]:
    """Return the device and batch options as fields of a `ScoringConfig`."""
    return {
        "max_tokens": options.batch_tokens(args),
        **passed(args, ScoringConfig),
        "device": options.chosen_device(args),
        "threads": 1,
    }
