"""Similarity of states under shifts: Eq. 6.3 by a loop."""

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
from tests.unit.models.test_shape_transformer import EOS, PAD, batch, build, dictionary

SENTENCES = [[4, 5, 6], [7, 8, 9, 10, 11, 12], [13]]


class OneBatch(TrainedModels):
    """A model with one padded batch of the sentences above for a data set."""

    def batches(self, dataset: Any, max_tokens: int) -> Any:
        tokens = batch(SENTENCES, left=True)
        inputs = {"src_tokens": tokens, "src_lengths": tokens.ne(PAD).sum(1)}
        yield {"id": torch.arange(len(tokens)), "net_input": inputs}


def asked(model: Any) -> OneBatch:
    task = SimpleNamespace(source_dictionary=dictionary())
    return OneBatch(Path("none"), model.eval(), task, torch.device("cpu"))


def states(encoder: Any, words: list[int], offset: int) -> Tensor:
    kept = encoder.embed_positions
    encoder.embed_positions = ShiftedSinusoidalPositions.from_stock(kept, 0, offset).eval()
    tokens = torch.tensor([[*words, EOS]])
    found: Tensor = encoder(tokens, torch.tensor([len(words) + 1]))["encoder_out"][0][:, 0].detach()
    encoder.embed_positions = kept
    return found


def test_it_is_the_mean_over_positions_then_over_sentences() -> None:
    model = build(shape_positions="absolute").eval()
    found = similarities(asked(model), [], [0, 7, 300], 1000, lambda count: None)
    for a, one in enumerate((0, 7, 300)):
        for b, other in enumerate((0, 7, 300)):
            means = []
            for words in SENTENCES:
                pair = zip(
                    states(model.encoder, words, one),
                    states(model.encoder, words, other),
                    strict=True,
                )
                alike = [float(torch.dot(x, y) / (x.norm() * y.norm())) for x, y in pair]
                means.append(sum(alike) / len(alike))
            assert found[a, b] == pytest.approx(sum(means) / len(means), abs=1e-5)
    assert found[0, 2] < 0.99


def test_relative_positions_have_nothing_to_shift() -> None:
    found = similarities(
        asked(build(shape_positions="relative")), [], [0, 100], 1000, lambda count: None
    )
    np.testing.assert_allclose(found, np.ones((2, 2)), atol=1e-6)


def test_learned_positions_are_refused_and_the_model_is_left_as_it_was() -> None:
    model = build()
    kept = model.encoder.embed_positions
    similarities(asked(model), [], [0, 5], 1000, lambda count: None)
    assert model.encoder.embed_positions is kept
    model.encoder.embed_positions = torch.nn.Embedding(30, 8)
    with pytest.raises(DataError, match="expected sinusoidal or relative"):
        similarities(asked(model), [], [0, 5], 1000, lambda count: None)
