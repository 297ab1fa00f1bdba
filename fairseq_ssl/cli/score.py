"""``fairseq-ssl score``: how good finished text is, with what the number was made by."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fairseq_ssl.cli.kind_options import chosen_options
from fairseq_ssl.cli.options import check_jobs
from fairseq_ssl.errors import DataError, UsageError, flag
from fairseq_ssl.metrics.errant import TIERS

SUMMARY = "score finished text against references"
EXAMPLES = """\
  fairseq-ssl score m2 corrected.txt --gold conll14.m2 --jobs 8
  fairseq-ssl score errant ours=seed1.txt ours=seed2.txt theirs=other.txt --gold ABCN.dev.gold.m2 \\
      --baseline before.txt --by level --sections A=1037,B=1290,C=1069,N=988 --figure levels.png
  fairseq-ssl score gleu corrected.txt --source dev.src --reference dev.ref0 --reference dev.ref1
  fairseq-ssl score rouge summaries.txt --reference test.trg --stem --sentence-mark '<q>'
  fairseq-ssl detokenise test.generate --field H --subwords none \\
      | fairseq-ssl score rouge - --reference test.trg --format json
  fairseq-ssl score chrf++ ours=seed1.de ours=seed2.de theirs=other.de --reference test.de \\
      --baseline before.de"""

EDITS: dict[str, Any] = {"gold": None, "beta": 0.5, "jobs": 1}
METRICS: dict[str, dict[str, Any]] = {
    "m2": {**EDITS, "gold": ..., "max_unchanged_words": 2, "ignore_case": False},
    "gleu": {"reference": ..., "source": ..., "samples": 500},
    "errant": {
        **EDITS,
        "reference": None,
        "source": None,
        "model": "en_core_web_sm",
        "untyped": False,
    },
    "bleu": {"reference": ..., "tokenize": "13a"},
    "chrf": {"reference": ...},
    "chrf++": {"reference": ...},
    "rouge": {"reference": ..., "stem": False, "sentence_mark": None},
    "accuracy": {"reference": ...},
}
"""The options of each metric and their defaults; those that are needed have none."""

LEAST = {"samples": 1, "max_unchanged_words": 0}
ANALYSES = (*TIERS, "level", "share")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the metric, the files, and the options of some metrics."""
    parser.add_argument(
        "metric",
        choices=METRICS,
        metavar="METRIC",
        help="m2: F of edits by MaxMatch (Dahlmeier and Ng, 2012), as m2scorer counts; "
        "errant: F of corrections by their span, as errant_compare (Bryant et al., 2017); "
        "gleu: of corrected sentences (Napoles et al., 2016), tokenised; bleu: by sacreBLEU; "
        "chrf, chrf++: chrF2 and chrF2++ (Popovic, 2015, 2017), by sacreBLEU; "
        "rouge: F1 of summaries: ROUGE-1, ROUGE-2, ROUGE-L (a summary as one sentence) and "
        "ROUGE-Lsum (sentence by sentence, as the papers on CNN/Daily Mail have it); accuracy: "
        "lines that are a reference word for word. All in percent",
    )
    parser.add_argument(
        "output",
        nargs="+",
        metavar="[NAME=]FILE",
        help="what is scored, one in a line; - for stdin; several files are several systems, and "
        "several of one NAME its seeds, whose mean and deviation are told; errant: also the edits "
        "of a system, FILE.m2",
    )
    _add_references(parser)
    _add_metric_options(parser)
    _add_analyses(parser)
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="(default: text)"
    )


