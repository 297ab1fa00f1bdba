"""``fairseq-ssl rerank merge`` and ``apply``: n-best lists in, a list or the best lines out."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from fairseq_ssl.cli.options import (
    add_output,
    add_rewriting,
    check_output,
    input_lines,
    one_writer,
    write_lines,
)
from fairseq_ssl.cli.sub_verbs import Steps
from fairseq_ssl.errors import DataError, UsageError, nearest
from fairseq_ssl.io.json_files import parse_json
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.nbest import NBest, merged, nbest_lines, read_list, read_nbest
from fairseq_ssl.text.tokenization import moses_detokenizer

BLOCK = 10_000
"""Sentences whose choice is made at a time."""


def add_merge(steps: Steps) -> None:
    """Declare merge."""
    merge = steps.add(
        "merge",
        "make one n-best list, without doubles, of several; write it as Moses does: "
        "0 ||| text ||| name= score ||| total ||| from= lists",
        _merge,
    )
    merge.add_argument(
        "list",
        nargs="+",
        metavar="NAME=LIST",
        help="a list as Moses writes it, or what fairseq-generate --nbest N printed, whose score "
        "(made a natural logarithm; normalized as --lenpen says) gets this name; .gz by suffix; "
        "candidates keep the order of the lists",
    )
    merge.add_argument(
        "--best",
        type=int,
        metavar="N",
        help="take the first N candidates of a sentence in each list; 1 or more; n of the thesis' "
        "2n (default: all)",
    )
    merge.add_argument(
        "--right-to-left",
        action="append",
        default=[],
        metavar="NAME",
        help="fairseq-generate printed this list's tokens from last to first; may be repeated",
    )
    add_rewriting(merge)
    add_output(merge)


def add_apply(steps: Steps) -> None:
    """Declare apply."""
    apply = steps.add(
        "apply", "write each sentence's candidate with the highest weighted sum (eq. 5.1)", _apply
    )
    add_nbest(apply)
    apply.add_argument("--weights", type=Path, metavar="FILE", help="what tune wrote")
    apply.add_argument(
        "--weight",
        action="append",
        metavar="NAME=W",
        help="instead of --weights: a score and its weight w_j, 0 or more; may be repeated; those "
        "not named count nothing",
    )
    apply.add_argument(
        "--nbest",
        action="store_true",
        help="write all candidates, the best first, with their sums as totals",
    )
    add_output(apply)


def add_nbest(parser: argparse.ArgumentParser) -> None:
    """Declare the list that is worked on."""
    parser.add_argument(
        "nbest_list",
        type=Path,
        metavar="LIST",
        help="an n-best list as merge writes it, every candidate with every score; .gz by suffix; "
        "- for stdin",
    )


def groups_of(path: Path) -> Iterator[NBest]:
    """Yield the sentences of a list; each must be there, from 0."""
    for place, group in enumerate(read_nbest(input_lines(path), str(path))):
        if group.number != place:
            raise DataError(
                f"{path} has sentence {group.number} where {place} was expected. Every sentence "
                "needs a candidate, and the first is 0."
            )
        yield group


def read_weights(path: Path) -> dict[str, float]:
    """Read what tune wrote."""
    try:
        content = parse_json("\n".join(input_lines(path)))
        weights = {str(name): float(weight) for name, weight in content["weights"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise DataError(
            f'{path} holds no weights. Expected what rerank tune writes, {{"weights": {{...}}}}.'
        ) from None
    return _checked(weights, str(path))


def named(words: Sequence[str]) -> dict[str, Path]:
    """Return lists by name; without a name, the file's."""
    found: dict[str, Path] = {}
    for word in words:
        name, equals, path = word.rpartition("=")
        name = name if equals else Path(path).name.partition(".")[0]
        if not name or not path or name != "".join(name.split()) or "=" in name:
            raise UsageError(f"{word!r} is no NAME=LIST; a name has no space and no =.")
        if name in found:
            raise UsageError(f"Two lists are called {name!r}. Name them NAME=LIST.")
        found[name] = Path(path)
    return found


