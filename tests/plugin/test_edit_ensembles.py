"""Weighted ensembles of edit taggers with different encoders and units."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fairseq_ssl
from fairseq_ssl.data.spans import Spans
from fairseq_ssl.edits.dictionary import EditDictionary
from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.generation.edit_corrector import EditCorrector
from fairseq_ssl.inference.loading import load_corrector
from tests.conftest import Run
from tests.plugin.edit_corpus import TASK

pytest.importorskip("transformers")
fairseq_ssl.register()

pytestmark = [  # warnings of Hydra, the data loader, and fairseq with recent PyTorch
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
LINES = ("two dog sees a apple .", "Zyx SEES brontosaurus ツ", "", "a dog " * 30)


def corrector(taggers: Path, names: str, **overrides: Any) -> Any:
    files = ":".join(f"{name}.pt" for name in names.split())
    return EditCorrector.from_pretrained(str(taggers), files, str(taggers / "bin"), **overrides)


def probabilities(found: Any) -> torch.Tensor:
    """Return the edit probabilities and the error probability of the two first lines."""
    dictionary = found.task.source_dictionary
    rows = [["<s>", *line.split()] for line in LINES[:2]]
    text = Spans.of([np.array([dictionary.index(word) for word in row]) for row in rows])
    each = found.generator.candidates.probabilities(text, None, torch.device("cpu"))
    return torch.cat([each.edits, each.errors.unsqueeze(1)], dim=1)


@pytest.mark.parametrize("names", ["bert electra", "token electra", "electra bert token"])
def test_weighted_mean_of_different_encoders(names: str, taggers: Path) -> None:
    weights = [2.0, 1.0, 0.5][: len(names.split())]
    text = ",".join(map(str, weights))
    each = [probabilities(corrector(taggers, name)) for name in names.split()]
    expected = sum(weight * one for weight, one in zip(weights, each, strict=True)) / sum(weights)
    found = corrector(taggers, names, edit_weights=text)
    torch.testing.assert_close(probabilities(found), expected, atol=1e-6, rtol=1e-5)
    assert not torch.allclose(each[0], each[1], atol=1e-3)
    equal = probabilities(corrector(taggers, names))
    torch.testing.assert_close(equal, sum(each) / len(each), atol=1e-6, rtol=1e-5)


def test_a_weight_of_0_ignores_a_model(taggers: Path) -> None:
    found = corrector(taggers, "bert electra", edit_weights="0,3", edit_keep_bias=-1.0)
    alone = corrector(taggers, "electra", edit_keep_bias=-1.0)
    texts = [one.text for one in found.correct(LINES)]
    assert texts == [one.text for one in alone.correct(LINES)]
    assert texts != [" ".join(line.split()) for line in LINES]


def test_interactive_takes_weights(run: Run, taggers: Path) -> None:
    words = ["fairseq-interactive", taggers / "bin", *TASK, "--cpu", "-s", "src", "-t", "trg"]
    words += ["--path", f"{taggers / 'bert.pt'}:{taggers / 'electra.pt'}", "--edit-weights", "1,3"]
    text = "".join(f"{line}\n" for line in LINES[:2])
    shown = run(*words, "--edit-keep-bias", "-1", text=text).stdout.splitlines()
    found = corrector(taggers, "bert electra", edit_weights="1,3", edit_keep_bias=-1.0)
    assert [line.split("\t")[2] for line in shown if line.startswith("H-")] == [
        one.text for one in found.correct(LINES[:2])
    ]


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
        corrector(tmp_path, "bert other")
    with pytest.raises(ConfigurationError, match=r"edits\.txt"):
        load_corrector([tmp_path / "bert.pt", tmp_path / "other.pt"], None, "cpu")


def test_models_on_tokens_need_a_data_folder(taggers: Path) -> None:
    paths = [taggers / "bert.pt", taggers / "token.pt"]
    for some in (paths, paths[::-1], paths[1:]):
        with pytest.raises(ConfigurationError, match="needs the folder of the data"):
            load_corrector(some, None, "cpu")
