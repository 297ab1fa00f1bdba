"""Weighted ensembles of edit taggers with different encoders and units."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import fairseq_ssl
from fairseq_ssl.edits.dictionary import EditDictionary
from fairseq_ssl.edits.rounds import EditRounds
from fairseq_ssl.errors import ConfigurationError
from tests.conftest import Run
from tests.plugin.edit_corpus import TASK, corrected, loaded

pytest.importorskip("transformers")
fairseq_ssl.register()
from fairseq_ssl.generation.torch_engine import TorchEngine  # noqa: E402

pytestmark = [  # warnings of Hydra, the data loader, and fairseq with recent PyTorch
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
LINES = ("two dog sees a apple .", "Zyx SEES brontosaurus ツ", "", "a dog " * 30)


def tagger(taggers: Path, names: str, **options: Any) -> EditRounds:
    paths = [taggers / f"{name}.pt" for name in names.split()]
    return loaded(*paths, data_dir=taggers / "bin", **options)


def probabilities(rounds: EditRounds) -> torch.Tensor:
    """Return the edit probabilities and the error probability of the two first lines."""
    text = rounds.encode([line.split() for line in LINES[:2]])
    assert isinstance(rounds.engine, TorchEngine)
    edits, errors = rounds.engine.probabilities(text)
    return torch.cat([edits, errors.unsqueeze(1)], dim=1)


@pytest.mark.parametrize("names", ["bert electra", "token electra", "electra bert token"])
def test_weighted_mean_of_different_encoders(names: str, taggers: Path) -> None:
    weights = [2.0, 1.0, 0.5][: len(names.split())]
    each = [probabilities(tagger(taggers, name)) for name in names.split()]
    expected = sum(weight * one for weight, one in zip(weights, each, strict=True)) / sum(weights)
    mean = probabilities(tagger(taggers, names, weights=weights))
    torch.testing.assert_close(mean, expected, atol=1e-6, rtol=1e-5)
    assert not torch.allclose(each[0], each[1], atol=1e-3)
    equal = probabilities(tagger(taggers, names))
    torch.testing.assert_close(equal, sum(each) / len(each), atol=1e-6, rtol=1e-5)


def test_a_weight_of_0_ignores_a_model(taggers: Path) -> None:
    both = tagger(taggers, "bert electra", weights=(0, 3), keep_bias=-1.0)
    texts = corrected(both, LINES)
    assert texts == corrected(tagger(taggers, "electra", keep_bias=-1.0), LINES)
    assert texts != [" ".join(line.split()) for line in LINES]


def test_interactive_takes_weights(run: Run, taggers: Path) -> None:
    words = ["fairseq-interactive", taggers / "bin", *TASK, "--cpu", "-s", "src", "-t", "trg"]
    words += ["--path", f"{taggers / 'bert.pt'}:{taggers / 'electra.pt'}", "--edit-weights", "1,3"]
    text = "".join(f"{line}\n" for line in LINES[:2])
    shown = run(*words, "--edit-keep-bias", "-1", text=text).stdout.splitlines()
    both = tagger(taggers, "bert electra", weights=(1, 3), keep_bias=-1.0)
    texts = [line.split("\t")[2] for line in shown if line.startswith("H-")]
    assert texts == corrected(both, LINES[:2])


def test_different_edit_dictionaries_are_rejected(taggers: Path, tmp_path: Path) -> None:
    shutil.copy(taggers / "bert.pt", tmp_path)
    (tmp_path / "bin").symlink_to(taggers / "bin")
    state = torch.load(taggers / "electra.pt", weights_only=False)
    edits = EditDictionary.read(taggers / "bin/edits.txt")
    grams = edits.appends[::-1]
    other = EditDictionary(grams, grams, edits.max_ngram, edits.transforms)
    state["task_state"]["edit_dictionary"] = other.text()
    torch.save(state, tmp_path / "other.pt")
    with pytest.raises(ConfigurationError, match="edit dictionary"):
        tagger(tmp_path, "bert other")
    with pytest.raises(ConfigurationError, match="differs from the first checkpoint"):
        loaded(tmp_path / "bert.pt", tmp_path / "other.pt")


def test_models_on_tokens_need_a_data_folder(taggers: Path) -> None:
    paths = [taggers / "bert.pt", taggers / "token.pt"]
    for some in (paths, paths[::-1], paths[1:]):
        with pytest.raises(ConfigurationError, match="needs the dictionary in the data folder"):
            loaded(*some)
