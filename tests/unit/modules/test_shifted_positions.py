"""Shifted positions equal equation 6.2 of the thesis, written out."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from functools import cache

import pytest
import torch
from fairseq.modules import SinusoidalPositionalEmbedding

from fairseq_ssl.modules.positional_encoding import ShiftedSinusoidalPositions

PAD, DIM, MAX_SHIFT = 1, 16, 7

LEFT_PADDED = torch.tensor([[PAD, PAD, 5, 6, 7], [4, 5, 6, 7, 8], [PAD, PAD, PAD, PAD, 9]])
RIGHT_PADDED = torch.tensor([[5, 6, 7, PAD, PAD], [4, 5, 6, 7, 8]])


@cache
def plain_embedding(position: int) -> list[float]:
    """Compute fairseq's sinusoids of one position."""
    half = DIM // 2
    angles = [position * math.exp(-m * math.log(10000) / (half - 1)) for m in range(half)]
    return [math.sin(a) for a in angles] + [math.cos(a) for a in angles]


def plain_positions(tokens: torch.Tensor, shifts: list[int]) -> torch.Tensor:
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
    return ShiftedSinusoidalPositions(DIM, PAD, max_shift, size, warmup_updates=warmup).train()


def both_sides(warmup: int = 0) -> tuple[ShiftedSinusoidalPositions, ShiftedSinusoidalPositions]:
    """Return positions of an encoder, and of a decoder that follows it."""
    encoder, decoder = (layer(warmup=warmup) for _ in range(2))
    decoder.follow(encoder)
    return encoder, decoder


def shifts_of(positions: torch.Tensor, tokens: torch.Tensor) -> list[int]:
    """Return the only shift of each row with which equation 6.2 gives these positions."""
    every = range(MAX_SHIFT + 2)
    plain = torch.stack([plain_positions(tokens, [k] * len(tokens)) for k in every])
    fits = (plain - positions).abs().amax((2, 3)) < 1e-4
    assert fits.sum(0).eq(1).all()
    found: list[int] = fits.int().argmax(0).tolist()
    return found


@pytest.mark.parametrize("tokens", [LEFT_PADDED, RIGHT_PADDED], ids=["left", "right"])
def test_positions_equal_equation_6_2(tokens: torch.Tensor) -> None:
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
