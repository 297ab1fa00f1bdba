"""``fairseq-ssl postprocess``: convert model output to text (Kiyono, 2022, section 5.3.8)."""

from __future__ import annotations

import argparse
from pathlib import Path

from fairseq_ssl.cli import options
from fairseq_ssl.cli.console import print_lines
from fairseq_ssl.errors import UsageError, flag
from fairseq_ssl.io.fingerprints import content_digest
from fairseq_ssl.options import add_options, options_of, passed
from fairseq_ssl.signature import Signature, changed_options
from fairseq_ssl.text.postprocessing import (
    Postprocessing,
    UnknownCopies,
    postprocessor,
    read_generated_lines,
)
from fairseq_ssl.text.vocabulary import read_counts

EXAMPLES = """\
  fairseq-ssl postprocess generate.txt --fairseq-lines H > hyp.bpe.de
  fairseq-ssl postprocess generate.txt --fairseq-lines H --subwords subword-nmt --moses de > hyp.de
  fairseq-ssl postprocess hyp.bpe.de --copy-unknown --source test.bpe.en \\
      --source-dict data-bin/dict.en.txt --target-dict data-bin/dict.de.txt \\
      --subwords sentencepiece --detruecase --moses de > hyp.de
  fairseq-ssl postprocess hyp.bpe.ja --subwords sentencepiece --japanese-punctuation > hyp.ja
  fairseq-ssl postprocess hyp.bpe.en --replace-unk '|' --subwords sentencepiece > hyp.en"""

COPYING = ("source", "source_dict", "target_dict")
ORDER = " ".join(map(flag, options_of(Postprocessing)))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the input, the output and an option for each post-processing step."""
    what = "model output, one sentence per line, or fairseq-generate output with --fairseq-lines"
    options.add_input(parser, what, "file")
    options.add_output_or_stdout(parser)
    steps = parser.add_argument_group(
        "steps", f"at least one; they are always applied in this order:\n{ORDER}"
    )
    add_options(steps, Postprocessing)
    copying = parser.add_argument_group("files for --copy-unknown")
    options.add_path(copying, "--source", "source text of the model, aligned with FILE")
    for side in ("source", "target"):
        options.add_path(copying, f"--{side}-dict", f"fairseq dictionary of the {side}", "DICT")


def run(args: argparse.Namespace) -> None:
    """Apply the selected steps to each line. With --copy-unknown, report the replaced <unk>."""
    config = Postprocessing(**passed(args, Postprocessing))
    parameters = changed_options(config)
    if not parameters:
        raise UsageError(f"No step is selected. Pass at least one of {ORDER.replace(' ', ', ')}.")
    for option in COPYING:
        if config.copy_unknown and getattr(args, option) is None:
            raise UsageError(f"--copy-unknown needs {flag(option)}.")
        if not config.copy_unknown and getattr(args, option) is not None:
            raise UsageError(f"{flag(option)} needs --copy-unknown.")
    file = args.file or Path(options.STDIN)
    options.check_output(args.output, file, *(getattr(args, name) for name in COPYING))
    process = postprocessor(config)
    lines = options.input_lines(args.file)
    name = "stdin" if str(file) == options.STDIN else str(file)
    if config.fairseq_lines:
        lines = read_generated_lines(lines, config.fairseq_lines, name)
    copies = None
    if config.copy_unknown:
        dictionaries = args.source_dict, args.target_dict
        copies = UnknownCopies(*(read_counts(path).keys() for path in dictionaries))
        sources = options.input_lines(args.source)
        lines = copies.lines(lines, sources, (name, str(args.source)))
        parameters["dictionary_digest"] = content_digest(*dictionaries)
    options.write_lines(map(process, lines), args.output, Signature("postprocess", parameters))
    if copies:
        print_lines(f"{copies.copied} <unk> replaced by source tokens, {copies.left} <unk> kept")
