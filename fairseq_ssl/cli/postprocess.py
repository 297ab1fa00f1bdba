"""``fairseq-ssl postprocess``: convert output of a model to text (thesis, 5.3.8)."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from fairseq_ssl.cli import options
from fairseq_ssl.cli.console import print_lines
from fairseq_ssl.errors import DataError, UsageError, flag
from fairseq_ssl.io.fingerprints import content_digest
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.postprocessing import UnknownCopies, postprocessor, read_generated_lines
from fairseq_ssl.text.vocabulary import read_counts

EXAMPLES = """\
  fairseq-ssl postprocess generate.txt --field H > hyp.bpe.de
  fairseq-ssl postprocess generate.txt --field H --subwords subword-nmt --moses de > hyp.de
  fairseq-ssl postprocess hyp.bpe.de --copy-unknown --source test.bpe.en \\
      --source-dict data-bin/dict.en.txt --target-dict data-bin/dict.de.txt \\
      --subwords sentencepiece --detruecase --moses de > hyp.de
  fairseq-ssl postprocess hyp.bpe.ja --subwords sentencepiece --japanese-punctuation > hyp.ja
  fairseq-ssl postprocess hyp.bpe.en --unknown-to '|' --subwords sentencepiece > hyp.en"""

COPYING = ("source", "source_dict", "target_dict")
LINE_STEPS = (
    *("drop", "subwords", "unknown_to", "detruecase", "moses"),
    *("japanese_punctuation", "remove_brackets"),
)
"""Options of the steps that `postprocessor` applies to each line, in its order."""
STEPS = ("field", "copy_unknown", *LINE_STEPS)
"""Options of all steps, in their order."""
ORDER = " ".join(flag(step) for step in STEPS)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the input, the output and an option for each post-processing step."""
    what = "output of a model, one sentence per line, or with --field output of fairseq-generate"
    options.add_input(parser, what, "file")
    options.add_output_or_stdout(parser)
    steps = parser.add_argument_group(
        "steps", f"one or more; they are always applied in this order:\n{ORDER}"
    )
    steps.add_argument(
        "--field",
        choices=("S", "T", "H"),
        help="extract sources (S), targets (T) or best hypotheses (H) from output of "
        "fairseq-generate, in the order of the data",
    )
    steps.add_argument(
        "--copy-unknown",
        action="store_true",
        help="replace the n-th <unk> by the n-th source token that is not in both dictionaries; an "
        "<unk> without such a token is kept, and counted on stderr (thesis, En-De)",
    )
    steps.add_argument(
        "--drop", metavar="TOKEN", help="token to remove, such as the <sep> of joined sentences"
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
    process = postprocessor(**{name: getattr(args, name) for name in LINE_STEPS})
    copies = _copies(args) if args.copy_unknown else None
    if copies:
        chosen["dictionary_digest"] = content_digest(args.source_dict, args.target_dict)
    signature = Signature("postprocess", chosen)
    lines = options.input_lines(args.file)
    name = "stdin" if str(file) == options.STDIN else str(file)
    if args.field:
        lines = read_generated_lines(lines, args.field, name)
    if copies:
        lines = _copied(lines, name, args.source, copies)
    options.write_lines(map(process, lines), args.output, signature)
    if copies:
        print_lines(f"{copies.copied} <unk> replaced by source tokens, {copies.left} <unk> kept")


def _chosen(args: argparse.Namespace) -> dict[str, str | bool]:
    """Return the options of the selected steps. Raise UsageError for incompatible options."""
    given = {step: getattr(args, step) for step in STEPS}
    chosen = {
        step: value
        for step, value in given.items()
        if value not in (False, None) and (step, value) != ("subwords", "none")
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


def _copied(lines: Iterator[str], name: str, sources: Path, copies: UnknownCopies) -> Iterator[str]:
    """Yield lines with source tokens in place of <unk>. Both files must have as many lines."""
    for number, (line, source) in enumerate(zip_longest(lines, options.input_lines(sources))):
        if line is None or source is None:
            ended, longer = (name, sources) if line is None else (sources, name)
            raise DataError(
                f"{ended} has {number} lines, but {longer} has more. Output and source must have "
                "the same number of lines."
            )
        yield copies(line, source)
