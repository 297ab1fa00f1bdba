"""``fairseq-ssl postprocess``: convert output of a model to final text (thesis, 5.3.8)."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from fairseq_ssl.cli import options
from fairseq_ssl.cli.console import print_lines
from fairseq_ssl.errors import DataError, UsageError, flag
from fairseq_ssl.signature import Signature, content_digest
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
"""Options of post-processing steps, in the order of the steps."""
ORDER = " ".join(flag(step) for step in STEPS)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the input, the output and an option for each post-processing step."""
    options.add_input(parser, "tokenized output of a model, one sentence per line", "file")
    options.add_output_or_stdout(parser)
    steps = parser.add_argument_group(
        "steps", f"one or more; they are always applied in this order:\n{ORDER}"
    )
    steps.add_argument(
        "--copy-unknown",
        action="store_true",
        help="replace the n-th <unk> by the n-th source token that is not in both dictionaries; an "
        "<unk> without such a token is kept, and counted on stderr (thesis, En-De)",
    )
    options.add_rewriting(steps, "none")
    steps.add_argument(
        "--unknown-to",
        metavar="TEXT",
        help="text that replaces each <unk> left by --copy-unknown, or every <unk> (thesis, Ja-En: "
        "a vertical bar)",
    )
    steps.add_argument(
        "--detruecase",
        action="store_true",
        help="capitalize the first word of each sentence, like Moses' detruecaser",
    )
    steps.add_argument(
        "--japanese-punctuation",
        action="store_true",
        help="replace English and full-width commas and full stops by 、 and 。, except within "
        "numbers and Latin words (thesis, En-Ja)",
    )
    steps.add_argument(
        "--remove-brackets",
        action="store_true",
        help="remove brackets after katakana if they contain only Latin letters, spaces and simple "
        "punctuation; this hurts BLEU's brevity penalty (thesis, 5.5.4)",
    )
    copying = parser.add_argument_group("for --copy-unknown")
    copying.add_argument(
        "--source",
        type=Path,
        metavar="FILE",
        help="tokenized source of FILE, as input to the model, line by line",
    )
    for side in ("source", "target"):
        copying.add_argument(
            f"--{side}-dict", type=Path, metavar="DICT", help=f"fairseq's dictionary of the {side}"
        )


def run(args: argparse.Namespace) -> None:
    """Apply the selected steps to each line, and print the number of replaced <unk>."""
    chosen = _chosen(args)
    file = args.file or Path(options.STDIN)
    options.check_output(args.output, file, *(getattr(args, name) for name in COPYING))
    steps = {name: getattr(args, name) for name in STEPS if name != "copy_unknown"}
    process = postprocessor(**steps)
    copies = _copies(args) if args.copy_unknown else None
    if copies:
        chosen["dictionary_digest"] = content_digest(args.source_dict, args.target_dict)
    signature = Signature("postprocess", chosen)
    lines = _copied(args, copies) if copies else options.input_lines(args.file)
    options.write_lines(map(process, lines), args.output, signature)
    if copies:
        print_lines(f"{copies.copied} <unk> replaced by source tokens, {copies.left} <unk> kept")


def _chosen(args: argparse.Namespace) -> dict[str, str | bool]:
    """Return the options of the selected steps. Raise UsageError for incompatible options."""
    given = {step: getattr(args, step) for step in STEPS}
    idle = {"subwords": "none"}
    chosen = {
        step: value for step, value in given.items() if value not in (False, None, idle.get(step))
    }
    if not chosen:
        raise UsageError(f"No step is selected. Pass one or more of {ORDER}.")
    for name in COPYING:
        option = flag(name)
        if args.copy_unknown and getattr(args, name) is None:
            raise UsageError(f"--copy-unknown needs {option}.")
        if not args.copy_unknown and getattr(args, name) is not None:
            raise UsageError(f"{option} needs --copy-unknown.")
    return chosen


def _copies(args: argparse.Namespace) -> UnknownCopies:
    return UnknownCopies(
        *(read_counts(path).keys() for path in (args.source_dict, args.target_dict))
    )


def _copied(args: argparse.Namespace, copies: UnknownCopies) -> Iterator[str]:
    """Yield lines with source tokens in place of <unk>. Both files must have as many lines."""
    name = "stdin" if args.file is None or str(args.file) == options.STDIN else args.file
    for number, (line, source) in enumerate(
        zip_longest(options.input_lines(args.file), options.input_lines(args.source))
    ):
        if line is None or source is None:
            ended, longer = (name, args.source) if line is None else (args.source, name)
            raise DataError(
                f"{ended} has {number} lines, but {longer} has more. Output and source must have "
                "the same number of lines."
            )
        yield copies(line, source)
