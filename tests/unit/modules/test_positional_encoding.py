"""Shifted positions equal Kiyono (2022), eq. 6.2; relative attention equals loops over i, j."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
import torch
from fairseq.modules import SinusoidalPositionalEmbedding
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from fairseq_ssl.modules import positional_encoding as module
from fairseq_ssl.modules.positional_encoding import (
    ShiftedSinusoidalPositions,
    expand_distances,
    relative_attention,
    sum_by_distance,
)
from tests.unit.models.tiny_models import PAD

DIM, MAX_SHIFT = 16, 7
LEFT_PADDED = torch.tensor([[PAD, PAD, 5, 6, 7], [4, 5, 6, 7, 8], [PAD, PAD, PAD, PAD, 9]])
RIGHT_PADDED = torch.tensor([[5, 6, 7, PAD, PAD], [4, 5, 6, 7, 8]])


@cache
def plain_embedding(position: int) -> list[float]:
    """Compute fairseq's sinusoids of one position."""
    half = DIM // 2
    angles = [position * math.exp(-m * math.log(10000) / (half - 1)) for m in range(half)]
    return [math.sin(a) for a in angles] + [math.cos(a) for a in angles]


def plain_positions(tokens: Tensor, shifts: list[int]) -> Tensor:
    """Compute equation 6.2: the i-th real token has position i + k, counted from pad + 1."""
    rows = []
    for row, shift in zip(tokens.tolist(), shifts, strict=True):
        count, vectors = PAD, []
        for token in row:
            count += token != PAD
            vectors.append([0.0] * DIM if token == PAD else plain_embedding(count + shift))
        rows.append(vectors)
    return torch.tensor(rows)


def layer(
    max_shift: int = MAX_SHIFT, size: int = 32, warmup: int = 0
) -> ShiftedSinusoidalPositions:
    """Return a module in training mode."""
    return ShiftedSinusoidalPositions(DIM, PAD, max_shift, size, warmup_updates=warmup)


def both_sides(warmup: int = 0) -> tuple[ShiftedSinusoidalPositions, ShiftedSinusoidalPositions]:
    """Return positions of an encoder, and of a decoder that follows it."""
    encoder, decoder = (layer(warmup=warmup) for _ in range(2))
    decoder.follow(encoder)
    return encoder, decoder


def shifts_of(positions: Tensor, tokens: Tensor) -> list[int]:
    """Return the only shift of each row with which equation 6.2 gives these positions."""
    every = range(MAX_SHIFT + 2)
    plain = torch.stack([plain_positions(tokens, [k] * len(tokens)) for k in every])
    fits = (plain - positions).abs().amax((2, 3)) < 1e-4
    assert fits.sum(0).eq(1).all()
    found: list[int] = fits.int().argmax(0).tolist()
    return found


@pytest.mark.parametrize("tokens", [LEFT_PADDED, RIGHT_PADDED], ids=["left", "right"])
def test_positions_equal_equation_6_2(tokens: Tensor) -> None:
    torch.manual_seed(3)
    shifts = torch.randint(MAX_SHIFT + 1, (len(tokens), 1)).flatten().tolist()
    torch.manual_seed(3)
    torch.testing.assert_close(layer()(tokens), plain_positions(tokens, shifts), atol=1e-5, rtol=0)
    unshifted = plain_positions(tokens, [0] * len(tokens))
    torch.testing.assert_close(layer().eval()(tokens), unshifted, atol=1e-5, rtol=0)


@pytest.mark.parametrize(("warmup", "largest"), [(0, MAX_SHIFT), (20, 3)])
def test_shifts_are_uniform(warmup: int, largest: int) -> None:
    """Also during a warm-up: 7 * 9 / 20 = 3.15."""
    tokens = torch.full((8000, 1), 5)
    encoder, decoder = both_sides(warmup)
    for side in (encoder, decoder):
        side.set_num_updates(9)
    torch.manual_seed(1)
    encoder(tokens)
    first_sine = decoder(tokens)[:, 0, 0]
    expected = torch.tensor([math.sin(PAD + 1 + k) for k in range(largest + 1)])
    counts = (first_sine[:, None] - expected).abs().lt(1e-4).sum(0)
    assert counts.sum() == 8000
    mean = 8000 / (largest + 1)
    assert (counts - mean).abs().max() < 4 * mean**0.5


