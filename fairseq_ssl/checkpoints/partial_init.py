"""Initialization of a model from the encoder, the decoder or the embeddings of a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fairseq_ssl.checkpoints.files import (
    architecture,
    model_options,
    read_checkpoint,
    weight_difference,
    weights_below,
)
from fairseq_ssl.errors import ConfigurationError, DataError, UsageError, flag
from fairseq_ssl.text.vocabulary import RESERVED, read_entries


def symbol_rows(
    path: Path | None, checkpoint: Path, flag: str, embeddings: Tensor
) -> dict[str, int]:
    """Return each symbol's row in a checkpoint's embeddings: the symbol's id in the dictionary.

    Args:
        path: dictionary file. None raises UsageError.
        checkpoint: the checkpoint, for error messages.
        flag: option that sets the dictionary, for error messages.
        embeddings: embeddings of the checkpoint, with at most one row per symbol.
    """
    if path is None:
        raise UsageError(f"{flag} is not set. Expected the dictionary of {checkpoint}.")
    if not path.is_file():
        raise DataError(f"{path} does not exist. Set {flag} to the dictionary of {checkpoint}.")
    symbols = [*RESERVED, *(word for word, _ in read_entries(path))]
    if len(symbols) < len(embeddings):
        raise DataError(
            f"The dictionary {path} has {len(symbols)} symbols but {checkpoint} has "
            f"{len(embeddings)} embeddings. Set {flag} to the dictionary of the checkpoint."
        )
    return {symbol: row for row, symbol in enumerate(symbols[: len(embeddings)])}


def rows_by_symbol(
    weight: Tensor, rows: Mapping[str, int], symbols: Sequence[str], start: Tensor
) -> tuple[Tensor, int]:
    """Return embeddings [symbols, dim] for a new dictionary, and the number of copied rows.

    Args:
        weight: embeddings of the checkpoint [rows, dim].
        rows: row of each symbol in `weight`.
        symbols: symbols of the new dictionary, by id.
        start: initial embeddings [symbols, dim], kept for symbols that are not in `rows`.
    """
    ids = [index for index, symbol in enumerate(symbols) if symbol in rows]
    embeddings = start.detach().clone()
    embeddings[ids] = weight[[rows[symbols[index]] for index in ids]].to(embeddings)
    return embeddings, len(ids)


ENCODER_PREFIX = "encoder."


def classifier_encoder_weights(
    path: Path,
    symbols: Sequence[str],
    start: Mapping[str, Tensor],
    dictionary: Path | None,
    embedding: str,
) -> tuple[dict[str, Tensor], int]:
    """Return encoder weights from a checkpoint, and the number of embeddings copied from it.

    Args:
        path: the checkpoint.
        symbols: symbols of the new dictionary, by id.
        start: state dict of the new encoder, with initial embeddings for symbols that are unknown
            to the checkpoint.
        dictionary: source dictionary of the checkpoint. None raises UsageError.
        embedding: name of the embedding weight.
    """
    state = read_checkpoint(path)
    weights = weights_below(state, ENCODER_PREFIX)
    wrong = [
        name
        for name, weight in start.items()
        if name not in weights or (name != embedding and weights[name].shape != weight.shape)
    ]
    if wrong:
        raise DataError(
            f"{path} contains no weight {ENCODER_PREFIX}{wrong[0]} with the shape that the stored "
            f"options of the {architecture(state)} require. Use another checkpoint of the run."
        )
    rows = symbol_rows(dictionary, path, "--classifier-encoder-dict", weights[embedding])
    initial, count = rows_by_symbol(weights[embedding], rows, symbols, start[embedding])
    return {**{name: weights[name] for name in start}, embedding: initial}, count


DECODER_PREFIX = "decoder.encoder."
DECODER_EMBEDDING = "embedding.weight"
SIZES = ("embed_dim", "hidden_dim", "layers")


def recurrent_encoder_weights(
    path: Path, symbols: Sequence[str], start: Mapping[str, Tensor], dictionary: Path | None
) -> tuple[dict[str, Tensor], int]:
    """Return encoder weights from a language model, and the number of embeddings copied from it.

    Args:
        path: checkpoint of a recurrent_lm.
        symbols: symbols of the classifier's dictionary, by id.
        start: state dict of the encoder, with initial embeddings for symbols that are unknown to
            the language model.
        dictionary: dictionary of the language model. None raises UsageError.
    """
    state = read_checkpoint(path)
    if not architecture(state).startswith("recurrent_lm"):
        raise ConfigurationError(
            f"{path} contains a model of the architecture {architecture(state)}. Expected a "
            "recurrent_lm, trained with --task language_modeling."
        )
    weights = weights_below(state, DECODER_PREFIX)
    wrong = [
        name
        for name in start
        if name not in (DECODER_EMBEDDING, "embedding.shares")
        and (name not in weights or weights[name].shape != start[name].shape)
    ]
    if wrong or weights[DECODER_EMBEDDING].shape[1:] != start[DECODER_EMBEDDING].shape[1:]:
        options = model_options(state)
        sizes = " ".join(
            f"{flag(f'recurrent_{name}')} {options.get(f'recurrent_{name}')}" for name in SIZES
        )
        raise ConfigurationError(
            f"The sizes of the classifier do not match the language model in {path}. Set {sizes}."
        )
    is_normalized = ["embedding.shares" in names for names in (start, weights)]
    if is_normalized[0] != is_normalized[1]:
        change = "Remove" if is_normalized[0] else "Add"
        raise ConfigurationError(
            f"The classifier and the language model in {path} must agree on whether embeddings are "
            f"normalized. {change} --recurrent-normalize-embeddings."
        )
    rows = symbol_rows(dictionary, path, "--classifier-lm-dict", weights[DECODER_EMBEDDING])
    embedding, count = rows_by_symbol(
        weights[DECODER_EMBEDDING], rows, symbols, start[DECODER_EMBEDDING]
    )
    layers = {name: weights[name] for name in start if name.startswith("lstm.")}
    return {**layers, DECODER_EMBEDDING: embedding}, count


def load_side(model: Any, side: str, weights: dict[str, Tensor], path: Path) -> int:
    """Load the encoder or the decoder from a checkpoint. Return the number of tensors loaded.

    Shared weights, such as tied embeddings, change on both sides. Raise DataError if names or
    shapes differ.

    Args:
        model: the model to initialize.
        side: ``encoder`` or ``decoder``.
        weights: all model weights in the checkpoint, by name.
        path: path of the checkpoint, for error messages.
    """
    known = {name: weight for name, weight in weights.items() if name.startswith(f"{side}.")}
    ours = {
        name: weight for name, weight in model.state_dict().items() if name.startswith(f"{side}.")
    }
    if difference := weight_difference(known, ours):
        raise DataError(
            f"The {side} of {path} does not match this model: {difference}. Train with the "
            "architecture, sizes and dictionary of that checkpoint."
        )
    with torch.no_grad():
        for name, weight in ours.items():
            weight.copy_(known[name])
    return len(ours)
