"""Reference implementation of PoDA, equation 3, in loops over sentences, positions and words."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def probabilities(
    logits: Tensor, alpha: Tensor, gate: Tensor, source: list[list[int]], vocabulary: int
) -> list[list[dict[int, Tensor]]]:
    """Return p(w) by sentence, position and word id of the data.

    Args:
        logits: [batch, time, vocabulary]
        alpha: [batch, time, source time], sums to 1 over the words of each source
        gate: [batch, time], the logit of p_gen
        source: ids of the sources in the data
        vocabulary: number of words with a logit
    """
    result = []
    for b, words in enumerate(source):
        sentence = []
        for t in range(logits.size(1)):
            generate = torch.sigmoid(gate[b, t])
            softmax = torch.softmax(logits[b, t], 0)
            p = {w: generate * softmax[w] for w in range(vocabulary)}
            for i, w in enumerate(words):
                p[w] = p.get(w, torch.zeros((), dtype=p[0].dtype))
                p[w] = p[w] + (1 - generate) * alpha[b, t, i]
            sentence.append(p)
        result.append(sentence)
    return result


def attention(
    states: Tensor, encoded: Tensor, query: Tensor, bias: Tensor, key: Tensor, heads: int
) -> Tensor:
    """Return alpha [time, source time] of one sentence without padding.

    Args:
        states: [time, dim]
        encoded: [source time, encoder dim]
        query: [dim, dim], the weight of the query projection
        bias: [dim], the bias of the query projection
        key: [dim, encoder dim], the weight of the key projection
        heads: number of heads, over which the result is averaged
    """
    size = len(query) // heads
    total = torch.zeros(len(states), len(encoded), dtype=states.dtype)
    for head in range(heads):
        part = slice(head * size, (head + 1) * size)
        for t, state in enumerate(states):
            asks = (query @ state + bias)[part]
            scores = torch.stack([asks @ (key @ there)[part] for there in encoded])
            total[t] += torch.softmax(scores / math.sqrt(size), 0) / heads
    return total
