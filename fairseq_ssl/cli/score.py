"""``fairseq-ssl score``: score text by system, proficiency level and edit category."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fairseq_ssl import metrics
from fairseq_ssl.cli import options
from fairseq_ssl.cli.console import print_table, progress
from fairseq_ssl.cli.m2 import add_pipeline, pipeline
from fairseq_ssl.cli.main import Subcommands
from fairseq_ssl.errors import UsageError
from fairseq_ssl.text.m2 import SPACY_MODEL

if TYPE_CHECKING:
    from fairseq_ssl.metrics.metric import Metric
    from fairseq_ssl.metrics.tables import SystemScores

EXAMPLES = """\
  fairseq-ssl score m2 corrected.txt --gold conll14.m2 --jobs 8
  fairseq-ssl score errant ours=seed1.txt ours=seed2.txt theirs=other.txt --gold ABCN.dev.gold.m2 \\
      --baseline before.txt --by level --levels levels.txt --figure levels.png
  fairseq-ssl score gleu corrected.txt --source dev.src --reference dev.ref0 --reference dev.ref1
  fairseq-ssl score rouge summaries.txt --reference test.trg --stem --sentence-mark '<q>'
  fairseq-ssl postprocess test.generate --fairseq-lines H \\
      | fairseq-ssl score rouge - --reference test.trg --format json
  fairseq-ssl score chrf ours=seed1.de ours=seed2.de theirs=other.de --reference test.de \\
      --word-order 2 --baseline before.de"""
TYPED = ("operation", "type", "full-type", "share")
LEVEL = "level"
FIGURE = "Kiyono, 2022, figures 4.5 to 4.10"
GOLD = "M2 file with sources and the edits of at least one annotator"
SOURCE = "uncorrected text"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add a subcommand for each metric."""
    subcommands = Subcommands(parser, "METRIC", "metrics, in percent")
    summary = "F-score of edits with MaxMatch (Dahlmeier and Ng, 2012), as in m2scorer"
    m2 = _add(subcommands, "m2", summary, has_references=False)
    options.add_path(m2, "--gold", GOLD, required=True)
    _add_edit_options(m2)
    _add_errant(subcommands)
    gleu = _add(
        subcommands,
        "gleu",
        "GLEU of tokenized corrected text (Napoles et al., 2015), as in the authors' script",
    )
    options.add_path(gleu, "--source", SOURCE, required=True)
    bleu = _add(subcommands, "bleu", "BLEU, computed with sacreBLEU")
    bleu.add_argument(
        "--tokenize", default="13a", metavar="NAME", help="sacreBLEU tokenizer (default: 13a)"
    )
    summary = "chrF2 or chrF2++ (Popovic, 2015, 2017), computed with sacreBLEU"
    chrf = _add(subcommands, "chrf", summary)
    what = "max order of word n-grams (2 for chrF++)"
    options.add_integer(chrf, "--word-order", what, 0, minimum=0, maximum=6)
    rouge = _add(
        subcommands,
        "rouge",
        "F1 of ROUGE-1, ROUGE-2, ROUGE-L and ROUGE-Lsum, on ASCII letters and digits only",
    )
    rouge.add_argument("--stem", action="store_true", help="compare word stems (Porter stemmer)")
    rouge.add_argument(
        "--sentence-mark",
        metavar="TOKEN",
        help="token between the sentences of a summary (default: none, so ROUGE-Lsum equals "
        "ROUGE-L)",
    )
    _add(subcommands, "accuracy", "percentage of lines equal to a reference")


def _add(
    subcommands: Subcommands, name: str, summary: str, has_references: bool = True
) -> argparse.ArgumentParser:
    """Add the subcommand of a metric with the options that all metrics share. Return the parser."""
    parser = subcommands.add(name, summary, _run)
    parser.set_defaults(by=None)
    more = ", or M2 files with the edits of a system" if name == "errant" else ""
    parser.add_argument(
        "systems",
        nargs="+",
        metavar="[NAME=]FILE",
        help=f"hypotheses, one sentence per line (- for stdin){more}; files with the same NAME are "
        "runs of a system with different seeds, reported as mean and standard deviation",
    )
    if has_references:
        options.add_references(parser)
    options.add_format(parser)
    group = parser.add_argument_group("comparisons")
    group.add_argument(
        "--baseline",
        action="append",
        type=lambda word: options.split_name(word)[1],
        default=[],
        metavar="[NAME=]FILE",
        help="hypotheses of a baseline; each system is compared with it by paired bootstrap "
        "resampling of sentences (Koehn, 2004); repeat for runs with other seeds",
    )
    group.add_argument(
        "--resamples",
        type=options.integer(1),
        metavar="N",
        help="number of bootstrap samples, 1 or more (default: 1,000)",
    )
    return parser


