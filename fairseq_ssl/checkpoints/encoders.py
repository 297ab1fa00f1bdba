"""The weights of an encoder for a model with another dictionary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from fairseq_ssl.checkpoints.reading import architecture, weights_below
from fairseq_ssl.checkpoints.symbols import rows_by_symbol, symbols_of
from fairseq_ssl.errors import DataError

PREFIX = "encoder."
EMBEDDING = "embed_tokens.weight"


def encoder_weights(
    state: Mapping[str, Any],
    path: Path,
    symbols: Sequence[str],
    start: Mapping[str, Tensor],
    dictionary: Path | None = None,
    embedding: str = EMBEDDING,
) -> tuple[dict[str, Tensor], int]:
    """Return the weights of an encoder, and how many of its words the checkpoint knew.

    Args:
        state: the checkpoint
        path: where it was read
        symbols: of the new dictionary, by id
        start: the encoder's state; words that the checkpoint lacks keep their embeddings
        dictionary: that of its source
        embedding: the weight of the words
    """
    found = weights_below(state, PREFIX)
    wrong = [
        name
        for name, weight in start.items()
        if name not in found or (name != embedding and found[name].shape != weight.shape)
    ]
    if wrong:
        raise DataError(
            f"{path}, a {architecture(dict(state))}, has no weight {PREFIX}{wrong[0]} as its "
            "options tell. Take another checkpoint of the run."
        )
    known = symbols_of(dictionary, path, "--classifier-encoder-dict")
    rows, count = rows_by_symbol(found[embedding], known, symbols, start[embedding])
    return {**{name: found[name] for name in start}, embedding: rows}, count
