"""``fairseq-ssl report``: what scores, decodings and analyses wrote, as one page to look at."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairseq_ssl.cli.options import one_writer
from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.signature import Signature

NAMED_SET = "test"
"""Of outputs that are given by the names of their systems."""
MOST_NAMED = 10
"""Sets or systems that a message names."""

if TYPE_CHECKING:
    from fairseq_ssl.report.score_files import ReportFiles
    from fairseq_ssl.report.sentences import Sentences

SUMMARY = "one page of scores, figures and sentences, to look at in a browser"
EXAMPLES = """\
  fairseq-ssl report work/wmt20/small/runs -o report.html --set test \\
      --source test.en --reference test.de --baseline base
  fairseq-ssl report base=base.txt ours=seed1.txt ours=seed2.txt -o report.html \\
      --source test.en --reference test.de
  fairseq-ssl report runs figures -o report.html --set conll --gold conll14.m2"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the folders and what is shown beside the outputs."""
    parser.add_argument(
        "given",
        nargs="+",
        metavar="FOLDER or NAME=FILE",
        help="a folder where recipes write: in it, SYSTEM.SEED/SET.txt are outputs, files of "
        "scores as sacreBLEU or `fairseq-ssl score --format json` write them, .png, .svg and .jpg "
        "figures, other .json files analyses; or the name of a system and its output, one "
        "sentence a line, several of one NAME being its seeds",
    )
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE", help="the page, as report.html"
    )
    parser.add_argument("--title", default="Systems side by side", help="(default: %(default)s)")
    _add_sentences(parser)


def _add_sentences(parser: argparse.ArgumentParser) -> None:
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
        help="sources and edits of annotators, m2: for error types and what became of each error, "
        "and in place of --source and --reference",
    )
    group.add_argument(
        "--metric",
        choices=("bleu", "chrf", "chrf++", "gleu", "m2", "accuracy"),
        help="that systems are compared and sentences ordered by (default: m2 with --gold, gleu "
        "with --source and outputs like it, bleu with --reference)",
    )
    group.add_argument(
        "--tokenize",
        metavar="NAME",
        help="bleu: sacreBLEU's, as ja-mecab or zh (default: 13a)",
    )
    group.add_argument(
        "--baseline",
        metavar="SYSTEM",
        help="compare each other system with it by a paired bootstrap (default: the best)",
    )
    for short, name, whose in (("s", "source", "the source"), ("t", "target", "the outputs")):
        group.add_argument(
            f"-{short}",
            f"--{name}-lang",
            default="",
            metavar="LANG",
            help=f"language of {whose}, as ja: for the right letters and voice (default: unknown)",
        )


@one_writer
def run(args: argparse.Namespace) -> int:
    """Look for everything, put it together and write the page."""
    from fairseq_ssl.cli.report_scores import measured
    from fairseq_ssl.io.atomic import atomic_lines
    from fairseq_ssl.report.page import Page
    from fairseq_ssl.report.sentences import corrected_by_type
    from fairseq_ssl.report.tables import score_table

    found = _found(args)
    of_set = _set(args, found)
    sentences = None
    told: dict[str, Any] = {"systems": len(found.names())}
    if of_set is not None:
        systems = found.systems(of_set)
        sentences = _sentences(args, systems)
        if sentences.metric:
            measured(args, found, sentences, of_set)
        if sentences.errors is not None and any(sentences.errors):
            name = "errors corrected as an annotator did, % by type"
            found.parts[f"{of_set}: {name}"] = corrected_by_type(
                sentences.errors, sentences.systems
            )
        told |= {"set": of_set, "sentences": len(sentences.outputs[0])}
    for path in found.left_out:
        print(
            f"{path} is left out: no browser shows it in a page. Draw it as .svg.", file=sys.stderr
        )
    for path in found.links:
        print(
            f"{path} is left out: it is a link to a file outside the folder. Copy the file.",
            file=sys.stderr,
        )
    signature = Signature("report", told)
    page = Page(args.title, found, score_table(found.scores), sentences, str(signature))
    with atomic_lines(args.output) as file:
        file.write(page.html())
    print(f"{signature}\nwrote {args.output}", file=sys.stderr)
    return 0


