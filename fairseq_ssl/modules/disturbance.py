"""Disturbances of embeddings, of a given length (Miyato et al., 2017)."""

from __future__ import annotations

import torch
from torch import Tensor


def of_length(direction: Tensor, length: float, is_word: Tensor, by_token: bool = False) -> Tensor:
    """Return what has this direction and this length, without a gradient [batch, time, dim].

    Nothing depends on how long `direction` is: it is divided by its largest number first, so
    that a gradient of 1e-30, or one scaled for half precision, gives the same. Where it is 0
    throughout, so is the disturbance.

    Args:
        direction: [batch, time, dim]
        length: in the Euclidean norm, of all words of a text together
        is_word: [batch, time]: places that are no padding, where the others stay 0
        by_token: give each word this length, in place of the text
    """
    dims = (2,) if by_token else (1, 2)
    found = direction.detach().float().masked_fill(~is_word.unsqueeze(-1), 0.0)
    largest = found.abs().amax(dims, keepdim=True)
    found = found / torch.where(largest > 0, largest, 1.0)
    norm = found.square().sum(dims, keepdim=True).sqrt()
    return (length * found / norm.clamp(min=1.0)).type_as(direction)
