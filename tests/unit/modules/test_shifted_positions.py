"""Shifted positions equal equation 6.2 of the thesis, written out."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence

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


def layer(
    max_shift: int = MAX_SHIFT, size: int = 32, warmup: int = 0
) -> ShiftedSinusoidalPositions:
    return ShiftedSinusoidalPositions(DIM, PAD, max_shift, size, warmup_updates=warmup)


def both_sides(
    max_shift: int = MAX_SHIFT, warmup: int = 0
) -> tuple[ShiftedSinusoidalPositions, ShiftedSinusoidalPositions]:
    """Return positions of an encoder, and of a decoder that follows it, both in training."""
    encoder, decoder = (layer(max_shift, warmup=warmup).train() for _ in range(2))
    decoder.follow(encoder)
    return encoder, decoder


def shifts_of(positions: torch.Tensor, tokens: torch.Tensor, largest: int = 64) -> list[int]:
    """Return the only shift of each row with which equation 6.2 gives these positions."""
    found = []
    for row, ids in zip(positions, tokens, strict=True):
        fits = [
            k
            for k in range(largest + 1)
            if torch.allclose(row, plain_positions(ids[None], [k])[0], atol=1e-4, rtol=0)
        ]
        assert len(fits) == 1
        found += fits
    return found


def plain_max_shift(max_shift: int, warmup: int, update: int) -> int:
    """Count the shifts up to K that the warm-up has allowed before an update."""
    return sum(1 for k in range(1, max_shift + 1) if k * warmup <= max_shift * update)


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


def test_both_sides_of_an_item_share_the_shift() -> None:
    encoder, decoder = both_sides()
    torch.manual_seed(6)
    for _ in range(3):  # a new shift for each batch
        expected = shifts_of(encoder(LEFT_PADDED), LEFT_PADDED)
        target = LEFT_PADDED.flip(1)
        assert shifts_of(decoder(target), target) == expected
        again = decoder(target[:, :3]), target[:, :3]
        assert shifts_of(*again) == expected, "a second call of the decoder has the same source"
        assert len(set(expected)) > 1, "each item has its own shift"


def test_shared_shifts_are_those_of_the_encoder_alone() -> None:
    encoder, decoder = both_sides()
    torch.manual_seed(6)
    alone = shifts_of(layer().train()(LEFT_PADDED), LEFT_PADDED)
    torch.manual_seed(6)
    assert shifts_of(encoder(LEFT_PADDED), LEFT_PADDED) == alone
    state = torch.get_rng_state()
    decoder(LEFT_PADDED)
    assert torch.equal(torch.get_rng_state(), state), "the decoder draws no random numbers"


def test_a_copy_of_both_sides_shares_its_own_shift() -> None:
    """As the copy of a model for exponential moving averages."""
    sides = both_sides()
    encoder, decoder = copy.deepcopy(sides)
    torch.manual_seed(6)
    expected = shifts_of(encoder(LEFT_PADDED), LEFT_PADDED)
    sides[0](LEFT_PADDED)
    assert shifts_of(decoder(LEFT_PADDED), LEFT_PADDED) == expected


def test_no_shared_shift_in_evaluation_and_incremental_decoding() -> None:
    encoder, decoder = both_sides()
    encoder(LEFT_PADDED)
    step = decoder(torch.tensor([[4, 5, 6]]), incremental_state={})
    torch.testing.assert_close(step[0, 0], torch.tensor(plain_embedding(PAD + 3)))
    assert shifts_of(decoder.eval()(LEFT_PADDED), LEFT_PADDED) == [0, 0, 0]
    assert shifts_of(encoder.eval()(LEFT_PADDED), LEFT_PADDED) == [0, 0, 0]
    assert shifts_of(decoder.train()(LEFT_PADDED), LEFT_PADDED) == [0, 0, 0], "as the source"


def drawn_by_update(warmup: int, updates: Sequence[int]) -> list[list[int]]:
    """Return the shifts of updates, each seeded as in fairseq's trainer: seed + update."""
    tokens = torch.full((40, 2), 5)
    encoder, found = layer(warmup=warmup).train(), []
    for update in updates:
        torch.manual_seed(11 + update)
        encoder.set_num_updates(update)
        found.append(shifts_of(encoder(tokens), tokens))
    return found


def test_the_warm_up_grows_linearly_from_0_to_the_max_shift() -> None:
    for warmup in (1, 5, 14, 100):
        encoder = layer(warmup=warmup)
        for update in range(2 * warmup):
            encoder.set_num_updates(update)
            expected = plain_max_shift(MAX_SHIFT, warmup, update)
            assert encoder.current_max_shift == expected, (warmup, update)
        encoder.set_num_updates(0)
        assert encoder.current_max_shift == 0
    drawn = [max(shifts) for shifts in drawn_by_update(14, range(0, 20, 2))]
    assert drawn == [0, 1, 2, 3, 4, 5, 6, 7, 7, 7]


def test_a_resumed_warm_up_draws_the_same_shifts() -> None:
    whole = drawn_by_update(20, range(30))
    assert drawn_by_update(20, range(13, 30)) == whole[13:]


def test_during_a_warm_up_shifts_are_uniform_up_to_the_current_one() -> None:
    tokens = torch.full((4000, 1), 5)
    encoder, decoder = both_sides(warmup=20)
    for side in (encoder, decoder):
        side.set_num_updates(9)  # 7 * 9 / 20 = 3.15
    torch.manual_seed(1)
    encoder(tokens)
    first_sine = decoder(tokens)[:, 0, 0]
    expected = torch.tensor([math.sin(PAD + 1 + k) for k in range(4)])
    counts = (first_sine[:, None] - expected).abs().lt(1e-4).sum(0)
    assert counts.sum() == 4000
    # 1000 of each are expected, with a standard deviation of 27.
    assert counts.min() > 860
    assert counts.max() < 1140
