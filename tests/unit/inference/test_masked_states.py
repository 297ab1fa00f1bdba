"""Mean hidden states of a RoBERTa of fairseq, compared with single sentences."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from fairseq import checkpoint_utils

from fairseq_ssl.inference.language_models import MaskedStates
from fairseq_ssl.inference.scoring import MASKED_MODEL, ScoringConfig
from tests.unit.inference import random_models

SENTENCES = [line.split() for line in ("u v w", "x", "", "z y x w v u u u", "v unheard")]


def test_means_do_not_depend_on_the_batch(tmp_path: Path) -> None:
    data = random_models.data_folder(tmp_path / "data")
    path = random_models.masked_model(tmp_path / "m.pt", data, 1)
    models, _, task = checkpoint_utils.load_model_ensemble_and_task(
        [str(path)], {"data": str(data)}
    )
    dictionary = task.source_dictionary
    for max_tokens in (4000, 11, 1):
        scoring = ScoringConfig(MASKED_MODEL, (path,), "", data, max_tokens=max_tokens)
        means = MaskedStates(scoring, 0).means(SENTENCES)
        for row, words in zip(means, SENTENCES, strict=True):
            ids = [dictionary.bos(), *map(dictionary.index, words), dictionary.eos()]
            with torch.no_grad():
                states = models[0].eval()(torch.tensor([ids]), features_only=True)[0][0]
            expected = [0.0] * 8 if not words else states[1:-1].double().mean(0).tolist()
            assert row.tolist() == pytest.approx(expected, abs=1e-5)
