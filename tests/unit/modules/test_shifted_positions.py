"""Shifted positions equal equation 6.2 of the thesis, written out."""

from __future__ import annotations

import math

import pytest
import torch
from fairseq.modules import SinusoidalPositionalEmbedding

from fairseq_ssl.modules.positional_encoding import ShiftedSinusoidalPositions

PAD, DIM, MAX_SHIFT = 1, 16, 7

LEFT_PADDED = torch.tensor([[PAD, PAD, 5, 6, 7], [4, 5, 6, 7, 8], [PAD, PAD, PAD, PAD, 9]])
RIGHT_PADDED = torch.tensor([[5, 6, 7, PAD, PAD], [4, 5, 6, 7, 8]])


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


def layer(max_shift: int = MAX_SHIFT, size: int = 32) -> ShiftedSinusoidalPositions:
    return ShiftedSinusoidalPositions(DIM, PAD, max_shift, size)


@pytest.mark.parametrize("tokens", [LEFT_PADDED, RIGHT_PADDED], ids=["left", "right"])
def test_training_equals_equation_6_2(tokens: torch.Tensor) -> None:
    torch.manual_seed(3)
    shifts = torch.randint(MAX_SHIFT + 1, (len(tokens), 1)).flatten().tolist()
    torch.manual_seed(3)
    got = layer().train()(tokens)
    torch.testing.assert_close(got, plain_positions(tokens, shifts), atol=1e-5, rtol=0)


@pytest.mark.parametrize("tokens", [LEFT_PADDED, RIGHT_PADDED], ids=["left", "right"])
def test_evaluation_does_not_shift(tokens: torch.Tensor) -> None:
    got = layer().eval()(tokens)
    torch.testing.assert_close(got, plain_positions(tokens, [0] * len(tokens)), atol=1e-5, rtol=0)


def test_shifts_are_uniform() -> None:
    torch.manual_seed(1)
    tokens = torch.full((8000, 1), 5)
    first_sine = layer().train()(tokens)[:, 0, 0]
    expected = {round(math.sin(PAD + 1 + k), 4): k for k in range(MAX_SHIFT + 1)}
    drawn = [expected[round(value, 4)] for value in first_sine.tolist()]
    counts = torch.bincount(torch.tensor(drawn), minlength=MAX_SHIFT + 1)
    # 1000 of each are expected, with a standard deviation of 30.
    assert counts.min() > 850
    assert counts.max() < 1150


def test_all_tokens_of_a_sequence_have_the_same_shift() -> None:
    torch.manual_seed(1)
    stock = SinusoidalPositionalEmbedding(DIM, PAD, 64)
    got = layer().train()(torch.full((1, 9), 5))[0]
    starts = [k for k in range(MAX_SHIFT + 1) if torch.equal(got, stock.weights[2 + k : 11 + k])]
    assert len(starts) == 1


def test_max_shift_0_equals_fairseq_and_draws_no_random_numbers() -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    got = layer(max_shift=0).train()(LEFT_PADDED)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(got, SinusoidalPositionalEmbedding(DIM, PAD, 32)(LEFT_PADDED))


def test_incremental_decoding_in_training_mode_does_not_shift() -> None:
    tokens = torch.tensor([[4, 5, 6]])
    step = layer().train()(tokens, incremental_state={})
    torch.testing.assert_close(step[0, 0], torch.tensor(plain_embedding(PAD + 3)))


def test_table_is_extended_for_long_sequences() -> None:
    tokens = torch.full((2, 100), 5)
    torch.manual_seed(2)
    short = layer(size=4).train()(tokens)
    torch.manual_seed(2)
    assert torch.equal(short, layer(size=200).train()(tokens))


def test_padding_is_zero_and_half_precision_is_preserved() -> None:
    got = layer().half().train()(LEFT_PADDED)
    assert got.dtype == torch.float16
    assert not got[LEFT_PADDED == PAD].any()
    assert "weights" not in layer().state_dict(), "the table is computed, not stored"
