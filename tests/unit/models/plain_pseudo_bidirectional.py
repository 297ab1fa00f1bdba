"""Reference implementation of pseudo-bidirectional decoding, one position and head at a time.

It shares only the weights with the model. Norms are at the end of each sublayer, or with `before`
at its beginning.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


def consumed_source(source: list[int], prefix: list[int]) -> int:
    """Return the length of the source prefix with the minimum edit distance to `prefix`.

    Ties are broken by the difference of the lengths, then in favor of the shorter one.
    """

    @cache
    def distance(written: int, read: int) -> int:
        if written == 0 or read == 0:
            return written + read
        return min(
            distance(written - 1, read) + 1,
            distance(written, read - 1) + 1,
            distance(written - 1, read - 1) + (prefix[written - 1] != source[read - 1]),
        )

    end = len(prefix)
    return min(range(len(source) + 1), key=lambda j: (distance(end, j), abs(j - end), j))


class Plain:
    """Compute the scores of a model for one source and one target, as in PBD, section 3."""

    def __init__(
        self, model: Any, layer: str, heads: int, before: bool, aligned: bool = False
    ) -> None:
        self.weights: dict[str, Tensor] = dict(model.named_parameters())
        self.layers = len(model.encoder.layers)
        self.copies_output = layer == "output"
        self.is_shared = model.decoder.is_shared
        self.has_future = model.decoder.has_future
        self.heads, self.before, self.aligned = heads, before, aligned
        self.table: Tensor = model.encoder.embed_positions.weights

    def scores(self, source: list[int], previous: list[int]) -> Tensor:
        """Return logits [target time, vocabulary] for ids without padding."""
        between = [self.embedded(source)]
        for i in range(self.layers):
            between.append(self.encoded(f"encoder.layers.{i}.", between[-1]))
        memory = between[-1]
        if self.before:
            memory = self.norm("encoder.layer_norm.", memory)
        target = self.embedded(previous)
        begins = list(range(len(previous)))
        if self.aligned:
            begins = [consumed_source(source, previous[1 : t + 1]) for t in begins]
        for i in range(self.layers):
            copied = between[i + 1] if self.copies_output else between[i]
            target = self.decoded(i, target, copied, memory, begins)
        if self.before:
            target = self.norm(
                "encoder.layer_norm." if self.is_shared else "decoder.layer_norm.", target
            )
        return target @ self.weights["encoder.embed_tokens.weight"].T

    def embedded(self, tokens: list[int]) -> Tensor:
        rows = self.weights["encoder.embed_tokens.weight"]
        scale = math.sqrt(rows.size(1))
        padding = 1
        return torch.stack(
            [rows[t] * scale + self.table[padding + 1 + at] for at, t in enumerate(tokens)]
        )

    def encoded(self, name: str, states: Tensor) -> Tensor:
        entered = self.enter(name + "self_attn_layer_norm.", states)
        found = [self.attended(name + "self_attn.", query, entered) for query in entered]
        states = self.leave(name + "self_attn_layer_norm.", states, torch.stack(found))
        return self.transformed(name, states)

    def decoded(
        self, i: int, states: Tensor, copied: Tensor, memory: Tensor, begins: list[int]
    ) -> Tensor:
        own = f"decoder.layers.{i}."
        name = f"encoder.layers.{i}." if self.is_shared else f"decoder.blocks.{i}."
        entered = self.enter(name + "self_attn_layer_norm.", states)
        future = self.enter(name + "self_attn_layer_norm.", copied)
        if self.has_future:
            generated, came_from_source = self.weights[own + "segments"]
            entered, future = entered + generated, future + came_from_source
        found = []
        for t, query in enumerate(entered):
            seen = [entered[s] for s in range(t + 1)]
            if self.has_future:
                seen += [future[j] for j in range(len(future)) if j > begins[t]]
            found.append(self.attended(name + "self_attn.", query, torch.stack(seen)))
        states = self.leave(name + "self_attn_layer_norm.", states, torch.stack(found))
        entered = self.enter(own + "encoder_attn_layer_norm.", states)
        found = [self.attended(own + "encoder_attn.", query, memory) for query in entered]
        states = self.leave(own + "encoder_attn_layer_norm.", states, torch.stack(found))
        return self.transformed(name, states)

    def attended(self, name: str, query: Tensor, others: Tensor) -> Tensor:
        weight, bias = self.parameters(name + "in_proj.")
        (wq, wk, wv), (bq, bk, bv) = weight.chunk(3), bias.chunk(3)
        q, keys, values = wq @ query + bq, others @ wk.T + bk, others @ wv.T + bv
        width = len(q) // self.heads
        heads = []
        for head in range(self.heads):
            part = slice(head * width, (head + 1) * width)
            shares = torch.softmax(keys[:, part] @ q[part] / math.sqrt(width), 0)
            heads.append(shares @ values[:, part])
        return self.linear(name + "out_proj.", torch.cat(heads))

    def transformed(self, name: str, states: Tensor) -> Tensor:
        inner = torch.relu(
            self.linear(name + "fc1.", self.enter(name + "final_layer_norm.", states))
        )
        return self.leave(name + "final_layer_norm.", states, self.linear(name + "fc2.", inner))

    def linear(self, name: str, states: Tensor) -> Tensor:
        return functional.linear(states, *self.parameters(name))

    def enter(self, name: str, states: Tensor) -> Tensor:
        return self.norm(name, states) if self.before else states

    def leave(self, name: str, states: Tensor, change: Tensor) -> Tensor:
        return states + change if self.before else self.norm(name, states + change)

    def norm(self, name: str, states: Tensor) -> Tensor:
        return functional.layer_norm(states, states.shape[-1:], *self.parameters(name))

    def parameters(self, name: str) -> tuple[Tensor, Tensor]:
        return self.weights[name + "weight"], self.weights[name + "bias"]