@one_writer
def _merge(args: argparse.Namespace) -> int:
    lists = named(args.list)
    check_output(args.output, *lists.values())
    if args.best is not None and args.best < 1:
        raise UsageError(f"--best is {args.best}; expected 1 or more.")
    for name in args.right_to_left:
        if name not in lists:
            raise UsageError(f"--right-to-left {name} names no list.{nearest(name, lists)}")
    rewrite = moses_detokenizer(args.subwords, args.moses)
    readers = [
        read_list(input_lines(path), str(path), name, rewrite, name in args.right_to_left)
        for name, path in lists.items()
    ]
    counts = [0, 0]
    groups = _counted(merged(readers, list(lists), args.best), counts)
    parameters = {"lists": {name: str(path) for name, path in lists.items()}, "best": args.best}
    write_lines(nbest_lines(groups), args.output, Signature("rerank-merge", parameters))
    print(
        f"merged {len(lists)} lists: {counts[0]} sentences, {counts[1]} candidates, "
        f"{counts[1] / counts[0]:.1f} each",
        file=sys.stderr,
    )
    return 0


def _counted(groups: Iterable[NBest], counts: list[int]) -> Iterator[NBest]:
    for group in groups:
        counts[0] += 1
        counts[1] += len(group.candidates)
        yield group


@one_writer
def _apply(args: argparse.Namespace) -> int:
    check_output(args.output, args.nbest_list, args.weights)
    if (args.weights is None) == (args.weight is None):
        raise UsageError("apply needs either --weights or --weight.")
    weights = read_weights(args.weights) if args.weights else _weights(args.weight)
    signature = Signature("rerank-apply", {"list": str(args.nbest_list), "weights": weights})
    write_lines(_chosen(args.nbest_list, weights, args.nbest), args.output, signature)
    return 0


def _chosen(path: Path, weights: dict[str, float], whole: bool) -> Iterator[str]:
    """Yield the lines, a block of sentences at a time."""
    groups, line = groups_of(path), 1
    while block := list(islice(groups, BLOCK)):
        sorted_ = _sorted(block, weights, str(path), line)
        line += sum(len(group.candidates) for group in block)
        if whole:
            yield from nbest_lines(sorted_)
        else:
            yield from (group.candidates[0].text for group in sorted_)


def _sorted(
    block: Sequence[NBest], weights: dict[str, float], file: str, line: int
) -> Iterator[NBest]:
    """Put the best candidates first; equals stay as they are."""
    from fairseq_ssl.rerank.candidates import Candidates, weighted_totals, whole_weights

    lists = [[one.scores for one in group.candidates] for group in block]
    candidates = Candidates.of(lists, tuple(weights), file, line)
    sums = weighted_totals(candidates, whole_weights(weights))
    for group, row in zip(block, sums.tolist(), strict=True):
        order = sorted(range(len(group.candidates)), key=lambda place: -row[place])
        yield NBest(group.number, [_with_total(group.candidates[k], weights) for k in order])


def _with_total(candidate: Any, weights: dict[str, float]) -> Any:
    total = sum(weight * candidate.scores[name] for name, weight in weights.items())
    return replace(candidate, total=total)


def _weights(words: Sequence[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for word in words:
        name, equals, number = word.rpartition("=")
        try:
            value = float(number)
        except ValueError:
            value = math.nan
        if not equals or not name or math.isnan(value):
            raise UsageError(f"--weight is {word!r}; expected NAME=W, as l2r=0.5.")
        if name in found:
            raise UsageError(f"--weight {name} is given twice.")
        found[name] = value
    return _checked(found, "--weight")


def _checked(weights: dict[str, float], where: str) -> dict[str, float]:
    """Refuse weights out of range; leave those of 0 out, make the largest 1 where it is more."""
    if not weights or not all(0 <= weight < math.inf for weight in weights.values()):
        raise UsageError(f"{where} has weights {weights}; expected numbers of 0 or more.")
    largest = max(weights.values())
    if largest == 0:
        raise UsageError(f"{where} has no weight above 0, so nothing would choose.")
    return {name: weight / max(largest, 1.0) for name, weight in weights.items() if weight}
