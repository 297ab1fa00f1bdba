"""``fairseq-ssl analyze``: compare checkpoints by their translations, scores and encoder states."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fairseq_ssl
from fairseq_ssl.cli import options
from fairseq_ssl.cli.console import print_lines, print_table, progress
from fairseq_ssl.cli.main import Steps
from fairseq_ssl.errors import UsageError
from fairseq_ssl.inference.scoring import MAX_PENALTY

if TYPE_CHECKING:
    from fairseq_ssl.analysis.results import AnalysisResult

EXAMPLES = """\
  fairseq-ssl analyze length-bleu data-bin/extrapolate -o lengths --subset valid,test \\
      -c absolute=runs/absolute.pt -c shifted=runs/shifted.pt -c relative=runs/relative.pt
  fairseq-ssl analyze length-bleu data-bin/interpolate -o lengths --ends 100,150,200,250 \\
      -c absolute=runs/absolute.pt -c shifted=runs/shifted.pt
  fairseq-ssl analyze swapped-bleu data-bin/interpolate -o swapped --lines 500 --beam 1 \\
      -c absolute=runs/absolute.1.pt -c absolute=runs/absolute.2.pt -c shifted=runs/shifted.1.pt
  fairseq-ssl analyze token-wins data-bin/interpolate -o wins --positions 100,200,300,400,500 \\
      -c absolute=runs/absolute.pt -c shifted=runs/shifted.pt
  fairseq-ssl analyze shift-similarity data-bin -o similarity --offsets 0,50,100 \\
      -c absolute=runs/absolute.pt -c shifted=runs/shifted.pt"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add a subcommand for each kind of analysis."""
    kinds = Steps(parser, "KIND", "kinds of analysis")
    _add_length_bleu(kinds)
    _add_swapped_bleu(kinds)
    _add_token_wins(kinds)
    _add_shift_similarity(kinds)


def _add_length_bleu(kinds: Steps) -> None:
    summary = "BLEU by source length, and the gain over a baseline checkpoint"
    step = kinds.add("length-bleu", summary, options.one_writer(_length_bleu))
    _add_checkpoints(step, subset="valid", several=True)
    step.add_argument(
        "--ends",
        type=_integers,
        default="10,20,30,40,50,60,70",
        metavar="N,N,...",
        help="max length of each bucket, in source tokens without </s>; an additional bucket has "
        "longer sentences (default: %(default)s)",
    )
    _add_decoding(step, "token to remove from outputs and references")


def _length_bleu(args: argparse.Namespace) -> None:
    subsets, arguments = _subsets(args), _arguments(args)
    from fairseq_ssl.analysis.length_bleu import score_by_length

    decoding = _decoding_arguments(args)
    _publish(args, score_by_length(ends=args.ends, subsets=subsets, **arguments, **decoding))


def _add_swapped_bleu(kinds: Steps) -> None:
    summary = "BLEU of the first of joined sentences, in place and moved to the end"
    step = kinds.add("swapped-bleu", summary, options.one_writer(_swapped_bleu))
    _add_checkpoints(step, subset="train")
    step.add_argument(
        "--lines",
        type=int,
        default=10000,
        metavar="N",
        help="number of random lines of the split, 1 or more (default: %(default)s, as in the "
        "thesis)",
    )
    options.add_seed(step)
    _add_decoding(step, "token between sentences")


def _swapped_bleu(args: argparse.Namespace) -> None:
    arguments = _arguments(args)
    from fairseq_ssl.analysis.swapped_bleu import score_swapped

    result = score_swapped(
        subset=args.subset,
        lines=args.lines,
        seed=args.seed,
        **arguments,
        **_decoding_arguments(args),
    )
    _publish(args, result)


def _add_token_wins(kinds: Steps) -> None:
    summary = "share of gold tokens that score higher than with a baseline checkpoint"
    step = kinds.add("token-wins", summary, options.one_writer(_token_wins))
    _add_checkpoints(step, subset="valid", several=True)
    step.add_argument(
        "--ranks",
        type=_integers,
        default="5000,15000,25000",
        metavar="N,N,...",
        help="last frequency rank of each row, 1 for the most frequent token in the training "
        "targets; an additional row has the remaining ranks (default: %(default)s)",
    )
    step.add_argument(
        "--positions",
        type=_integers,
        default="10,20,30,40,50,60,70",
        metavar="N,N,...",
        help="last position of each column, from 1; an additional column has the "
        "remaining positions (default: %(default)s)",
    )


def _token_wins(args: argparse.Namespace) -> None:
    subsets, arguments = _subsets(args), _arguments(args)
    from fairseq_ssl.analysis.token_wins import compare_gold_tokens

    result = compare_gold_tokens(
        ranks=args.ranks,
        positions=args.positions,
        subsets=subsets,
        max_tokens=args.max_tokens,
        **arguments,
    )
    _publish(args, result)


