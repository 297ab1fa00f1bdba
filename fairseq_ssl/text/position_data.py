"""Data sets for the comparison of position encodings (Kiyono, 2022, section 6.3.1).

The data set ``vanilla`` is an unchanged corpus. The other data sets are derived from a corpus and
have its format, text or binarized.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.io.jobs import ProgressFactory, check_new, check_outside, counted, silent_progress
from fairseq_ssl.io.outputs import atomic_folder, signature_path, write_signature
from fairseq_ssl.options import check, option
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.parallel_folder import (
    PairReader,
    ParallelFolder,
    S,
    SentencePair,
    Separators,
    first_to_end,
)
from fairseq_ssl.text.vocabulary import RESERVED

VANILLA, EXTRAPOLATE, INTERPOLATE, SWAPPED = "vanilla", "extrapolate", "interpolate", "swapped"


@dataclass(frozen=True)
class PositionDataConfig:
    """Options of the data sets extrapolate, interpolate and swapped."""

    limit: int = option(
        50,
        "for extrapolate: max number of tokens per side of a training pair, excluding </s>",
        low=1,
    )
    sentences: int = option(10, "for interpolate: number of adjacent sentences to join", low=2)
    separator: str = option(
        "<sep>",
        "for interpolate and swapped: token between joined sentences; it is added to dictionaries "
        "that do not contain it",
        metavar="TOKEN",
    )

    def __post_init__(self) -> None:
        check(self)
        if self.separator.split() != [self.separator] or self.separator in RESERVED:
            raise UsageError(
                f"`separator` is {self.separator!r}. Expected a token without spaces that is not "
                f"one of {' '.join(RESERVED)}."
            )


OPTIONS = {
    VANILLA: (),
    EXTRAPOLATE: ("limit",),
    INTERPOLATE: ("sentences", "separator"),
    SWAPPED: ("separator",),
}
"""Names of the options that apply to each kind of data set."""


def write_position_data(
    corpus: ParallelFolder[Any],
    source: Path,
    output: Path,
    kind: str,
    config: PositionDataConfig | None = None,
    *,
    overwrite: bool = False,
    progress: ProgressFactory = silent_progress,
) -> tuple[Signature, list[str]]:
    """Derive a data set from a corpus. Write it in the corpus format (text or binarized).

    Return the signature and notices about changes to the dictionaries. The signature contains the
    number of pairs read and written for each split.

    Args:
        corpus: the corpus in the folder `source`.
        source: folder of the corpus.
        output: folder to create.
        kind: `VANILLA`, `EXTRAPOLATE`, `INTERPOLATE` or `SWAPPED`.
        config: options of the data set (default: `PositionDataConfig()`).
        overwrite: replace an earlier output of this function.
        progress: creates the progress report, which receives the number of written pairs.
    """
    config = config or PositionDataConfig()
    settings = {name: getattr(config, name) for name in OPTIONS[kind]}
    operation: Callable[[PairReader[Any]], Iterator[SentencePair[Any]]] = iter
    if kind == EXTRAPOLATE:
        operation = partial(extrapolate, limit=config.limit, length=corpus.length)
    elif kind != VANILLA:
        separators = corpus.separators(config.separator)
        operation = partial(swapped, separators=separators)
        if kind == INTERPOLATE:
            operation = partial(interpolate, sentences=config.sentences, separators=separators)
    _check_output(source, output, overwrite)
    splits: dict[str, dict[str, int]] = {}
    with atomic_folder(output) as folder:
        for split in corpus.splits:
            reader = PairReader(split)
            pairs = counted(operation(reader), progress(split.name, "pairs written"))
            written = split.write(pairs, folder)
            splits[split.name] = {"pairs": reader.count, "written": written}
        notes = corpus.write_dictionaries(folder, settings.get("separator"))
        known = {"form": corpus.form, "languages": "-".join(corpus.languages)}
        details = {"input": str(source), "splits": splits}
        signature = Signature("position-data", {"kind": kind, **settings, **known}, details)
    write_signature(signature, output.resolve())
    return signature, notes


def _check_output(source: Path, output: Path, overwrite: bool) -> None:
    """Raise UsageError if the output would replace the corpus or another existing folder.

    With `overwrite`, an earlier output of `write_position_data` can be replaced.
    """
    check_outside(output, [source])
    check_new(output, overwrite)
    beside = signature_path(output.resolve())
    if output.exists() and not (
        beside.is_file() and '"method": "position-data"' in beside.read_text("utf-8", "replace")
    ):
        raise UsageError(
            f"{output} exists but was not created by fairseq-ssl position-data: {beside.name} is "
            "missing or names a different method. Choose a different folder."
        )


def extrapolate(
    reader: PairReader[S], limit: int, length: Callable[[S], int]
) -> Iterator[SentencePair[S]]:
    """Yield the pairs, except training pairs with more than `limit` tokens on either side.

    Test sentences above the limit are then longer than all training sentences.
    """
    if not reader.split.name.startswith("train"):
        yield from reader
        return
    kept = 0
    for pair in reader:
        if max(map(length, pair)) <= limit:
            kept += 1
            yield pair
    if not kept:
        raise DataError(
            f"{reader.split.paths[0]} and its target side contain no pair with at most {limit} "
            "tokens per side. Set a larger `limit`."
        )


def interpolate(
    reader: PairReader[S], sentences: int, separators: Separators[S]
) -> Iterator[SentencePair[S]]:
    """Join each group of `sentences` adjacent pairs. Drop an incomplete group at the end.

    Training and test sentences then have similar lengths, but test tokens rarely occur at the
    positions at which they occur in the training data.
    """
    group: list[SentencePair[S]] = []
    for pair in reader:
        _reject_separators(reader, pair, separators)
        group.append(pair)
        if len(group) == sentences:
            yield _join(separators, zip(*group, strict=True))
            group.clear()
    if reader.count < sentences:
        raise DataError(
            f"{reader.split.paths[0]} contains {reader.count} sentences, fewer than the "
            f"{sentences} to join. Set a smaller `sentences`, or remove this split."
        )


def swapped(reader: PairReader[S], separators: Separators[S]) -> Iterator[SentencePair[S]]:
    """Move the first sentence on both sides of joined pairs to the end: X_2, ..., X_n, X_1.

    A model that does not depend on absolute positions translates X_1 equally well at the end.
    """
    for pair in reader:
        groups = _groups(reader, pair, separators)
        yield _join(separators, map(first_to_end, groups))


def _join(separators: Separators[S], sides: Iterable[Sequence[S]]) -> SentencePair[S]:
    source, target = (sep.join(side) for sep, side in zip(separators, sides, strict=True))
    return source, target


def _reject_separators(
    reader: PairReader[S], pair: SentencePair[S], separators: Separators[S]
) -> None:
    for side, separator in enumerate(separators):
        if len(separator.split(pair[side])) > 1:
            raise DataError(
                f"{reader.place(side)} already contains the separator {separator.token!r}. Choose "
                "a different `separator`."
            )


def _groups(
    reader: PairReader[S], pair: SentencePair[S], separators: Separators[S]
) -> list[list[S]]:
    """Split both sides of a joined pair into sentences.

    Raise DataError unless both sides have the same number of sentences, at least two.
    """
    groups = [sep.split(side) for sep, side in zip(separators, pair, strict=True)]
    for side, separator in enumerate(separators):
        if len(groups[side]) == 1:
            raise DataError(
                f"{reader.place(side)} contains no {separator.token!r}. Expected joined sentences, "
                "as in an interpolate data set. Set `separator` to the token between them."
            )
    source, target = map(len, groups)
    if source != target:
        raise DataError(
            f"{reader.place(0)} contains {source} joined sentences but {reader.place(1)} contains "
            f"{target}. Expected the same number. Create the interpolate data set again."
        )
    return groups