def _add_references(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what it should be")
    group.add_argument(
        "--reference",
        type=Path,
        action="append",
        metavar="FILE",
        help="gleu, bleu, chrf, chrf++, rouge, accuracy, errant: line by line; may be repeated",
    )
    group.add_argument(
        "--source", type=Path, metavar="FILE", help="gleu, errant: what the output was made of"
    )
    group.add_argument(
        "--gold",
        type=Path,
        metavar="FILE",
        help="m2, errant: sources and edits of one or more annotators, in the m2 format; errant "
        "takes instead --source and one or more --reference, and finds the edits",
    )


def _add_metric_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("options of a metric")
    group.add_argument(
        "--beta",
        type=float,
        metavar="X",
        help="m2, errant: of F; below 1, precision counts for more; above 0 (default: 0.5)",
    )
    group.add_argument(
        "--max-unchanged-words",
        type=int,
        metavar="N",
        help="m2: words that an edit may hold unchanged; 0 or more (default: 2)",
    )
    group.add_argument(
        "--ignore-case",
        action="store_true",
        default=None,
        help="m2: leave out proposed edits that change only case or spaces "
        "(--ignore_whitespace_casing of m2scorer)",
    )
    group.add_argument(
        "--model",
        metavar="NAME",
        help="errant: the spaCy pipeline, by name or folder "
        f"(default: {METRICS['errant']['model']})",
    )
    group.add_argument(
        "--untyped",
        action="store_true",
        default=None,
        help="errant: find edits on a blank pipeline, without types; it merges some edits in "
        "another way, so compare such scores only with their like",
    )
    group.add_argument(
        "--jobs",
        type=int,
        metavar="N",
        help="m2, errant: processes; the result is the same; 1 or more (default: 1)",
    )
    group.add_argument(
        "--samples",
        type=int,
        metavar="N",
        help="gleu: how many times a reference is drawn for each sentence, where there are "
        f"several; 1 or more (default: {METRICS['gleu']['samples']})",
    )
    group.add_argument("--tokenize", metavar="NAME", help="bleu: sacreBLEU's (default: 13a)")
    group.add_argument(
        "--stem", action="store_true", default=None, help="rouge: compare stems (Porter's)"
    )
    group.add_argument(
        "--sentence-mark",
        metavar="TOKEN",
        help="rouge: what stands between the sentences of a summary (default: nothing, so that "
        "ROUGE-Lsum is ROUGE-L)",
    )


def _add_analyses(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("comparisons")
    group.add_argument(
        "--baseline",
        action="append",
        metavar="FILE",
        help="compare each system with this one by a paired bootstrap over sentences (Koehn, "
        "2004); several files are its seeds",
    )
    group.add_argument(
        "--resamples",
        type=int,
        metavar="N",
        help="of the bootstrap; 1 or more (default: 1000)",
    )
    group.add_argument("--seed", type=int, metavar="N", help="of the bootstrap (default: 12345)")
    group.add_argument(
        "--by",
        choices=ANALYSES,
        metavar="WHAT",
        help="operation, type, full-type: errant, TP, FP, FN, precision, recall and F of each "
        "category of edits, as -cat 1, 2 and 3 of errant_compare: R, NOUN:NUM or R:NOUN:NUM; F "
        "alone in the text of several systems or seeds. level: the score of each level. share: "
        "errant, the percentage of the gold edits that each of the ten most frequent types has, at "
        "each level",
    )
    group.add_argument(
        "--levels", type=Path, metavar="FILE", help="the level of each sentence, as A, B, C or N"
    )
    group.add_argument(
        "--sections",
        metavar="LEVEL=N,...",
        help="the levels of sections, with their numbers of sentences in their order",
    )
    group.add_argument(
        "--figure",
        type=Path,
        metavar="FILE",
        help="draw what --by asks for, as figures 4.5 to 4.10 of the thesis do, of categories the "
        "ten most frequent ones: .png, .svg or .pdf",
    )


def run(args: argparse.Namespace) -> int:
    """Read, score and print."""
    from fairseq_ssl.cli import score_edits, score_metrics
    from fairseq_ssl.cli import score_report as report

    settings = _settings(args)
    _check_analyses(args, settings)
    _check_bootstrap(args)
    named = _named(args.output)
    files = [*(file for of_name in named.values() for file in of_name), *(args.baseline or ())]
    lines = {file: _read(file) for file in files}
    kinds = {**score_metrics.METRICS, **score_edits.METRICS}
    metric = kinds[args.metric](settings, settings.get("reference") or [])
    counted = {file: metric.count(file, lines[file]) for file in lines}
    systems = {name: [counted[file] for file in of_name] for name, of_name in named.items()}
    found = report.Report(metric, args.metric, systems)
    if args.baseline:
        baseline = [counted[file] for file in args.baseline]
        found.compare(baseline, args.resamples, args.seed)
    if args.by:
        sentences = len(next(iter(counted.values())).rows)
        levels = report.levels(args.levels, args.sections, sentences)
        if args.by == "level":
            found.by_level(levels)
        elif isinstance(metric, score_edits.ErrantMetric):
            if args.by in TIERS:
                found.by_category(args.by, settings["beta"])
            else:
                found.shares(metric.gold, levels)
    found.publish(args.format, args.figure)
    return 0


def _named(given: list[str]) -> dict[str, list[str]]:
    """Return files by the names of their systems; one without is named as it is."""
    named: dict[str, list[str]] = {}
    for word in given:
        name, equals, file = word.partition("=")
        if not (name and equals and file) or Path(word).exists():
            name, file = word, word
        if file in named.get(name, ()):
            raise UsageError(f"{file} is given twice.")
        named.setdefault(name, []).append(file)
    return named


def _settings(args: argparse.Namespace) -> dict[str, Any]:
    """Return the metric's options; refuse those of the others, and values out of range."""
    settings = chosen_options(args, "score", args.metric, METRICS, LEAST)
    check_jobs(settings.get("jobs"))
    if not settings.get("beta", 1) > 0:
        raise UsageError(f"--beta is {settings['beta']}; expected a number above 0.")
    if args.metric == "errant":
        _check_errant(args, settings)
    return settings


def _check_errant(args: argparse.Namespace, settings: dict[str, Any]) -> None:
    parallel = settings["source"], settings["reference"]
    if settings["gold"] and any(parallel):
        raise UsageError("--gold has the sources and edits; leave --source and --reference out.")
    if not settings["gold"] and not all(parallel):
        raise UsageError("score errant needs --gold, or --source and --reference.")
    if settings["untyped"] and args.model:
        raise UsageError("--untyped works without a --model; leave one of them out.")


def _check_analyses(args: argparse.Namespace, settings: dict[str, Any]) -> None:
    """Refuse analyses that go with another metric, or lack what they need."""
    typed = (*TIERS, "share")
    if args.by in typed and args.metric != "errant":
        raise UsageError(f"--by {args.by} goes with errant, not with {args.metric}.")
    has_types = not settings.get("untyped") or (args.by == "share" and settings["gold"])
    if args.by in typed and not has_types:
        raise UsageError(f"--by {args.by} needs types; leave --untyped out.")
    if args.levels and args.sections:
        raise UsageError("--levels and --sections tell the same; leave one of them out.")
    has_levels = bool(args.levels or args.sections)
    if args.by == "level" and not has_levels:
        raise UsageError("--by level needs --levels or --sections.")
    if has_levels and args.by not in ("level", "share"):
        raise UsageError("--levels and --sections go with --by level or --by share.")
    if args.figure and not args.by:
        raise UsageError(f"--figure draws what --by asks for; give one of {', '.join(ANALYSES)}.")


def _check_bootstrap(args: argparse.Namespace) -> None:
    for name in ("resamples", "seed"):
        if getattr(args, name) is not None and not args.baseline:
            raise UsageError(f"{flag(name)} goes with --baseline.")
    if args.resamples is not None and args.resamples < 1:
        raise UsageError(f"--resamples is {args.resamples}; expected 1 or more.")
    if args.seed is not None and args.seed < 0:
        raise UsageError(f"--seed is {args.seed}; expected 0 or more.")


def _read(name: str) -> list[str]:
    from fairseq_ssl.cli.options import input_lines

    found = list(input_lines(Path(name)))
    if not found:
        raise DataError(f"{name} is empty. Expected a line or more.")
    return found
