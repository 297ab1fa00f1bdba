"""The weights of a recurrent language model for a classifier with another dictionary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from torch import Tensor

from fairseq_ssl.checkpoints.reading import architecture, model_options, read, weights_below
from fairseq_ssl.checkpoints.symbols import rows_by_symbol, symbols_of
from fairseq_ssl.errors import ConfigurationError, DataError, flag

PREFIX = "decoder.encoder."
EMBEDDING = "embedding.weight"
SIZES = ("embed_dim", "hidden_dim", "layers")


def encoder_weights(
    path: Path,
    symbols: Sequence[str],
    start: Mapping[str, Tensor],
    dictionary: Path | None = None,
) -> tuple[dict[str, Tensor], int]:
    """Return the weights of a classifier's encoder, and how many of its words the model knew.

    Args:
        path: checkpoint of a recurrent_lm
        symbols: of the classifier's dictionary, by id
        start: the encoder's state; words that the language model lacks keep their embeddings
        dictionary: that of the language model
    """
    state = read(path)
    if not architecture(state).startswith("recurrent_lm"):
        raise ConfigurationError(
            f"{path} holds a {architecture(state)}; expected a recurrent_lm, trained with --task "
            "language_modeling."
        )
    found = weights_below(state, PREFIX)
    wrong = [
        name
        for name in start
        if name not in (EMBEDDING, "embedding.shares")
        and (name not in found or found[name].shape != start[name].shape)
    ]
    if wrong or found[EMBEDDING].shape[1:] != start[EMBEDDING].shape[1:]:
        options = model_options(state)
        sizes = " ".join(
            f"{flag(f'recurrent_{name}')} {options.get(f'recurrent_{name}')}" for name in SIZES
        )
        raise ConfigurationError(
            f"The language model in {path} has other sizes than the classifier. Set {sizes}."
        )
    known = symbols_of(dictionary, path, "--classifier-lm-dict")
    if len(known) != len(found[EMBEDDING]):
        raise DataError(
            f"The dictionary of {path} has {len(known)} symbols and its embeddings "
            f"{len(found[EMBEDDING])} rows. Name the dictionary that it was trained with."
        )
    embedding, count = rows_by_symbol(found[EMBEDDING], known, symbols, start[EMBEDDING])
    taken = {name: found[name] for name in start if name.startswith("lstm.")}
    return {**taken, EMBEDDING: embedding}, count
