"""``fairseq-ssl edits``: parallel text as labels of the source's tokens, and back."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fairseq_ssl.cli.edits_job import EditsJob
from fairseq_ssl.cli.edits_tune import METRICS, tune
from fairseq_ssl.cli.kind_options import chosen_options
from fairseq_ssl.cli.options import (
    add_jobs,
    add_one_device,
    check_output,
    local_executor,
    one_writer,
)
from fairseq_ssl.errors import UsageError

SUMMARY = "turn corrected text into edit labels of its tokens, and labels into corrected text"
EXAMPLES = """\
  fairseq-ssl edits dictionary train.src train.trg -o edits.txt
  fairseq-ssl edits dictionary train.src train.trg -o edits.txt --size 5000 --case
  fairseq-ssl edits dictionary train.src train.trg -o edits.txt --label-dict dict.labels.txt
  fairseq-ssl edits stats valid.src valid.trg --dictionary edits.txt
  fairseq-ssl edits label train.src.gz train.trg.gz --dictionary edits.txt -o train.labels.gz
  fairseq-ssl edits apply test.src test.labels -o test.out
  fairseq-ssl edits tune valid.src valid.trg --model run/checkpoint_best.pt --data data-bin"""

KINDS: dict[str, dict[str, Any]] = {
    "dictionary": {
        "output": ...,
        "size": 1000,
        "longest": 2,
        "transforms": "english",
        "case": False,
        "label_dict": None,
    },
    "label": {"output": ..., "dictionary": ..., "strict": False, "exact": False},
    "apply": {"output": ..., "dictionary": None},
    "tune": {
        "model": ...,
        "data": ...,
        "metric": "f0.5",
        "iterations": 4,
        "batch_size": 64,
        "device": None,
    },
    "stats": {"dictionary": ..., "format": "text"},
}
"""The options of each kind and their defaults; those that are needed have none."""
LEAST = {"size": 0, "longest": 1, "iterations": 1, "batch_size": 1}
OUTPUTS = ("output", "label_dict")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the kind, the two files, and the options of some kinds."""
    parser.add_argument(
        "kind",
        choices=KINDS,
        metavar="KIND",
        help="dictionary: count what TARGET puts in, and write the edits that a model chooses "
        "from; label: write for each pair the labels of the start and of each token of SOURCE; "
        "apply: edit SOURCE as its labels say; stats: tell what a dictionary has labels for, and "
        "the ceiling that sets; tune: print the options of confidence with which a trained model "
        "corrects SOURCE best",
    )
    parser.add_argument(
        "source",
        type=Path,
        metavar="SOURCE",
        help="text to edit, a sentence a line, tokens between spaces: words, subwords or "
        "characters; .gz by suffix",
    )
    parser.add_argument(
        "target",
        type=Path,
        metavar="TARGET",
        help="the same lines as they should be; for apply: the labels that `label` wrote, an "
        "empty line for a sentence to be left alone",
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="where to write; .gz by suffix"
    )
    add_jobs(parser)
    _add_dictionary(parser.add_argument_group("dictionary"))
    _add_others(parser.add_argument_group("label, apply and stats"))
    _add_tune(parser.add_argument_group("tune"))


def _add_dictionary(group: argparse._ArgumentGroup) -> None:
    default = KINDS["dictionary"]
    group.add_argument(
        "--size",
        type=int,
        metavar="M",
        help="q-grams to append or to replace by: the most frequent, equally frequent ones by the "
        f"alphabet; 0 or more (default: {default['size']}, as in the paper)",
    )
    group.add_argument(
        "--longest",
        type=int,
        metavar="Q",
        help="tokens put in at once at most, the paper's q; 1 or more "
        f"(default: {default['longest']})",
    )
    group.add_argument(
        "--transforms",
        metavar="FILE|english|none",
        help="changes of suffixes: those of the paper for English, none, or lines of two "
        "suffixes, - for no suffix, and words that keep the first, as: - s a I "
        f"(default: {default['transforms']})",
    )
    group.add_argument(
        "--case",
        action="store_true",
        default=None,
        help="also have edits to lower case, to a capital first letter and to upper case",
    )
    group.add_argument(
        "--label-dict",
        type=Path,
        metavar="FILE",
        help="also write the labels as fairseq's dictionary, to binarize what `label` writes: "
        "fairseq-preprocess --only-source --source-lang edits --srcdict FILE",
    )


def _add_others(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--dictionary",
        type=Path,
        metavar="FILE",
        help="what `dictionary` wrote; apply does without, and with it refuses other labels",
    )
    group.add_argument(
        "--strict",
        action="store_true",
        default=None,
        help="label: drop pairs that put in more tokens at once than the dictionary's longest, as "
        "the authors' code does; by default that edit is dropped, as in the paper, and so "
        "is one that is not in the dictionary. A dropped pair has an empty line",
    )
    group.add_argument(
        "--exact",
        action="store_true",
        default=None,
        help="label: drop every pair whose TARGET the labels do not give back",
    )
    group.add_argument(
        "--format", choices=("text", "json"), help="stats: what to print (default: text)"
    )


def _add_tune(group: argparse._ArgumentGroup) -> None:
    default = KINDS["tune"]
    group.add_argument(
        "--model", metavar="FILE", help="a trained tagger, or several with : between, an ensemble"
    )
    group.add_argument(
        "--data", type=Path, metavar="FOLDER", help="binarized data that it was trained on"
    )
    group.add_argument(
        "--metric",
        choices=METRICS,
        help="what to make the most of: f0.5 of the edits against those from SOURCE to TARGET, or "
        f"exact, the share of the lines that are right (default: {default['metric']})",
    )
    group.add_argument(
        "--iterations", type=int, metavar="N", help=f"rounds (default: {default['iterations']})"
    )
    group.add_argument(
        "--batch-size",
        type=int,
        metavar="N",
        help=f"sentences at a time (default: {default['batch_size']})",
    )
    add_one_device(group)


@one_writer
def run(args: argparse.Namespace) -> int:
    """Do what the kind says."""
    settings = chosen_options(args, "edits", args.kind, KINDS, LEAST)
    _check_paths(args, settings)
    engine = local_executor(args)
    if args.kind == "tune":
        tune(args.source, args.target, settings)
        return 0
    job = EditsJob(args.source, args.target, engine, settings)
    getattr(job, args.kind)()
    return 0


def _check_paths(args: argparse.Namespace, settings: dict[str, Any]) -> None:
    read = [args.source, args.target, settings.get("dictionary"), settings.get("transforms")]
    written = {name: settings[name] for name in OUTPUTS if settings.get(name)}
    for name, path in written.items():
        check_output(path, *(Path(one) for one in read if one), option=name)
    if len({path.resolve() for path in written.values()}) < len(written):
        raise UsageError(
            f"--output and --label-dict are both {settings['output']}; name two files."
        )
