"""``fairseq-ssl report``: write an HTML page with scores, figures and sentences."""

from __future__ import annotations

import argparse

from fairseq_ssl.cli import options
from fairseq_ssl.cli.console import print_lines
from fairseq_ssl.report.builder import METRICS, Comparison, write_report

EXAMPLES = """\
  fairseq-ssl report work/wmt20/small/runs -o report.html --test-set test \\
      --source test.en --reference test.de --baseline base
  fairseq-ssl report base=base.txt ours=seed1.txt ours=seed2.txt -o report.html \\
      --source test.en --reference test.de
  fairseq-ssl report runs figures -o report.html --test-set conll --gold conll14.m2"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``report`` to the parser."""
    parser.add_argument(
        "inputs",
        nargs="+",
        metavar="FOLDER or NAME=FILE",
        help="folder, or system output with one sentence per line; a folder can contain outputs "
        "(SYSTEM.SEED/SET.txt), scores from sacreBLEU or fairseq-ssl score "
        "(SYSTEM.SEED/SET.METRIC.json or SET.METRIC.json), figures (.png, .svg, .jpg) and analyses "
        "(other .json files); files with the same NAME are runs of one system with different seeds",
    )
    options.add_output(parser, "HTML page, such as report.html")
    group = parser.add_argument_group("sentences")
    group.add_argument(
        "--test-set",
        metavar="NAME",
        help="test set whose sentences are shown, such as test for outputs named "
        "SYSTEM.SEED/test.txt (default: test, or the only set)",
    )
    options.add_path(group, "--source", "source text")
    options.add_references(group, required=False)
    options.add_path(
        group,
        "--gold",
        "M2 file with gold edits; it also provides sources and references if they are not passed; "
        "the page then shows error types and the systems that corrected each error",
    )
    group.add_argument(
        "--metric",
        choices=METRICS,
        help="metric for comparing systems and sorting sentences (default: m2 with --gold; gleu "
        "if the outputs are similar to --source; otherwise bleu)",
    )
    group.add_argument(
        "--tokenize",
        metavar="NAME",
        help="sacreBLEU tokenizer for bleu, such as ja-mecab or zh (default: 13a)",
    )
    group.add_argument(
        "--baseline",
        metavar="SYSTEM",
        help="system with which all other systems are compared in a paired bootstrap test "
        "(default: the best system)",
    )
    for short, name, side in (("s", "source", "source"), ("t", "target", "outputs")):
        group.add_argument(
            f"-{short}",
            f"--{name}-lang",
            default="",
            metavar="LANG",
            help=f"language of the {side}, such as ja, for fonts and screen readers (default: "
            "unknown)",
        )


@options.one_writer
def run(args: argparse.Namespace) -> None:
    """Write the page and print its path."""
    named = {word: options.split_name(word) for word in args.inputs}
    folders = [path for name, path in named.values() if name is None]
    systems = options.named_files(word for word, (name, _) in named.items() if name)
    comparison = Comparison(
        args.source, args.reference, args.gold, args.metric, args.tokenize, args.baseline
    )
    signature = write_report(
        args.output,
        folders,
        systems,
        test_set=args.test_set,
        comparison=comparison,
        languages=(args.source_lang, args.target_lang),
    )
    print_lines(signature, f"wrote {args.output}")
