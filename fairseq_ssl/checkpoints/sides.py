"""One side of a model, encoder or decoder, from a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fairseq_ssl.errors import DataError


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
