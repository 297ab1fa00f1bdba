"""Similarity of states under shifted positions, compared with a loop for Eq. 6.3."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fairseq_ssl.analysis.shift_similarity import similarities
from fairseq_ssl.analysis.trained_models import TrainedModels
from fairseq_ssl.errors import DataError
from fairseq_ssl.modules.positional_encoding import ShiftedSinusoidalPositions
from tests.unit.models.test_shape_transformer import build
from tests.unit.models.tiny_models import EOS, PAD, batch, dictionary

SENTENCES = [[4, 5, 6], [7, 8, 9, 10, 11, 12], [13]]


class OneBatch(TrainedModels):
    """A model whose data is one padded batch of `SENTENCES`."""

    def batches(self, dataset: Any, max_tokens: int) -> Any:
        tokens = batch(SENTENCES, left=True)
        inputs = {"src_tokens": tokens, "src_lengths": tokens.ne(PAD).sum(1)}
        yield {"id": torch.arange(len(tokens)), "net_input": inputs}


def with_one_batch(model: Any) -> OneBatch:
    task = SimpleNamespace(source_dictionary=dictionary())
    return OneBatch(Path("none"), model.eval(), task, torch.device("cpu"))


def states(encoder: Any, words: list[int], offset: int) -> Tensor:
    original = encoder.embed_positions
    encoder.embed_positions = ShiftedSinusoidalPositions.from_stock(original, 0, offset).eval()
    tokens = torch.tensor([[*words, EOS]])
    output = encoder(tokens, torch.tensor([len(words) + 1]))["encoder_out"][0]
    encoder.embed_positions = original
    sentence: Tensor = output[:, 0].detach()
    return sentence


def test_similarity_is_the_mean_over_positions_then_over_sentences() -> None:
    model = build(shape_positions="absolute").eval()
    matrix = similarities(with_one_batch(model), [], [0, 7, 300], 1000, lambda count: None)
    for a, one in enumerate((0, 7, 300)):
        for b, other in enumerate((0, 7, 300)):
            means = []
            for words in SENTENCES:
                pair = zip(
                    states(model.encoder, words, one),
                    states(model.encoder, words, other),
                    strict=True,
                )
                cosines = [float(torch.dot(x, y) / (x.norm() * y.norm())) for x, y in pair]
                means.append(sum(cosines) / len(cosines))
            assert matrix[a, b] == pytest.approx(sum(means) / len(means), abs=1e-5)
    assert matrix[0, 2] < 0.99


def test_shift_has_no_effect_on_relative_positions() -> None:
    matrix = similarities(
        with_one_batch(build(shape_positions="relative")), [], [0, 100], 1000, lambda count: None
    )
    np.testing.assert_allclose(matrix, np.ones((2, 2)), atol=1e-6)


def test_other_positions_are_rejected_and_the_model_is_restored() -> None:
    model = build()
    original = model.encoder.embed_positions
    similarities(with_one_batch(model), [], [0, 5], 1000, lambda count: None)
    assert model.encoder.embed_positions is original
    model.encoder.embed_positions = torch.nn.Embedding(30, 8)
    with pytest.raises(DataError):
        similarities(with_one_batch(model), [], [0, 5], 1000, lambda count: None)
    del model.encoder.embed_positions
    with pytest.raises(DataError):
        similarities(with_one_batch(model), [], [0, 5], 1000, lambda count: None)