def _add_shift_similarity(kinds: Steps) -> None:
    summary = "cosine similarity of encoder states under shifted positions"
    step = kinds.add("shift-similarity", summary, options.one_writer(_shift_similarity))
    _add_checkpoints(step, subset="valid")
    step.add_argument(
        "--offsets",
        type=_integers,
        default="0,100,250,500",
        metavar="K,K,...",
        help="shifts of all positions in tokens, k in figure 6.3, 0 or more (default: %(default)s)",
    )


def _shift_similarity(args: argparse.Namespace) -> None:
    arguments = _arguments(args)
    from fairseq_ssl.analysis.shift_similarity import compare_shifted_states

    result = compare_shifted_states(
        offsets=args.offsets, subset=args.subset, max_tokens=args.max_tokens, **arguments
    )
    _publish(args, result)


def _add_checkpoints(step: argparse.ArgumentParser, subset: str, several: bool = False) -> None:
    """Add the options of data, checkpoints, output and device. `subset` is the default split."""
    step.add_argument("data", type=Path, metavar="DATA", help="data folder of fairseq-preprocess")
    step.add_argument(
        "-c",
        "--checkpoint",
        action="append",
        required=True,
        metavar="[NAME=]FILE",
        help="name and checkpoint of a model, first that of the baseline, if there is one; "
        "checkpoints with the same name are seeds, which are averaged",
    )
    step.add_argument(
        "--subset",
        default=subset,
        metavar="SPLIT,..." if several else "SPLIT",
        help="splits of the data, concatenated, for example valid,test (default: %(default)s)"
        if several
        else "split of the data (default: %(default)s)",
    )
    options.add_output(
        step, "prefix of the results, PREFIX.json, and of the figure, PREFIX.FORMAT", "PREFIX"
    )
    step.add_argument(
        "--format",
        choices=("png", "svg", "pdf"),
        default="png",
        help="format of the figure (default: %(default)s)",
    )
    options.add_one_device(step)
    options.add_integer(step, "--max-tokens", "max source tokens in a batch, with padding", 4000)


def _add_decoding(step: argparse.ArgumentParser, separator: str) -> None:
    """Add the options of beam search, detokenization and BLEU. `separator` is a help text."""
    step.add_argument("--separator", default="<sep>", help=f"{separator} (default: %(default)s)")
    decoding = step.add_argument_group("decoding and scoring")
    options.add_integer(decoding, "--beam", "beam size", 4)
    decoding.add_argument(
        "--lenpen",
        type=options.number(-MAX_PENALTY, MAX_PENALTY),
        default=1.0,
        metavar="X",
        help="length penalty, -20 to 20 (default: %(default)s)",
    )
    options.add_rewriting(decoding)
    decoding.add_argument(
        "--tokenize", default="13a", help="tokenizer of sacreBLEU (default: %(default)s)"
    )


def _integers(words: str) -> list[int]:
    """Return the integers in a string such as ``10,20,30``."""
    try:
        return [int(word) for word in words.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{words!r} is not a list of integers, such as 10,20,30."
        ) from None


def _arguments(args: argparse.Namespace) -> dict[str, Any]:
    """Register the plug-in and select the device. Return keyword arguments of all analyses."""
    device = options.one_device(args.device)
    fairseq_ssl.register()
    return {
        "checkpoints": options.named_files(args.checkpoint),
        "data": args.data,
        "device": device,
        "progress": progress,
    }


def _decoding_arguments(args: argparse.Namespace) -> dict[str, Any]:
    """Return the keyword arguments `search` and `text` of analyses that decode."""
    from fairseq_ssl.analysis.trained_models import BleuOptions, SearchOptions

    search = SearchOptions(beam=args.beam, lenpen=args.lenpen, max_tokens=args.max_tokens)
    text = BleuOptions(args.subwords, args.moses, args.tokenize, args.separator)
    return {"search": search, "text": text}


def _subsets(args: argparse.Namespace) -> list[str]:
    """Return the names of splits in --subset. Raise UsageError for empty or repeated names."""
    names: list[str] = args.subset.split(",")
    if not all(names) or len(set(names)) < len(names):
        raise UsageError(f"--subset is {args.subset!r}. Expected names of splits, each once.")
    return names


def _publish(args: argparse.Namespace, result: AnalysisResult) -> None:
    """Write the result and its figure. Print the tables, the signature and the paths."""
    paths = result.write(args.output, args.format)
    for header, rows in result.tables():
        print_table(header, rows)
    print_lines(result.signature, "wrote {} and {}".format(*paths))
