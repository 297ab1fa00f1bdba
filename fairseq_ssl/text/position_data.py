"""The data sets on which the thesis compares positions (section 6.3.1), made pair by pair.

Vanilla is a corpus as it is. The others are made of it by the functions here, which work on
lines of text and on arrays of ids alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from fairseq_ssl.errors import DataError
from fairseq_ssl.text.parallel_folder import PairReader, S, SentencePair, Separators, first_to_end


def extrapolate(
    reader: PairReader[S], limit: int, length: Callable[[S], int]
) -> Iterator[SentencePair[S]]:
    """Drop the training pairs with more than `limit` tokens on a side; other splits stay whole.

    What is longer at test time is then longer than anything seen in training.
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
            f"{reader.split.paths[0]} and its partner have no pair of at most {limit} tokens. "
            "Pass a larger limit."
        )


def interpolate(
    reader: PairReader[S], sentences: int, separators: Separators[S]
) -> Iterator[SentencePair[S]]:
    """Join each `sentences` neighbouring pairs into one; those left over at the end are dropped.

    Lengths are then alike in training and test, but a token's position hardly ever is.
    """
    group: list[SentencePair[S]] = []
    for pair in reader:
        _refuse_separators(reader, pair, separators)
        group.append(pair)
        if len(group) == sentences:
            yield _joined(separators, zip(*group, strict=True))
            group.clear()
    if reader.count < sentences:
        raise DataError(
            f"{reader.split.paths[0]} has {reader.count} sentences, too few to join {sentences}. "
            "Join fewer, or leave this split out."
        )


def swapped(reader: PairReader[S], separators: Separators[S]) -> Iterator[SentencePair[S]]:
    """Move the first of the joined sentences to the end, on both sides: X_2, ..., X_n, X_1.

    What does not depend on absolute positions translates it there as well as before.
    """
    for pair in reader:
        groups = _groups(reader, pair, separators)
        yield _joined(separators, map(first_to_end, groups))


def _joined(separators: Separators[S], sides: Iterable[Sequence[S]]) -> SentencePair[S]:
    source, target = (sep.join(side) for sep, side in zip(separators, sides, strict=True))
    return source, target


def _refuse_separators(
    reader: PairReader[S], pair: SentencePair[S], separators: Separators[S]
) -> None:
    for side, separator in enumerate(separators):
        if len(separator.split(pair[side])) > 1:
            raise DataError(
                f"{reader.place(side)} holds {separator.token!r} already, so joined sentences "
                "could not be told apart. Pass another --separator."
            )


def _groups(
    reader: PairReader[S], pair: SentencePair[S], separators: Separators[S]
) -> list[list[S]]:
    """Take both sides apart; they must hold equally many sentences, and more than one."""
    groups = [sep.split(side) for sep, side in zip(separators, pair, strict=True)]
    for side, separator in enumerate(separators):
        if len(groups[side]) == 1:
            raise DataError(
                f"{reader.place(side)} has no {separator.token!r}. Expected joined sentences, as "
                "interpolate makes them; pass their --separator if it is another."
            )
    source, target = map(len, groups)
    if source != target:
        raise DataError(
            f"{reader.place(0)} joins {source} sentences and {reader.place(1)} {target}. "
            "Expected equally many; make the interpolate data anew."
        )
    return groups
