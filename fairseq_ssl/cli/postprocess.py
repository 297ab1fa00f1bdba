"""``fairseq-ssl postprocess``: from what a model wrote to what is handed in (thesis, 5.3.8)."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from fairseq_ssl.cli import options
from fairseq_ssl.cli.console import print_lines
from fairseq_ssl.errors import DataError, UsageError, flag
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.postprocessing import UnknownCopies, postprocessor
from fairseq_ssl.text.vocabulary import read_counts

EXAMPLES = """\
  fairseq-ssl detokenize generate.txt --field H --subwords none > hyp.bpe.de
  fairseq-ssl postprocess hyp.bpe.de --copy-unknown --source test.bpe.en \\
      --source-dict data-bin/dict.en.txt --target-dict data-bin/dict.de.txt \\
      --subwords sentencepiece --detruecase --moses de > hyp.de
  fairseq-ssl postprocess hyp.bpe.ja --subwords sentencepiece --japanese-punctuation > hyp.ja
  fairseq-ssl postprocess hyp.bpe.en --unknown-to '|' --subwords sentencepiece > hyp.en"""

COPYING = ("source", "source_dict", "target_dict")
STEPS = (
    *("copy_unknown", "subwords", "unknown_to", "detruecase", "moses"),
    *("japanese_punctuation", "remove_brackets"),
)
"""The options that do something, in their order."""
ORDER = " ".join(flag(step) for step in STEPS)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the output of a model and what to do to it."""
    options.add_input(parser, "what a model wrote, in tokens, one sentence a line", "file")
    options.add_output_or_stdout(parser)
    steps = parser.add_argument_group(
        "steps", f"one or more; whatever the order of the flags, they are done in this:\n{ORDER}"
    )
    steps.add_argument(
        "--copy-unknown",
        action="store_true",
        help="each <unk> becomes a token of the source that exactly one of the two dictionaries "
        "has: the first <unk> the first such token, and so on; an <unk> for which none is left "
        "stays, and is counted on stderr (thesis, En-De)",
    )
    options.add_rewriting(steps, "none")
    steps.add_argument(
        "--unknown-to",
        metavar="TEXT",
        help="each <unk>, or each that is left, becomes this text (thesis, Ja-En: a vertical bar)",
    )
    steps.add_argument(
        "--detruecase",
        action="store_true",
        help="write the first word of each sentence with a capital, as Moses' detruecaser; before "
        "--moses undoes the tokenization",
    )
    steps.add_argument(
        "--japanese-punctuation",
        action="store_true",
        help="English commas and full stops, and wide ones, become 、 and 。; those within numbers "
        "and Latin words stay (thesis, En-Ja)",
    )
    steps.add_argument(
        "--remove-brackets",
        action="store_true",
        help="take away brackets right after katakana that hold Latin letters, spaces and simple "
        "punctuation alone; the thesis, 5.5.4, found that it hurts BLEU's brevity penalty",
    )
    copying = parser.add_argument_group("for --copy-unknown")
    copying.add_argument(
        "--source",
        type=Path,
        metavar="FILE",
        help="what FILE was translated from, line by line, in the tokens that the model read",
    )
    for side in ("source", "target"):
        copying.add_argument(
            f"--{side}-dict", type=Path, metavar="DICT", help=f"fairseq's dictionary of the {side}"
        )


def run(args: argparse.Namespace) -> None:
    """Do the steps to each line."""
    chosen = _chosen(args)
    options.check_output(args.output, args.file, *(getattr(args, name) for name in COPYING))
    steps = {name: getattr(args, name) for name in STEPS if name != "copy_unknown"}
    process = postprocessor(**steps)
    copies = _copies(args) if args.copy_unknown else None
    signature = Signature("postprocess", chosen)

    lines = _copied(args, copies) if copies else options.input_lines(args.file)
    options.write_lines(map(process, lines), args.output, signature)
    if copies:
        print_lines(f"{copies.copied} <unk> became source tokens, {copies.left} found none")


def _chosen(args: argparse.Namespace) -> dict[str, str | bool]:
    """Return the steps that were asked for; refuse none, and halves of one."""
    given = {step: getattr(args, step) for step in STEPS}
    idle = {"subwords": "none"}
    chosen = {
        step: value for step, value in given.items() if value not in (False, None, idle.get(step))
    }
    if not chosen:
        raise UsageError(f"There is nothing to do. Name one or more of {ORDER}.")
    for name in COPYING:
        option = flag(name)
        if args.copy_unknown and getattr(args, name) is None:
            raise UsageError(f"--copy-unknown needs {option}.")
        if not args.copy_unknown and getattr(args, name) is not None:
            raise UsageError(f"{option} goes with --copy-unknown.")
    return chosen


def _copies(args: argparse.Namespace) -> UnknownCopies:
    return UnknownCopies(
        *(read_counts(path).keys() for path in (args.source_dict, args.target_dict))
    )


def _copied(args: argparse.Namespace, copies: UnknownCopies) -> Iterator[str]:
    """Read output and source side by side."""
    name = "stdin" if args.file is None or str(args.file) == options.STDIN else args.file
    for number, (line, source) in enumerate(
        zip_longest(options.input_lines(args.file), options.input_lines(args.source))
    ):
        if line is None or source is None:
            ended, longer = (name, args.source) if line is None else (args.source, name)
            raise DataError(
                f"{ended} ends after line {number}, but {longer} goes on. The source must have as "
                "many lines as what was made of it."
            )
        yield copies(line, source)
