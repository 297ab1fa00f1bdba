"""What the verbs that compare checkpoints share: their options and their report."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairseq_ssl.cli.options import add_one_device, add_rewriting, check_length_penalty
from fairseq_ssl.errors import UsageError
from fairseq_ssl.io.atomic import atomic_lines
from fairseq_ssl.metrics.significance import SeedRange
from fairseq_ssl.signature import Signature

if TYPE_CHECKING:
    from fairseq_ssl.analysis.trained_models import SearchOptions

Named = dict[str, list[Path]]
"""Checkpoints by name; several under one name are repetitions with other seeds."""


def add_checkpoints(parser: argparse.ArgumentParser, subset: str, several: bool = False) -> None:
    """Declare the data, with one or several splits, the checkpoints, the device and the output."""
    parser.add_argument("data", type=Path, metavar="DATA", help="a binarized corpus (data-bin)")
    parser.add_argument(
        "-c",
        "--checkpoint",
        action="append",
        required=True,
        metavar="NAME=PATH",
        help="a checkpoint and what to call it; the first name is the one that others are compared "
        "with; repeat a name for other seeds of the same, whose mean is taken",
    )
    parser.add_argument(
        "--subset",
        default=subset,
        metavar="SPLIT,..." if several else "SPLIT",
        help="splits of the data, whose sentences are pooled, as in valid,test,test1 "
        "(default: %(default)s)"
        if several
        else "split of the data (default: %(default)s)",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="PREFIX",
        help="write PREFIX.json and the figure PREFIX.FORMAT",
    )
    parser.add_argument(
        "--format",
        choices=("png", "svg", "pdf"),
        default="png",
        help="of the figure (default: %(default)s)",
    )
    add_one_device(parser)
    parser.add_argument(
        "--max-tokens",
        type=int,
        default=4000,
        metavar="N",
        help="source tokens in a batch, pads among them (default: %(default)s)",
    )


def add_decoding(parser: argparse.ArgumentParser) -> None:
    """Declare how to search and how to score."""
    decoding = parser.add_argument_group("decoding and scoring")
    decoding.add_argument("--beam", type=int, default=4, metavar="N", help="default: %(default)s")
    decoding.add_argument(
        "--lenpen",
        type=float,
        default=1.0,
        metavar="X",
        help="above 1 favours long outputs, -20 to 20 (default: %(default)s)",
    )
    add_rewriting(decoding)
    decoding.add_argument(
        "--tokenize", default="13a", help="sacreBLEU's tokenizer (default: %(default)s)"
    )


def checkpoints(args: argparse.Namespace, least: int = 2) -> Named:
    """Parse NAME=PATH, keeping the order of names; at least `least` names are wanted."""
    named: Named = {}
    for given in args.checkpoint:
        name, equals, path = given.partition("=")
        if not (name and equals and path):
            raise UsageError(f"--checkpoint {given!r} is not NAME=PATH, as shifted=run/best.pt.")
        named.setdefault(name, []).append(Path(path))
    if len(named) < least:
        raise UsageError(f"--checkpoint names {', '.join(named)} only; expected {least} names.")
    return named


def numbers(words: str) -> list[int]:
    """Parse whole numbers with commas between them."""
    return [int(word) for word in words.split(",")]


def splits(args: argparse.Namespace) -> list[str]:
    """Return the names of --subset, each once."""
    names: list[str] = args.subset.split(",")
    if not all(names) or len(set(names)) < len(names):
        raise UsageError(f"--subset is {args.subset!r}; expected names of splits, each once.")
    return names


def check_ends(flag: str, ends: Sequence[int]) -> None:
    """Refuse ends of buckets that do not rise from 1 on."""
    if any(end <= before for before, end in zip([0, *ends], ends, strict=False)):
        raise UsageError(f"{flag} are {list(ends)}; expected rising numbers from 1 on.")


def search(args: argparse.Namespace) -> SearchOptions:
    """Return the search asked for."""
    from fairseq_ssl.analysis.trained_models import SearchOptions

    check_length_penalty(args.lenpen)
    return SearchOptions(beam=args.beam, lenpen=args.lenpen, max_tokens=args.max_tokens)


def mean_and_deviation(values: Iterable[float]) -> dict[str, float]:
    """Return mean and sample standard deviation (0 for one value), rounded to 0.0001."""
    spread = SeedRange.of(list(values))
    return {"mean": round(spread.mean, 4), "sd": round(spread.deviation, 4)}


def publish(args: argparse.Namespace, signature: Signature, results: dict[str, Any]) -> None:
    """Write PREFIX.json whole or not at all, and say what was written."""
    path = args.output.with_name(f"{args.output.name}.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"signature": str(signature), **signature.parameters, **results}
    with atomic_lines(path) as file:
        file.write(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    print(f"{signature}\nwrote {path} and {figure_path(args)}", file=sys.stderr)


def figure_path(args: argparse.Namespace) -> Path:
    """Return PREFIX.FORMAT."""
    output: Path = args.output
    return output.with_name(f"{output.name}.{args.format}")
