"""Reference implementation of the edit-factorized encoder: 3T x 3T attention with a mask (PIE)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from fairseq_ssl.modules.edit_layers import EditEncoder, EditLayer, EditScores


def encoded(encoder: EditEncoder, tokens: list[int]) -> tuple[Tensor, Tensor, Tensor]:
    """Return h, r and a [time, dim] of one sentence without padding."""
    time = len(tokens)
    table = encoder.positions.weight
    last = len(table) - 1
    rows = [encoder.tokens.weight[token] + table[place] for place, token in enumerate(tokens)]
    rows += [encoder.mask + table[place] for place in range(time)]
    rows += [
        encoder.mask + (table[place] + table[min(place + 1, last)]) / 2 for place in range(time)
    ]
    states = encoder.norm(torch.stack(rows))
    for layer in encoder.layers:
        states = _layer(layer, states, allowed(time))
    h, r, a = states.split(time)
    return h, r, a


def allowed(time: int) -> Tensor:
    """Return the mask of PIE, figure 2 [3 * time, 3 * time], True if a row attends to a column."""
    mask = torch.zeros(3 * time, 3 * time, dtype=torch.bool)
    for query in range(3 * time):
        kind, place = divmod(query, time)
        for key in range(time):
            mask[query, key] = not (kind == 1 and key == place)
        mask[query, query] = True
    return mask


def _layer(layer: nn.Module, states: Tensor, mask: Tensor) -> Tensor:
    dim = states.size(1)
    assert isinstance(layer, EditLayer)
    size = dim // layer.heads
    query, key, value = layer.in_proj(states).split(dim, dim=1)
    heads = []
    for head in range(layer.heads):
        part = slice(head * size, (head + 1) * size)
        scores = query[:, part] @ key[:, part].T / math.sqrt(size)
        heads.append(scores.masked_fill(~mask, -math.inf).softmax(1) @ value[:, part])
    states = layer.attention_norm(states + layer.out_proj(torch.cat(heads, dim=1)))
    inner = layer.fc2(functional.gelu(layer.fc1(states)))
    last: Tensor = layer.final_norm(states + inner)
    return last


def logits(
    scores: EditScores, embeddings: Tensor, grams: list[list[int]], token: int, *states: Tensor
) -> list[Tensor]:
    """Return the scores of PIE, equation 3, for one token."""
    h, r, a = states
    theta, bias = scores.edits.weight, scores.edits.bias

    def head(state: Tensor) -> Tensor:
        seen: Tensor = scores.transform_norm(functional.gelu(scores.transform(state)))
        return seen

    def phi(gram: list[int]) -> Tensor:
        return sum((embeddings[one] for one in gram), torch.zeros(embeddings.size(1)))

    own = embeddings[token]
    copy = own @ head(h)
    found = [theta[0] @ h + bias[0] + copy, theta[1] @ h + bias[1]]
    for number, gram in enumerate(grams, 2):
        found.append(theta[number] @ h + bias[number] + copy + phi(gram) @ head(a))
    for number, gram in enumerate(grams, 2 + len(grams)):
        found.append(theta[number] @ h + bias[number] + (phi(gram) - own) @ head(r))
    for number in range(2 + 2 * len(grams), len(theta)):
        found.append(theta[number] @ h + bias[number] + copy)
    return found
