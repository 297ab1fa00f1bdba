"""Initialization of a model from parts of a checkpoint: encoder, decoder, or known words."""

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
    weights_below,
)
from fairseq_ssl.errors import ConfigurationError, DataError, UsageError, flag
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


ENCODER_PREFIX = "encoder."
ENCODER_EMBEDDING = "embed_tokens.weight"


def classifier_encoder_weights(
    state: Mapping[str, Any],
    path: Path,
    symbols: Sequence[str],
    start: Mapping[str, Tensor],
    dictionary: Path | None = None,
    embedding: str = ENCODER_EMBEDDING,
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
    found = weights_below(state, ENCODER_PREFIX)
    wrong = [
        name
        for name, weight in start.items()
        if name not in found or (name != embedding and found[name].shape != weight.shape)
    ]
    if wrong:
        raise DataError(
            f"{path}, a {architecture(dict(state))}, has no weight "
            f"{ENCODER_PREFIX}{wrong[0]}, which its options require. "
            "Use another checkpoint of the run."
        )
    known = symbols_of(dictionary, path, "--classifier-encoder-dict")
    rows, count = rows_by_symbol(found[embedding], known, symbols, start[embedding])
    return {**{name: found[name] for name in start}, embedding: rows}, count


DECODER_PREFIX = "decoder.encoder."
DECODER_EMBEDDING = "embedding.weight"
SIZES = ("embed_dim", "hidden_dim", "layers")


def recurrent_encoder_weights(
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
    state = read_checkpoint(path)
    if not architecture(state).startswith("recurrent_lm"):
        raise ConfigurationError(
            f"{path} holds a {architecture(state)}; expected a recurrent_lm, trained with --task "
            "language_modeling."
        )
    found = weights_below(state, DECODER_PREFIX)
    wrong = [
        name
        for name in start
        if name not in (DECODER_EMBEDDING, "embedding.shares")
        and (name not in found or found[name].shape != start[name].shape)
    ]
    if wrong or found[DECODER_EMBEDDING].shape[1:] != start[DECODER_EMBEDDING].shape[1:]:
        options = model_options(state)
        sizes = " ".join(
            f"{flag(f'recurrent_{name}')} {options.get(f'recurrent_{name}')}" for name in SIZES
        )
        raise ConfigurationError(
            f"The language model in {path} has other sizes than the classifier. Set {sizes}."
        )
    known = symbols_of(dictionary, path, "--classifier-lm-dict")
    if len(known) != len(found[DECODER_EMBEDDING]):
        raise DataError(
            f"The dictionary of {path} has {len(known)} symbols and its embeddings "
            f"{len(found[DECODER_EMBEDDING])} rows. Name the dictionary that it was trained with."
        )
    embedding, count = rows_by_symbol(
        found[DECODER_EMBEDDING], known, symbols, start[DECODER_EMBEDDING]
    )
    taken = {name: found[name] for name in start if name.startswith("lstm.")}
    return {**taken, DECODER_EMBEDDING: embedding}, count


def load_side(model: Any, side: str, weights: dict[str, Tensor], path: Path) -> int:
    """Let `model.encoder` or `model.decoder` start from a checkpoint, and return how many weights.

    What both sides share, as tied embeddings, comes along.

    Args:
        model: that starts
        side: encoder or decoder
        weights: of the model in the checkpoint
        path: of the checkpoint, to tell what does not fit
    """
    known = {name: weight for name, weight in weights.items() if name.startswith(f"{side}.")}
    ours = {
        name: weight for name, weight in model.state_dict().items() if name.startswith(f"{side}.")
    }
    missing = sorted(ours.keys() ^ known.keys())
    other = [name for name in ours if name in known and ours[name].shape != known[name].shape]
    if missing or other:
        difference = (
            f"only one of them has the weight {missing[0]!r}"
            if missing
            else f"{other[0]!r} is of shape {tuple(known[other[0]].shape)} there and of "
            f"{tuple(ours[other[0]].shape)} here"
        )
        raise DataError(
            f"The {side} of {path} does not fit this model: {difference}. Train with the "
            "architecture, sizes and dictionary of that checkpoint."
        )
    with torch.no_grad():
        for name, weight in ours.items():
            weight.copy_(known[name])
    return len(ours)
