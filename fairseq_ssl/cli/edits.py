"""``fairseq-ssl edits``: edit labels of parallel text, and text edited by labels."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import fairseq_ssl
from fairseq_ssl.cli.console import print_lines, progress
from fairseq_ssl.cli.options import (
    add_jobs,
    add_one_device,
    integer,
    local_executor,
    one_device,
)
from fairseq_ssl.cli.sub_verbs import Steps, run_step
from fairseq_ssl.edits.edits_job import (
    MAX_NGRAM,
    SIZE,
    EditLabelSummary,
    apply_file,
    build_dictionary_file,
    label_file,
    measure_coverage,
)
from fairseq_ssl.errors import flag

SUMMARY = "turn corrected text into edit labels of its tokens, and labels into corrected text"
EXAMPLES = """\
  fairseq-ssl edits dictionary train.src train.trg -o edits.txt
  fairseq-ssl edits dictionary train.src train.trg -o edits.txt --size 5000 --case
  fairseq-ssl edits dictionary train.src train.trg -o edits.txt --label-dict dict.labels.txt
  fairseq-ssl edits stats valid.src valid.trg --dictionary edits.txt
  fairseq-ssl edits label train.src.gz train.trg.gz --dictionary edits.txt -o train.labels.gz
  fairseq-ssl edits apply test.src test.labels -o test.out
  fairseq-ssl edits tune valid.src valid.trg --model run/checkpoint_best.pt --data-dir data-bin"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the sub-verbs."""
    steps = Steps(parser)
    _add_dictionary(steps)
    label = steps.add(
        "label", "write the labels of each pair: of the start and of each token of SOURCE", _label
    )
    _add_files(label)
    label.add_argument(
        "--strict",
        action="store_true",
        help="drop pairs that insert more tokens at once than the dictionary's max q-gram, as in "
        "the authors' code; by default this edit is dropped, as in the paper, and so is an edit "
        "without a label. A dropped pair has an empty line",
    )
    label.add_argument(
        "--exact", action="store_true", help="drop pairs whose labels do not restore TARGET"
    )
    apply = steps.add("apply", "edit SOURCE by labels", _apply)
    _add_files(
        apply, "labels", "a line of labels for each line, empty to leave the line unchanged", False
    )
    stats = steps.add(
        "stats", "print which edits a dictionary has labels for, and the scores they allow", _stats
    )
    _add_files(stats, output=False)
    stats.add_argument(
        "--format", choices=("text", "json"), default="text", help="output format (default: text)"
    )
    _add_tune(steps)


def run(args: argparse.Namespace) -> int:
    """Run the sub-verb."""
    return run_step(args)


def _add_files(
    step: argparse.ArgumentParser,
    target: str = "target",
    target_help: str = "the corrected lines",
    needs_dictionary: bool = True,
    output: bool = True,
) -> None:
    """Declare the two files, the output and the dictionary."""
    _add_pair(step, target, target_help)
    if output:
        _add_output(step)
    step.add_argument(
        "--dictionary",
        type=Path,
        metavar="FILE",
        required=needs_dictionary,
        help="a file of edits dictionary"
        + ("" if needs_dictionary else ": reject labels that are not in it"),
    )
    add_jobs(step)


def _add_pair(
    step: argparse.ArgumentParser, target: str = "target", target_help: str = "the corrected lines"
) -> None:
    step.add_argument(
        "source",
        type=Path,
        metavar="SOURCE",
        help="text to edit, one sentence a line, tokens (words, subwords or characters) separated "
        "by spaces; .gz by suffix",
    )
    step.add_argument(target, type=Path, metavar=target.upper(), help=target_help)


def _add_output(step: argparse.ArgumentParser) -> None:
    step.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE", help="output; .gz by suffix"
    )


def _add_dictionary(steps: Steps) -> None:
    step = steps.add(
        "dictionary", "count insertions, and write the edits that a model chooses from", _dictionary
    )
    _add_pair(step)
    _add_output(step)
    step.add_argument(
        "--size",
        type=integer(0),
        default=SIZE,
        metavar="M",
        help="q-grams to append or to replace by, the most frequent, 0 or more (default: "
        "%(default)s, as in the paper)",
    )
    step.add_argument(
        "--max-ngram",
        type=integer(1),
        default=MAX_NGRAM,
        metavar="Q",
        help="max tokens of a q-gram, 1 or more (default: %(default)s)",
    )
    step.add_argument(
        "--transforms",
        default="english",
        metavar="FILE|english|none",
        help="changes of suffixes: those of the paper for English, none, or a file with lines of "
        "two suffixes, - for an empty one, and words that keep the first suffix, for example: "
        "- s a I (default: %(default)s)",
    )
    step.add_argument(
        "--case",
        action="store_true",
        help="also have labels for lower case, a capital first letter and upper case",
    )
    step.add_argument(
        "--label-dict",
        type=Path,
        metavar="FILE",
        help="also write the labels as a dictionary of fairseq, to binarize the output of edits "
        "label: fairseq-preprocess --only-source --source-lang edits --srcdict FILE",
    )
    add_jobs(step)


