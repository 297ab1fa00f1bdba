"""``fairseq-ssl edits``: extract edit labels from parallel text, combine and tune corrections."""

from __future__ import annotations

import argparse

from fairseq_ssl.cli import options
from fairseq_ssl.cli.console import print_lines, progress
from fairseq_ssl.cli.correct import check_models, corrector_config, register, tagger_device
from fairseq_ssl.cli.main import Subcommands
from fairseq_ssl.edits.coverage import METRICS
from fairseq_ssl.edits.edits_job import (
    EditDataConfig,
    EditDictionaryConfig,
    build_dictionary_file,
    label_file,
)
from fairseq_ssl.edits.extraction import vote_files
from fairseq_ssl.errors import flag
from fairseq_ssl.inference.correction import CorrectionConfig
from fairseq_ssl.io.jobs import check_new
from fairseq_ssl.options import add_options, integer, passed

EXAMPLES = """\
  fairseq-ssl edits prepare train.src train.trg --valid valid.src valid.trg -o data-bin
  fairseq-ssl edits dictionary train.src train.trg -o edits.txt
  fairseq-ssl edits dictionary train.src train.trg -o edits.txt --size 5000 --groups all
  fairseq-ssl edits dictionary train.src train.trg -o edits.txt --label-dict dict.labels.txt
  fairseq-ssl edits label train.src.gz train.trg.gz --dictionary edits.txt -o train.labels.gz
  fairseq-ssl edits vote test.src first.out second.out third.out --min-votes 2 -o test.out
  fairseq-ssl edits tune valid.src valid.trg --model run/checkpoint_best.pt --data-dir data-bin
  fairseq-ssl edits tune valid.src valid.trg --model one.pt two.pt --weights 2,1"""
