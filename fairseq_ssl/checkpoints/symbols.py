"""Embeddings found by the names of their words, for a model with another dictionary."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.text.vocabulary import RESERVED, read_entries


def symbols_of(path: Path | None, checkpoint: Path, flag: str) -> list[str]:
    """Read the symbols of the dictionary that a checkpoint was trained with.

    Args:
        path: the dictionary; None is rejected
        checkpoint: whose it is
        flag: that names it
    """
    if path is None:
        raise UsageError(f"Pass {flag} with the dictionary that {checkpoint} was trained with.")
    if not path.is_file():
        raise DataError(f"{path}, the dictionary of {checkpoint}, is missing. Name it with {flag}.")
    return [*RESERVED, *(word for word, _ in read_entries(path))]


def rows_by_symbol(
    weight: Tensor, known: Sequence[str], symbols: Sequence[str], start: Tensor
) -> tuple[Tensor, int]:
    """Return embeddings [symbols, dim], and how many of them were known.

    Args:
        weight: of the checkpoint [known or fewer, dim]
        known: its symbols, by id; a model may have embeddings of the first ones alone
        symbols: of the new dictionary, by id
        start: its embeddings, kept where the symbol is not known
    """
    rows = {symbol: row for row, symbol in enumerate(known[: len(weight)])}
    ids = [number for number, symbol in enumerate(symbols) if symbol in rows]
    found = start.detach().clone()
    found[ids] = weight[[rows[symbols[number]] for number in ids]].to(found)
    return found, len(ids)