def _add_tune(steps: Steps) -> None:
    step = steps.add(
        "tune", "print the decoding options with which a model corrects SOURCE best", _tune
    )
    _add_pair(step)
    step.add_argument(
        "--model",
        required=True,
        metavar="FILE",
        help="checkpoint of an edit tagger, or several separated by : for an ensemble",
    )
    step.add_argument(
        "--data-dir",
        type=Path,
        required=True,
        metavar="DIR",
        help="folder with the binarized data of its training",
    )
    step.add_argument(
        "--metric",
        choices=("f0.5", "exact"),
        default="f0.5",
        help="f0.5 of the edits against those from SOURCE to TARGET, or exact, the percentage of "
        "correct lines (default: %(default)s)",
    )
    step.add_argument(
        "--iterations",
        type=integer(1),
        default=4,
        metavar="N",
        help="rounds of editing, 1 or more (default: %(default)s)",
    )
    step.add_argument(
        "--batch-size",
        type=integer(1),
        default=64,
        metavar="N",
        help="sentences of a batch, 1 or more (default: %(default)s)",
    )
    add_one_device(step)


def _dictionary(args: argparse.Namespace) -> int:
    summary = build_dictionary_file(
        args.source,
        args.target,
        args.output,
        size=args.size,
        max_ngram=args.max_ngram,
        transforms=args.transforms,
        case=args.case,
        label_dict=args.label_dict,
        executor=local_executor(args),
        progress=progress,
    )
    made, counts, insertions = summary.dictionary, summary.counts, summary.insertions
    shares = (
        f", {len(made.grams)} q-grams for {_percent(sum(made.counts), insertions)} of them, "
        f"{_percent(counts.too_long, insertions)} longer than {args.max_ngram}"
    )
    print_lines(
        f"{counts.pairs} pairs, {insertions} insertions{shares if insertions else ''}; "
        f"{len(made.transforms.table)} transforms, {len(made.labels)} labels"
        f"{_incomparable(counts.incomparable)}",
        summary.signature,
        f"wrote {args.output}",
    )
    return 0


def _label(args: argparse.Namespace) -> int:
    summary = label_file(
        args.source,
        args.target,
        args.output,
        args.dictionary,
        strict=args.strict,
        exact=args.exact,
        executor=local_executor(args),
        progress=progress,
    )
    coverage = summary.coverage
    share = _percent(coverage.kept.total(), coverage.edits)
    return _finish(
        args,
        summary,
        f"{summary.lines} pairs, {summary.without_labels} dropped; {coverage.edits} edits"
        f"{f', {share} with a label' if coverage.edits else ''}"
        f"{_incomparable(coverage.incomparable)}",
    )


def _apply(args: argparse.Namespace) -> int:
    summary = apply_file(
        args.source,
        args.labels,
        args.output,
        args.dictionary,
        executor=local_executor(args),
        progress=progress,
    )
    return _finish(
        args, summary, f"{summary.lines} lines, {summary.without_labels} without labels unchanged"
    )


def _finish(args: argparse.Namespace, summary: EditLabelSummary, counts: str) -> int:
    print_lines(counts, summary.signature, f"wrote {args.output}")
    return 0


def _stats(args: argparse.Namespace) -> int:
    summary = measure_coverage(
        args.source,
        args.target,
        args.dictionary,
        executor=local_executor(args),
        progress=progress,
    )
    if args.format == "json":
        files = {"source": str(args.source), "target": str(args.target)}
        report = {**summary.coverage.report(), "signature": str(summary.signature), **files}
        print(json.dumps(report, indent=2, ensure_ascii=False))
    else:
        print("\n".join(summary.coverage.lines()))
        print_lines(summary.signature)
    return 0


def _tune(args: argparse.Namespace) -> int:
    from fairseq_ssl.analysis.edit_tuning import tune_edit_confidence

    fairseq_ssl.register()
    result = tune_edit_confidence(
        args.source,
        args.target,
        args.model,
        args.data_dir,
        metric=args.metric,
        iterations=args.iterations,
        batch_size=args.batch_size,
        device=one_device(args.device),
        progress=progress,
    )
    print(" ".join(f"{flag(name)} {value}" for name, value in result.best.options.items() if value))
    for name, trial in (("without", result.default), ("with", result.best)):
        shown = ", ".join(f"{key} {value:.2f}" for key, value in trial.scores.items())
        print_lines(f"{name}: {shown}")
    print_lines(result.signature)
    return 0


def _percent(part: int, whole: int) -> str:
    return f"{part / whole if whole else 1:.1%}"


def _incomparable(pairs: int) -> str:
    return f"; {pairs} pairs skipped, too long and too different" if pairs else ""
