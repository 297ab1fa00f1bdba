"""``fairseq-ssl report``: what scores, decodings and analyses wrote, as one page to look at."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.signature import Signature

if TYPE_CHECKING:
    from fairseq_ssl.report.found import Found
    from fairseq_ssl.report.sentences import Sentences

SUMMARY = "one page of scores, figures and sentences, to look at in a browser"
EXAMPLES = """\
  fairseq-ssl report work/wmt20/small/runs -o report.html --set test \\
      --source test.en --reference test.de --baseline base
  fairseq-ssl report runs figures -o report.html --set conll --gold conll14.m2"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the folders and what is shown beside the outputs."""
    parser.add_argument(
        "folder",
        type=Path,
        nargs="+",
        metavar="FOLDER",
        help="where recipes write: in it, SYSTEM.SEED/SET.txt are outputs, files of scores as "
        "sacreBLEU or `fairseq-ssl score --format json` write them, .png, .svg and .jpg figures, "
        "other .json files analyses",
    )
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE", help="the page, as report.html"
    )
    parser.add_argument("--title", default="Systems side by side", help="(default: %(default)s)")
    group = parser.add_argument_group("sentence by sentence")
    group.add_argument(
        "--set",
        metavar="NAME",
        help="of which outputs the sentences are shown (default: test, or the only one)",
    )
    group.add_argument("--source", type=Path, metavar="FILE", help="what the outputs were made of")
    group.add_argument(
        "--reference",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="what they should be; may be repeated",
    )
    group.add_argument(
        "--gold",
        type=Path,
        metavar="FILE",
        help="sources and edits of annotators, m2: for error types, and in place of --source",
    )
    group.add_argument(
        "--metric",
        choices=("bleu", "gleu", "m2", "accuracy"),
        help="that sentences are ordered and systems compared by (default: m2 with --gold, gleu "
        "with --source and outputs like it, bleu with --reference)",
    )
    group.add_argument(
        "--baseline",
        metavar="SYSTEM",
        help="compare each other system with it by a paired bootstrap",
    )


def run(args: argparse.Namespace) -> int:
    """Look for everything, put it together and write the page."""
    from fairseq_ssl.report.found import found_in
    from fairseq_ssl.report.page import page
    from fairseq_ssl.report.tables import table
    from fairseq_ssl.text.whole_file import whole_file

    found = found_in(args.folder)
    if not (found.scores or found.outputs or found.figures):
        raise DataError(
            f"{', '.join(map(str, args.folder))}: no outputs, scores or figures. Expected folders "
            "that a recipe or `fairseq-ssl score` has written."
        )
    comparisons = dict(found.comparisons)
    of_set = _set(args, found)
    sentences = None
    if of_set is not None:
        sentences = _sentences(args, found.systems(of_set))
        if sentences.metric:
            comparisons.update(_measured(args, sentences, found.systems(of_set)))
    told: dict[str, Any] = {"systems": len(found.names())}
    if of_set is not None:
        told |= {"set": of_set, "sentences": len(sentences.outputs[0]) if sentences else 0}
    signature = Signature("report", told)
    scores = table(found.scores)
    with whole_file(args.output) as file:
        file.write(page(args.title, found, scores, comparisons, sentences, str(signature)))
    print(f"{signature}\nwrote {args.output}", file=sys.stderr)
    return 0


def _set(args: argparse.Namespace, found: Found) -> str | None:
    """Return the set whose sentences are shown, if there is one."""
    names = found.sets()
    wanted = args.set or ("test" if "test" in names else names[0] if len(names) == 1 else None)
    if wanted is None and names and (args.source or args.reference or args.gold):
        raise UsageError(f"There are outputs of {', '.join(names)}; name one of them: --set.")
    if wanted is not None and wanted not in names:
        raise UsageError(f"--set is {wanted}; expected {', '.join(names) or 'outputs, SET.txt'}.")
    if args.baseline and (wanted is None or args.baseline not in found.systems(wanted)):
        systems = ", ".join(found.systems(wanted)) if wanted else "none"
        raise UsageError(f"--baseline is {args.baseline}; the systems are: {systems}.")
    return wanted


def _sentences(args: argparse.Namespace, systems: Mapping[str, Sequence[Path]]) -> Sentences:
    """Read the first seed of each system, and what stands beside it."""
    from fairseq_ssl.report.sentences import Sentences, read_all

    firsts = [paths[0] for paths in systems.values()]
    found = Sentences(list(systems), [read_all(path) for path in firsts])
    if args.gold is not None:
        _take_gold(found, args.gold)
    if args.source is not None:
        found.source = read_all(args.source)
    found.references = [read_all(path) for path in args.reference]
    found.check(firsts)
    found.metric = args.metric or _metric(args, found)
    return found


def _take_gold(found: Sentences, path: Path) -> None:
    """Take sources and the types of their errors from an m2 file."""
    from fairseq_ssl.scoring.errant import UNKNOWN, main_type
    from fairseq_ssl.text.m2 import read_m2

    gold = list(read_m2(path))
    found.source = [" ".join(sentence.words) for sentence in gold]
    kinds = [
        {edit.type for edits in one.annotators.values() for edit in edits if edit.type != UNKNOWN}
        for one in gold
    ]
    found.types = [sorted({main_type(kind) for kind in of_line}) for of_line in kinds]


def _metric(args: argparse.Namespace, found: Sentences) -> str:
    """Return what the given files are scored by, or nothing."""
    if args.gold is not None:
        return "m2"
    if not found.references:
        return ""
    return "gleu" if found.against() == "source" else "bleu"


def _measured(
    args: argparse.Namespace, sentences: Sentences, systems: Mapping[str, Sequence[Path]]
) -> dict[str, dict[str, Any]]:
    """Score each sentence of each system; return the comparison with the baseline by its name."""
    from fairseq_ssl.cli import score_edits, score_metrics
    from fairseq_ssl.cli.score import METRICS
    from fairseq_ssl.cli.score_report import Report
    from fairseq_ssl.report.sentences import read_all

    kind = sentences.metric
    settings = dict(METRICS[kind])
    for name in ("gold", "source", "reference"):
        if name in settings:
            settings[name] = getattr(args, name) or settings[name]
            if settings[name] is ...:
                raise UsageError(f"--metric {kind} needs --{name}.")
    metric = {**score_metrics.METRICS, **score_edits.METRICS}[kind](settings, args.reference)
    wanted = systems if args.baseline else {name: paths[:1] for name, paths in systems.items()}
    counted = {
        name: [metric.count(str(path), read_all(path)) for path in paths]
        for name, paths in wanted.items()
    }
    sentences.scores = [
        [round(metric.sentence_score(row), 2) for row in seeds[0].rows]
        for seeds in counted.values()
    ]
    sentences.metric = metric.headline
    if not args.baseline or len(counted) == 1:
        return {}
    baseline = counted.pop(args.baseline)
    found = Report(metric, kind, counted)
    found.compare(baseline)
    return {f"{metric.headline} against {args.baseline}": found.comparisons}
