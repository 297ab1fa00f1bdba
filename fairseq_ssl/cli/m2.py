"""``fairseq-ssl m2``: convert M2 files to text and back, merge them, and count their edits."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path

from fairseq_ssl.cli import options
from fairseq_ssl.cli.console import print_lines, print_table, progress
from fairseq_ssl.cli.main import Subcommands
from fairseq_ssl.errors import UsageError
from fairseq_ssl.io.outputs import write_signature
from fairseq_ssl.signature import Signature
from fairseq_ssl.text import m2
from fairseq_ssl.text.m2.statistics import M2Statistics

EXAMPLES = """\
  fairseq-ssl m2 to-text ABCN.dev.gold.bea19.m2 -o dev          (writes dev.src and dev.trg)
  fairseq-ssl m2 to-text conll14.m2 -o test --annotator all     (test.src, test.trg.0, test.trg.1)
  fairseq-ssl m2 to-text dev.m2 -o verbs --types 'VERB*,NOUN*'
  fairseq-ssl m2 from-text dev.src dev.ref0 dev.ref1 -o dev.m2 --jobs 8
  fairseq-ssl m2 merge first.m2 second.m2 -o both.m2
  fairseq-ssl m2 stats both.m2 --format json"""
M2_FILE = "M2 file"
RECORDED = ("annotator", "drop_overlaps", "types", "spacy_model", "untyped")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands of ``m2`` and their arguments to the parser."""
    add = Subcommands(parser).add
    to_text = add("to-text", "write the source and the corrected sentences as parallel text", _text)
    options.add_files(to_text, file=M2_FILE)
    options.add_output(to_text, "prefix of the outputs, PREFIX.src and PREFIX.trg", "PREFIX")
    to_text.add_argument(
        "--annotator",
        type=lambda word: None if word == "all" else options.integer(0)(word),
        default=0,
        metavar="N",
        help="annotator ID, 0 or more; all: write the text of each annotator N to PREFIX.trg.N "
        "(default: 0)",
    )
    to_text.add_argument(
        "--drop-overlaps",
        action="store_true",
        help="drop edits that overlap an earlier edit (default: stop with an error)",
    )
    to_text.add_argument(
        "--types",
        type=lambda words: words.split(","),
        default=[],
        metavar="TYPE,...",
        help="comma-separated types of edits to apply: full (R:VERB:SVA), without the operation "
        "(VERB:SVA), or only the operation (R); * matches any text, as in VERB* (default: all)",
    )
    from_text = add("from-text", "extract the edits of corrected text with ERRANT", _from_text)
    options.add_files(from_text, source="uncorrected, tokenized text, one sentence per line")
    what = "corrected text, aligned with SOURCE, one file per annotator"
    options.add_texts(from_text, "reference", what)
    options.add_output_or_stdout(
        from_text, f"M2 file {options.FORMATS}; empty lines of SOURCE are dropped"
    )
    add_pipeline(from_text, "extract edits without types, with a blank spaCy pipeline")
    options.add_line_jobs(from_text)
    merged = add("merge", "merge the edits of different annotators for the same sentences", _merge)
    options.add_path(merged, "files", "at least two M2 files with the same sentences", nargs="+")
    options.add_output_or_stdout(
        merged, "M2 file; annotators are numbered from 0 in the order of the files"
    )
    stats = add("stats", "count sentences, tokens and edits by annotator and type", _stats)
    options.add_input(stats, M2_FILE)
    options.add_format(stats)


def add_pipeline(parser: options.Options, untyped: str) -> None:
    """Add --spacy-model, and --untyped with the help text `untyped`."""
    parser.add_argument(
        "--spacy-model",
        metavar="NAME",
        help=f"name or folder of a spaCy pipeline (default: {m2.SPACY_MODEL})",
    )
    parser.add_argument("--untyped", action="store_true", help=untyped)


def pipeline(args: argparse.Namespace) -> str | None:
    """Return the name of the spaCy pipeline, or None for --untyped."""
    if args.untyped and args.spacy_model:
        raise UsageError("--untyped does not use --spacy-model. Remove one of them.")
    return None if args.untyped else str(args.spacy_model or m2.SPACY_MODEL)


def _text(args: argparse.Namespace) -> None:
    source, target = (
        args.output.with_name(f"{args.output.name}.{side}") for side in ("src", "trg")
    )
    chosen = m2.EditFilter(args.types)
    done = m2.m2_to_text(args.file, source, target, args.annotator, chosen, args.drop_overlaps)
    signature = _signature(args, {"file": str(args.file)})
    write_signature(signature, source)
    counts = (f"wrote {path}: {_counts(by)}" for path, by in done.items())
    print_lines(signature, f"wrote {source}", *counts)


def _signature(args: argparse.Namespace, files: dict[str, object]) -> Signature:
    parameters = {name: getattr(args, name) for name in RECORDED if hasattr(args, name)}
    return Signature("m2", {"subcommand": args.subcommand, **parameters}, files)


def _counts(by: m2.EditApplier) -> str:
    unseen, dropped = by.sentences - by.annotated, by.overlapping
    return (
        f"{by.applied} of {by.edits} edits of annotator {by.annotator} in {by.sentences} sentences"
        f"{f', {dropped} dropped that overlap' if dropped else ''}"
        f"{f'; {unseen} sentences without this annotator are unchanged' if unseen else ''}"
    )


def _from_text(args: argparse.Namespace) -> None:
    from fairseq_ssl.metrics.edit_extraction import annotate_texts

    sentences = annotate_texts(args.source, args.reference, pipeline(args), args.jobs, progress)
    _write(args, sentences, [args.source, *args.reference])


def _merge(args: argparse.Namespace) -> None:
    if len(args.files) < 2:
        raise UsageError(f"Only {args.files[0]} is passed. Expected at least two M2 files.")
    _write(args, m2.merge_m2(args.files), args.files)


def _write(
    args: argparse.Namespace, sentences: Iterable[m2.M2Sentence], inputs: list[Path]
) -> None:
    options.check_output(args.output, *inputs)
    lines = (line for sentence in sentences for line in m2.format_m2(sentence))
    options.write_lines(lines, args.output, _signature(args, {"files": list(map(str, inputs))}))


def _stats(args: argparse.Namespace) -> None:
    name = str(args.input or "stdin")
    statistics = M2Statistics.of(m2.parse_m2(options.input_lines(args.input), name), name)
    if args.format == "json":
        print(json.dumps(statistics.content(), indent=2, ensure_ascii=False))
        return
    for number, (header, *rows) in enumerate(statistics.tables()):
        print("\n" * bool(number), end="")
        print_table(header, rows)