def _found(args: argparse.Namespace) -> ReportFiles:
    """Look through the folders, and take the outputs that were named."""
    from fairseq_ssl.report.score_files import collect_files

    folders, outputs = [], []
    for word in args.given:
        name, equals, file = word.partition("=")
        if name and equals and file and not Path(word).exists():
            outputs.append((name, Path(file)))
        else:
            folders.append(Path(word))
    found = collect_files(folders)
    for name, path in outputs:
        paths = found.outputs.setdefault((name, args.set or NAMED_SET), [])
        if path in paths:
            raise UsageError(f"{path} is given twice.")
        paths.append(path)
    if found.is_empty():
        raise DataError(
            f"{', '.join(args.given)}: no outputs, scores or figures. Expected folders that a "
            "recipe or `fairseq-ssl score` has written, or NAME=FILE."
        )
    return found


def _set(args: argparse.Namespace, found: ReportFiles) -> str | None:
    """Return the set whose sentences are shown, if there is one."""
    names = found.sets()
    default = NAMED_SET if NAMED_SET in names else names[0] if len(names) == 1 else None
    wanted = args.set or default
    if wanted is None and names:
        several = f"There are outputs of {', '.join(_few(names))}"
        if args.source or args.reference or args.gold or args.baseline:
            raise UsageError(f"{several}; name one of them: --set.")
        print(f"{several}; sentences are shown of the one that --set names.", file=sys.stderr)
    if wanted is not None and wanted not in names:
        raise UsageError(
            f"--set is {wanted}; expected {', '.join(_few(names)) or 'outputs, SET.txt'}."
        )
    if args.baseline and (wanted is None or args.baseline not in found.systems(wanted)):
        systems = ", ".join(_few(list(found.systems(wanted)))) if wanted else "none"
        raise UsageError(f"--baseline is {args.baseline}; the systems are: {systems}.")
    return wanted


def _few(names: Sequence[str]) -> Sequence[str]:
    return names if len(names) <= MOST_NAMED else [*names[:MOST_NAMED], "..."]


def _sentences(args: argparse.Namespace, systems: Mapping[str, Sequence[Path]]) -> Sentences:
    """Read the first seed of each system, and what stands beside it."""
    from fairseq_ssl.report.sentences import Sentences, read_all

    firsts = [paths[0] for paths in systems.values()]
    found = Sentences(list(systems), [read_all(path) for path in firsts])
    found.has_seeds = any(len(paths) > 1 for paths in systems.values())
    found.languages = args.source_lang, args.target_lang
    found.references = [read_all(path) for path in args.reference]
    if args.source is not None:
        found.source = read_all(args.source)
    if args.gold is not None:
        _take_gold(found, args.gold, firsts)
    found.check(firsts)
    found.metric = args.metric or _metric(args, found)
    if args.tokenize and found.metric != "bleu":
        raise UsageError(f"--tokenize goes with bleu, not with {found.metric or 'no metric'}.")
    return found


def _take_gold(found: Sentences, path: Path, outputs: Sequence[Path]) -> None:
    """Take sources, references and errors from an m2 file."""
    from fairseq_ssl.report.sentences import gold_errors, references
    from fairseq_ssl.text.m2 import read_m2

    gold = list(read_m2(path))
    found.source = found.source or [" ".join(sentence.words) for sentence in gold]
    found.references = found.references or references(gold, str(path))
    found.check(outputs)
    if len(gold) != len(found.outputs[0]):
        raise DataError(f"{path} has {len(gold)} sentences and {outputs[0]} others.")
    found.errors = gold_errors(gold, found.outputs)


def _metric(args: argparse.Namespace, found: Sentences) -> str:
    """Return what the given files are scored by, or nothing."""
    if args.gold is not None:
        return "m2"
    if not found.references:
        return ""
    return "gleu" if found.against() == "source" else "bleu"
