"""Outputs and gradients of relative attention equal loops over i and j."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from fairseq_ssl.modules import positional_encoding as module
from fairseq_ssl.modules.positional_encoding import (
    expand_distances,
    relative_attention,
    sum_by_distance,
)

DIM = 3


def clip(distance: int, limit: int) -> int:
    return max(-limit, min(limit, distance))


def slow(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    key_table: Tensor,
    value_table: Tensor,
    *,
    future: Tensor | None = None,
    pads: Tensor | None = None,
) -> Tensor:
    """Compute equations 3 and 4 of Shaw et al. (2018), one pair (i, j) at a time."""
    limit, first = len(key_table) // 2, k.size(1) - q.size(1)
    out = []
    for row in range(len(q)):
        for i in range(q.size(1)):
            scores, values = [], []
            for j in range(k.size(1)):
                a = clip(j - (first + i), limit) + limit
                score = q[row, i] @ (k[row, j] + key_table[a])
                hidden = (future is not None and future[i, j] < 0) or (
                    pads is not None and bool(pads[row, j])
                )
                scores.append(score - torch.inf if hidden else score)
                values.append(v[row, j] + value_table[a])
            weights = torch.stack(scores).softmax(0)
            out.append(weights @ torch.stack(values))
    return torch.stack(out).view_as(q)


def draw(rows: int, queries: int, keys: int, limit: int, seed: int = 1) -> list[Tensor]:
    """Return random queries, keys, values and two tables, in double precision."""
    torch.manual_seed(seed)
    sizes = [(rows, queries), (rows, keys), (rows, keys), (2 * limit + 1,), (2 * limit + 1,)]
    return [torch.randn(*size, DIM, dtype=torch.double, requires_grad=True) for size in sizes]


def attend(tensors: Sequence[Tensor], **options: Any) -> Tensor:
    query, key, value, key_table, value_table = tensors
    return relative_attention(query, key, value, key_table, value_table, **options)


def hidden(rows: int, queries: int, keys: int) -> tuple[Tensor, Tensor]:
    """Return a causal mask, and padding at the end of every second row."""
    future = torch.full((queries, keys), -torch.inf).triu(keys - queries + 1)
    pads = torch.zeros(rows, keys, dtype=torch.bool)
    pads[::2, 1 + keys // 2 :] = True
    return future, pads


SHAPES = [(7, 7, 2), (5, 5, 9), (1, 6, 2), (3, 6, 4), (1, 1, 3), (6, 6, 6), (6, 6, 5)]


@pytest.mark.parametrize("masked", ["", "future", "pads", "future pads"])
@pytest.mark.parametrize(("queries", "keys", "limit"), SHAPES)
def test_outputs_and_gradients_equal_the_reference(
    queries: int, keys: int, limit: int, masked: str
) -> None:
    given_ = draw(4, queries, keys, limit)
    masks = dict(zip(("future", "pads"), hidden(4, queries, keys), strict=True))
    masks = {name: mask for name, mask in masks.items() if name in masked}
    fast, reference = attend(given_, **masks), slow(*given_, **masks)
    torch.testing.assert_close(fast, reference)
    compare_gradients(fast, reference, given_)


def compare_gradients(fast: Tensor, reference: Tensor, inputs: Sequence[Tensor]) -> None:
    upstream = torch.randn_like(fast)
    ours = torch.autograd.grad(fast, inputs, upstream)
    theirs = torch.autograd.grad(reference, inputs, upstream)
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other)


def test_shared_table_sums_both_gradients() -> None:
    q, k, v, table, _ = draw(2, 6, 6, 2)
    fast, reference = relative_attention(q, k, v, table, table), slow(q, k, v, table, table)
    compare_gradients(fast, reference, [q, k, v, table])


def test_result_does_not_depend_on_the_block_size(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = draw(5, 6, 6, 2)
    future, pads = hidden(5, 6, 6)
    whole = attend(inputs, future=future, pads=pads)
    monkeypatch.setitem(module.MAX_SCORES, "cpu", 2 * 36)
    in_blocks = attend(inputs, future=future, pads=pads)
    torch.testing.assert_close(in_blocks, whole)
    compare_gradients(in_blocks, whole, inputs)


def test_dropout_drops_pairs_and_rescales() -> None:
    keys, limit, rate = 30, 2, 0.4
    flat, ones = torch.zeros(2, keys, 1), torch.ones(2, keys, 1)
    no_table = torch.zeros(2 * limit + 1, 1)
    torch.manual_seed(3)
    kept = torch.empty(2, keys, keys, dtype=torch.bool).bernoulli_(rate).logical_not()
    assert 0.5 < kept.float().mean() < 0.7
    torch.manual_seed(3)
    shares = relative_attention(flat, flat, ones, no_table, no_table, dropout=rate)
    torch.testing.assert_close(shares, kept.float().mean(-1, keepdim=True) / (1 - rate))


def test_gradient_uses_the_same_dropout_mask() -> None:
    inputs = draw(2, 5, 5, 2)

    def seeded(*tensors: Tensor) -> Tensor:
        torch.manual_seed(5)
        return attend(tensors, dropout=0.5)

    assert torch.autograd.gradcheck(seeded, inputs)


@given(
    st.integers(1, 9), st.integers(0, 9), st.integers(1, 6), st.integers(1, 3), st.integers(0, 99)
)
def test_expand_and_sum_are_adjoint(
    queries: int, more: int, limit: int, rows: int, seed: int
) -> None:
    torch.manual_seed(seed)
    keys = queries + more
    by_distance = torch.randn(rows, queries, 2 * limit + 1, dtype=torch.double)
    by_key = torch.randn(rows, queries, keys, dtype=torch.double)
    laid_out = expand_distances(by_distance, keys)
    torch.testing.assert_close(
        (laid_out * by_key).sum(), (by_distance * sum_by_distance(by_key, limit)).sum()
    )
    for i in range(queries):
        for j in range(keys):
            distance = clip(j - i - more, limit) + limit
            assert torch.equal(laid_out[:, i, j], by_distance[:, i, distance])


def test_no_quadratic_tensor_is_saved_for_the_gradient() -> None:
    inputs = draw(2, 300, 300, 4)
    kept: list[int] = []

    def note(tensor: Tensor) -> Tensor:
        kept.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        attend(inputs)
    assert kept
    assert max(kept) <= 2 * 300 * DIM


def test_masks_of_inference_can_be_used_in_training() -> None:
    module._is_right.cache_clear()
    module._ends.cache_clear()
    tensors = draw(rows=2, queries=5, keys=5, limit=2)
    with torch.inference_mode():
        expected = attend(tensors)
    out = attend(tensors)
    assert torch.equal(out, expected)
    torch.autograd.grad(out.sum(), tensors)
    assert module._ends.cache_info().hits > 0
    assert not module._ends(2, 5, 5, tensors[0].device, tensors[0].dtype).is_inference()