HELD_OUT = ("valid", "test")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands of ``edits`` and their arguments to the parser."""
    subcommands = Subcommands(parser)
    _add_prepare(subcommands)
    _add_dictionary(subcommands)
    summary = "write the edit labels of each sentence, and print the fraction of edits with a label"
    label = subcommands.add("label", summary, _label)
    _add_files(label)
    options.add_path(label, "--dictionary", "output file of edits dictionary", required=True)
    options.add_line_job(
        label, "labels for the start and the tokens of each sentence, one sentence per line"
    )
    summary = "combine corrections: keep the edits on which at least N systems agree"
    votes = subcommands.add("vote", summary, _vote)
    options.add_files(votes, source="uncorrected text, tokens separated by spaces")
    what = f"corrections of SOURCE {options.FORMATS}, one file per system"
    options.add_path(votes, "corrections", what, "CORRECTED", nargs="+")
    options.add_output_or_stdout(votes)
    what = "min number of systems that make an edit, 1 or more (default: more than half)"
    votes.add_argument("--min-votes", type=integer, metavar="N", help=what)
    _add_tune(subcommands)


def _add_files(parser: argparse.ArgumentParser) -> None:
    options.add_files(
        parser,
        source="uncorrected text, one sentence per line: words, subwords or characters separated "
        "by spaces",
        target="corrected text, aligned with SOURCE",
    )


def _add_dictionary(subcommands: Subcommands) -> None:
    parser = subcommands.add(
        "dictionary", "count edits and write a dictionary of edit labels", _dictionary
    )
    _add_files(parser)
    options.add_output(parser)
    add_options(parser, EditDictionaryConfig)
    options.add_path(
        parser,
        "--label-dict",
        "additional output: fairseq dictionary of the labels, for binarizing the output of edits "
        "label with fairseq-preprocess --only-source --source-lang edits --srcdict FILE",
    )
    options.add_jobs(parser)


def _add_prepare(subcommands: Subcommands) -> None:
    parser = subcommands.add(
        "prepare", "create the data folder of a word-level edit tagger", _prepare
    )
    _add_files(parser)
    options.add_output(parser, "data folder", "DIR")
    for split in HELD_OUT:
        what = f"uncorrected and corrected text for the split {split} (default: none)"
        options.add_path(parser, f"--{split}", what, ("SOURCE", "TARGET"), nargs=2)
    add_options(parser, EditDataConfig)
    options.add_replace(parser)
    options.add_jobs(parser)


def _add_tune(subcommands: Subcommands) -> None:
    parser = subcommands.add(
        "tune", "tune the decoding options of a model on a development set", _tune
    )
    _add_files(parser)
    add_options(parser, CorrectionConfig, ["models", "data_dir", "encoder", "weights", "spelling"])
    parser.add_argument(
        "--metric",
        choices=METRICS,
        default=METRICS[0],
        help="metric to maximize; f0.5: F0.5 of the model's edits against the edits from SOURCE to "
        "TARGET; exact: percentage of outputs equal to TARGET (default: %(default)s)",
    )
    add_options(parser, CorrectionConfig, ["iterations", "batch_size"])
    options.add_one_device(parser)


@options.one_writer
def _prepare(args: argparse.Namespace) -> None:
    from fairseq_ssl.data.edit_preparation import prepare_edit_data

    check_new(args.output, args.overwrite)
    splits = {"train": (args.source, args.target)}
    splits |= {name: tuple(getattr(args, name)) for name in HELD_OUT if getattr(args, name)}
    summary = prepare_edit_data(
        splits,
        args.output,
        EditDataConfig(**passed(args, EditDataConfig)),
        executor=options.local_executor(args),
        progress=progress,
    )
    for name, coverage in summary.coverage.items():
        covered = _percent(coverage.kept.total(), coverage.edits)
        print_lines(
            f"{name}: {coverage.pairs} pairs, {coverage.edits} edits, {covered} with a label"
        )
    print_lines(
        f"{summary.words} words, {len(summary.dictionary.labels)} labels",
        summary.signature,
        f"wrote {args.output}",
    )


def _dictionary(args: argparse.Namespace) -> None:
    config = EditDictionaryConfig(**passed(args, EditDictionaryConfig))
    summary = build_dictionary_file(
        args.source,
        args.target,
        args.output,
        config,
        label_dict=args.label_dict,
        executor=options.local_executor(args),
        progress=progress,
    )
    dictionary, counts, insertions = summary.dictionary, summary.counts, summary.insertions
    covered = (
        f", {len(dictionary.appends)} q-grams for "
        f"{_percent(sum(dictionary.counts), insertions)} of them, "
        f"{_percent(counts.too_long, insertions)} longer than {config.max_ngram}"
    )
    skipped = f"; {counts.incomparable} pairs skipped, too long and too different"
    print_lines(
        f"{counts.pairs} pairs, {insertions} insertions{covered if insertions else ''}; "
        f"{len(dictionary.transforms.table)} transforms, {len(dictionary.labels)} labels"
        f"{skipped if counts.incomparable else ''}",
        summary.signature,
        f"wrote {args.output}",
    )


def _label(args: argparse.Namespace) -> None:
    job = options.line_job(args)
    summary = label_file(args.source, args.target, dictionary=args.dictionary, **job)
    if summary:
        print_lines(
            *summary.coverage.lines(),
            f"dropped         {summary.coverage.incomparable} pairs",
            summary.signature,
            *(f"wrote {path}" for path in summary.outputs),
        )


def _vote(args: argparse.Namespace) -> None:
    options.check_output(args.output, args.source, *args.corrections)
    lines, signature = vote_files(args.source, args.corrections, args.min_votes)
    options.write_lines(lines, args.output, signature)


def _tune(args: argparse.Namespace) -> None:
    from fairseq_ssl.analysis.edit_tuning import tune_edit_confidence

    check_models(args.models, "SOURCE and TARGET")
    config = corrector_config(args, device=options.one_device(tagger_device(args)))
    register(config)
    result = tune_edit_confidence(
        args.source, args.target, config, metric=args.metric, progress=progress
    )
    print(" ".join(f"{flag(f'edit_{name}')} {value}" for name, value in result.flags.items()))
    print_lines(*result.lines(), result.signature)


def _percent(part: int, whole: int) -> str:
    return f"{part / whole if whole else 1:.1%}"
