"""``fairseq-ssl subwords``: train a subword model, encode text, and write the dictionary."""

from __future__ import annotations

import argparse
from itertools import chain
from pathlib import Path

from fairseq_ssl.cli import options
from fairseq_ssl.cli.console import print_lines, watched
from fairseq_ssl.cli.main import Subcommands
from fairseq_ssl.errors import UsageError
from fairseq_ssl.io.fingerprints import content_digest
from fairseq_ssl.options import add_options, passed
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.subwords.model import (
    SubwordTraining,
    encode_subwords_file,
    model_file,
    subword_dictionary,
    train_subwords,
)

EXAMPLES = """\
  fairseq-ssl subwords train europarl.en news.en rapid.en -o bpe.en --size 32000 \\
      --tags '<BT>' '<FT>'
  zcat bitext.ja.gz | shuf -n 10000000 | fairseq-ssl subwords train - -o bpe.ja --size 32000 \\
      --character-coverage 0.9998
  fairseq-ssl subwords encode bpe.en train.en.gz -o train.bpe.en
  fairseq-ssl subwords dictionary bpe.en > dict.en.txt
  fairseq-ssl postprocess output.bpe.en --subwords sentencepiece > output.en"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands of ``subwords`` and their arguments to the parser."""
    subcommands = Subcommands(parser)
    _add_train(subcommands)
    encode = subcommands.add("encode", "split lines into subwords, separated by spaces", _encode)
    _add_model(encode)
    options.add_input(encode, "text, preprocessed like the training text of the model", "file")
    options.add_line_job(encode, "subwords, one line per input line")
    entries = subcommands.add(
        "dictionary",
        "print a fairseq dictionary of all subwords and tags, for fairseq-preprocess --srcdict or "
        "--tgtdict",
        _dictionary,
    )
    _add_model(entries)
    options.add_output_or_stdout(entries)


def _add_train(subcommands: Subcommands) -> None:
    train = subcommands.add("train", "train a subword model", _train)
    options.add_texts(train, "text", "training text, tokenized for subword-nmt, or - for stdin")
    what = "prefix of the .model (sentencepiece) or .codes (subword-nmt), .vocab and .json files"
    options.add_output(train, what, "PREFIX")
    add_options(train, SubwordTraining, ["kind", "size", "character_coverage", "model_type"])
    train.add_argument(
        "--tags",
        nargs="+",
        default=(),
        metavar="TAG",
        help="tags that are never split into subwords, such as <BT> <FT>",
    )
    options.add_replace(train, "the model")


def _add_model(parser: argparse.ArgumentParser) -> None:
    options.add_path(parser, "model", "PREFIX of a trained model, or a model file", "MODEL")


@options.one_writer
def _train(args: argparse.Namespace) -> None:
    for tag in args.tags:
        if Path(tag).is_file():
            raise UsageError(f"--tags contains the file {tag}. Pass files before --tags.")
    for path in args.text:
        if path.name in [f"{args.output.name}{end}" for end in (".model", ".codes", ".vocab")]:
            options.check_output(args.output.with_name(path.name), path)
    lines = chain.from_iterable(map(options.input_lines, args.text))
    trained, signature = train_subwords(
        watched(lines, "subwords train", "lines"),
        args.output,
        SubwordTraining(**passed(args, SubwordTraining), tags=tuple(args.tags)),
        source=[str(path) for path in args.text],
        overwrite=args.overwrite,
    )
    print_lines(signature, *trained.notes, f"wrote {trained.pieces} subwords to {trained.model}")


def _encode(args: argparse.Namespace) -> None:
    job = options.line_job(args)
    options.print_summary(encode_subwords_file(args.file, model=args.model, **job))


def _dictionary(args: argparse.Namespace) -> None:
    options.check_output(args.output, model_file(args.model))
    lines = subword_dictionary(args.model)
    parameters = {"model_digest": content_digest(model_file(args.model))}
    signature = Signature("subwords-dictionary", parameters, {"model": str(args.model)})
    options.write_lines(lines, args.output, signature)