def _add_analyses(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("analyses")
    group.add_argument(
        "--by",
        choices=(*TYPED[:3], LEVEL, TYPED[3]),
        metavar="ANALYSIS",
        help="kind of analysis; operation, type or full-type: counts and scores of each edit "
        "category, as in errant_compare -cat 1, 2 and 3; level: score of each level in "
        "--levels; share: percentages of the ten most frequent types in the gold edits of each "
        "level",
    )
    what = "file with the level of each sentence, one per line, such as A, B, C or N"
    options.add_path(group, "--levels", what)
    options.add_path(
        group,
        "--figure",
        f"figure of the analysis ({FIGURE}), with the ten most frequent categories; .png, .svg or "
        ".pdf file",
    )


def _add_edit_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--beta",
        type=float,
        default=0.5,
        metavar="X",
        help="beta of F, the weight of recall relative to precision, above 0, up to 1,000 "
        "(default: 0.5)",
    )
    options.add_line_jobs(parser)


def _add_errant(subcommands: Subcommands) -> None:
    summary = "F-score of edits with ERRANT (Bryant et al., 2017), span-based correction"
    parser = _add(subcommands, "errant", summary, has_references=False)
    options.add_path(
        parser, "--gold", f"{GOLD} (default: edits extracted from --source and --reference)"
    )
    options.add_path(parser, "--source", SOURCE)
    options.add_references(parser, required=False)
    _add_edit_options(parser)
    _add_analyses(parser)
    what = "extract edits without types, with a blank spaCy pipeline; compare such scores only "
    "with each other, because some edits are merged differently"
    add_pipeline(parser, what)


def _errant(args: argparse.Namespace) -> Metric:
    if args.gold and (args.source or args.reference):
        raise UsageError(
            "--gold already contains sources and edits. Remove --source and --reference."
        )
    if not args.gold and not (args.source and args.reference):
        raise UsageError("There are no gold edits. Pass --gold, or --source and --reference.")
    if args.by == LEVEL and not args.levels:
        raise UsageError("--by level needs --levels.")
    if args.levels and args.by not in (LEVEL, "share"):
        raise UsageError("--levels needs --by level or --by share.")
    if args.figure and not args.by:
        raise UsageError("--figure needs --by.")
    model = pipeline(args)
    if args.by in TYPED and args.untyped and not (args.by == "share" and args.gold):
        raise UsageError(f"--by {args.by} needs edit types. Remove --untyped.")
    options: dict[str, Any] = {
        "model": model or SPACY_MODEL,
        "untyped": args.untyped,
        "beta": args.beta,
        "jobs": args.jobs,
        "progress": progress,
    }
    if args.gold:
        return metrics.Errant(args.gold, **options)
    return metrics.Errant.from_references(args.source, args.reference, **options)


METRICS: dict[str, Callable[[argparse.Namespace], Metric]] = {
    "m2": lambda args: metrics.MaxMatch(args.gold, args.beta, args.jobs, progress),
    "errant": _errant,
    "gleu": lambda args: metrics.Gleu(args.reference, args.source),
    "bleu": lambda args: metrics.Bleu(args.reference, args.tokenize),
    "chrf": lambda args: metrics.Chrf(args.reference, args.word_order),
    "rouge": lambda args: metrics.Rouge(args.reference, args.stem, args.sentence_mark),
    "accuracy": lambda args: metrics.Accuracy(args.reference),
}
"""Functions that create a metric from the parsed options, by subcommand."""


def _run(args: argparse.Namespace) -> None:
    """Score all systems, run the analysis selected with --by, and print text or JSON."""
    from fairseq_ssl.metrics.tables import read_levels

    if args.resamples is not None and not args.baseline:
        raise UsageError("--resamples needs --baseline.")
    systems = options.named_files(args.systems)
    for path in args.baseline:
        if str(path) in systems and not path.exists():
            file = systems[str(path)][0]
            raise UsageError(f"--baseline {path} is the name of a system. Pass its file: {file}")
    metric = METRICS[args.subcommand](args)
    scores = metrics.score_systems(metric, systems, args.baseline, args.resamples)
    if args.by:
        levels = read_levels(args.levels, scores.sentences) if args.levels else None
        scores.analyze(args.by, levels)
    if args.format == "json":
        print(json.dumps(scores.content(), indent=2, ensure_ascii=False))
    else:
        _print(scores)
    if scores.breakdown and args.figure:
        from fairseq_ssl.analysis.figures import draw_breakdown

        draw_breakdown(scores.breakdown, args.figure)


def _print(scores: SystemScores) -> None:
    values = scores.values()
    if scores.is_single:
        for name, (value,) in values.items():
            print(f"{name}\t{value}")
    else:
        rows = zip(*values.values(), strict=True)
        named = zip(scores.systems, rows, strict=True)
        print_table(["system", *values], [[name, *map(str, row)] for name, row in named])
    if scores.breakdown:
        print()
        print_table(*scores.breakdown.table(scores.is_single))
    if scores.comparisons:
        print()
        rows_of = [
            [
                name,
                f"{test.difference:+.2f}",
                f"{test.low:+.2f} to {test.high:+.2f}",
                f"{test.p:.4f}",
            ]
            for name, test in scores.comparisons.items()
        ]
        compared = scores.metric.compared
        of = "" if compared == scores.metric.name else f" of the {compared}"
        print_table(["against the baseline", f"difference{of}", "95 % of samples", "p"], rows_of)
    print(scores.signature())