def test_max_shift_0_equals_fairseq_and_draws_no_random_numbers() -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    got = layer(max_shift=0)(LEFT_PADDED)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(got, SinusoidalPositionalEmbedding(DIM, PAD, 32)(LEFT_PADDED))


def test_table_is_extended_for_long_sequences() -> None:
    tokens = torch.full((2, 100), 5)
    torch.manual_seed(2)
    short = layer(size=4)(tokens)
    torch.manual_seed(2)
    assert torch.equal(short, layer(size=200)(tokens))


def test_padding_is_zero_and_half_precision_is_preserved() -> None:
    got = layer().half()(LEFT_PADDED)
    assert got.dtype == torch.float16
    assert not got[LEFT_PADDED == PAD].any()
    assert "weights" not in layer().state_dict(), "the table is computed, not stored"


def test_both_sides_of_an_item_share_the_shift_of_the_encoder() -> None:
    encoder, decoder = both_sides()
    alone, target = layer(), LEFT_PADDED.flip(1)
    for seed in range(3):
        torch.manual_seed(seed)
        expected = shifts_of(alone(LEFT_PADDED), LEFT_PADDED)
        torch.manual_seed(seed)
        assert shifts_of(encoder(LEFT_PADDED), LEFT_PADDED) == expected
        state = torch.get_rng_state()
        assert shifts_of(decoder(target), target) == expected
        assert shifts_of(decoder(target[:, :3]), target[:, :3]) == expected, "the same source"
        assert torch.equal(torch.get_rng_state(), state), "the decoder draws no random numbers"
        assert len(set(expected)) > 1, "each item has its own shift"


def test_a_copy_of_both_sides_shares_its_own_shift() -> None:
    """As the copy of a model for exponential moving averages."""
    sides = both_sides()
    encoder, decoder = copy.deepcopy(sides)
    torch.manual_seed(6)
    expected = shifts_of(encoder(LEFT_PADDED), LEFT_PADDED)
    sides[0](LEFT_PADDED)
    assert shifts_of(decoder(LEFT_PADDED), LEFT_PADDED) == expected


def test_no_shift_in_evaluation_and_incremental_decoding() -> None:
    encoder, decoder = both_sides()
    encoder(LEFT_PADDED)
    for side in (encoder, decoder):
        step = side(torch.tensor([[4, 5, 6]]), incremental_state={})
        torch.testing.assert_close(step[0, 0], torch.tensor(plain_embedding(PAD + 3)))
        assert shifts_of(side.eval()(LEFT_PADDED), LEFT_PADDED) == [0, 0, 0]
    assert shifts_of(decoder.train()(LEFT_PADDED), LEFT_PADDED) == [0, 0, 0], "as the source"


def drawn_by_update(warmup: int, updates: Sequence[int]) -> list[list[int]]:
    """Return the shifts of updates, each seeded as in fairseq's trainer: seed + update."""
    tokens = torch.full((40, 2), 5)
    encoder, found = layer(warmup=warmup), []
    for update in updates:
        torch.manual_seed(11 + update)
        encoder.set_num_updates(update)
        found.append(shifts_of(encoder(tokens), tokens))
    return found


def test_the_warm_up_grows_linearly_and_resumes_with_the_same_shifts() -> None:
    whole = drawn_by_update(14, range(20))
    assert [max(shifts) for shifts in whole[::2]] == [0, 1, 2, 3, 4, 5, 6, 7, 7, 7]
    assert drawn_by_update(14, range(9, 20)) == whole[9:]
    encoder = layer(warmup=5)
    for update, expected in enumerate([0, 1, 2, 4, 5, 7, 7]):
        encoder.set_num_updates(update)
        assert encoder.current_max_shift == expected


HEAD_DIM = 3


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
    return [torch.randn(*size, HEAD_DIM, dtype=torch.double, requires_grad=True) for size in sizes]


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
    assert max(kept) <= 2 * 300 * HEAD_DIM


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
