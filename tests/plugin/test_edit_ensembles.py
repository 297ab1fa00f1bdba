"""Weighted ensembles of edit taggers with different encoders and units."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fairseq_ssl
from fairseq_ssl.cli.main import main
from fairseq_ssl.data.spans import Spans
from fairseq_ssl.edits.coverage import agreement
from fairseq_ssl.edits.dictionary import EditDictionary
from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.inference.loading import load_tagger
from fairseq_ssl.text.spelling import SpellingCounts
from tests import pretrained
from tests.conftest import Run
from tests.plugin.edit_corpus import TASK, WORDS, trained, write_corpus

pytest.importorskip("transformers")
fairseq_ssl.register()
from fairseq_ssl.models.edit_tagger import EditTagger  # noqa: E402

pytestmark = [  # warnings of Hydra, the data loader, and fairseq with recent PyTorch
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
FEW = ("--lr", "0.02", "--max-update", "3", "--max-source-positions", "36", "--disable-validation")
WORD = (*WORDS, "--edit-init")
SIZES = ("--encoder-layers", "1", "--encoder-embed-dim", "8", "--encoder-ffn-embed-dim", "8")
MODELS = {
    "bert": (*WORD, "bert"),
    "electra": (*WORD, "electra", "--edit-unfactorized", "--edit-pooling", "mean"),
    "token": (*SIZES, "--encoder-attention-heads", "2", "--edit-detection"),
}
LINES = ("two dog sees a apple .", "Zyx SEES brontosaurus ツ", "", "a dog " * 30)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus, and taggers with different encoders: bert.pt, electra.pt and token.pt."""
    folder = tmp_path_factory.mktemp("corpus")
    write_corpus(folder)
    pretrained.bert(folder / "bert")
    pretrained.electra(folder / "electra", seed=2)
    for name, flags in MODELS.items():
        paths = [str(folder / flag) if flag in ("bert", "electra") else flag for flag in flags]
        trained(folder / "bin", folder / name, *FEW, *paths).rename(folder / f"{name}.pt")
    return folder


def corrector(folder: Path, names: str, data: str = "bin", **overrides: Any) -> Any:
    files = ":".join(f"{name}.pt" for name in names.split())
    return EditTagger.from_pretrained(str(folder), files, str(folder / data), **overrides)


def probabilities(found: Any) -> torch.Tensor:
    """Return the edit probabilities and the error probability of the two first lines."""
    dictionary = found.task.source_dictionary
    rows = [["<s>", *line.split()] for line in LINES[:2]]
    text = Spans.of([np.array([dictionary.index(word) for word in row]) for row in rows])
    each = found.generator.candidates.probabilities(text, None, torch.device("cpu"))
    return torch.cat([each.edits, each.errors.unsqueeze(1)], dim=1)


@pytest.mark.parametrize("names", ["bert electra", "token electra", "electra bert token"])
def test_weighted_mean_of_different_encoders(names: str, folder: Path) -> None:
    weights = [2.0, 1.0, 0.5][: len(names.split())]
    text = ",".join(map(str, weights))
    each = [probabilities(corrector(folder, name)) for name in names.split()]
    expected = sum(weight * one for weight, one in zip(weights, each, strict=True)) / sum(weights)
    found = corrector(folder, names, edit_weights=text)
    torch.testing.assert_close(probabilities(found), expected, atol=1e-6, rtol=1e-5)
    assert not torch.allclose(each[0], each[1], atol=1e-3)
    equal = probabilities(corrector(folder, names))
    torch.testing.assert_close(equal, sum(each) / len(each), atol=1e-6, rtol=1e-5)


def test_a_weight_of_0_ignores_a_model(folder: Path) -> None:
    found = corrector(folder, "bert electra", edit_weights="0,3", edit_keep_bias=-1.0)
    alone = corrector(folder, "electra", edit_keep_bias=-1.0)
    texts = [one.text for one in found.correct(LINES)]
    assert texts == [one.text for one in alone.correct(LINES)]
    assert texts != [" ".join(line.split()) for line in LINES]


def test_interactive_takes_weights(run: Run, folder: Path) -> None:
    (folder / "lines").write_text("".join(f"{line}\n" for line in LINES[:2]), "utf-8")
    words = ["fairseq-interactive", folder / "bin", *TASK, "--cpu", "-s", "src", "-t", "trg"]
    words += ["--path", f"{folder / 'bert.pt'}:{folder / 'electra.pt'}", "--edit-weights", "1,3"]
    words += ["--edit-keep-bias", "-1", "--input", folder / "lines"]
    shown = run(*words).stdout.splitlines()
    found = corrector(folder, "bert electra", edit_weights="1,3", edit_keep_bias=-1.0)
    assert [line.split("\t")[2] for line in shown if line.startswith("H-")] == [
        one.text for one in found.correct(LINES[:2])
    ]


def test_tune_an_ensemble_without_a_data_folder(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sides = [str(folder / f"valid.{side}") for side in ("src", "trg")]
    models = [str(folder / f"{name}.pt") for name in ("bert", "electra")]
    assert main(["edits", "tune", *sides, "--model", *models, "--weights", "1,2"]) == 0
    shown = capsys.readouterr()
    sources, targets = (Path(side).read_text().splitlines() for side in sides)
    flags = re.findall(r"--(\S+) (\S+)", shown.out)
    chosen: dict[str, Any] = {name.replace("-", "_"): float(value) for name, value in flags}
    scores = []
    for overrides in (dict[str, Any](), chosen):
        found = corrector(folder, "bert electra", edit_weights="1,2", **overrides)
        texts = [one.text for one in found.correct(sources)]
        scores.append(agreement(zip(sources, texts, targets, strict=True)).scores["f0.5"])
    printed = [float(score) for score in re.findall(r"f0\.5 ([\d.]+)", shown.err)]
    assert printed == pytest.approx(scores, abs=0.01)
    assert main(["edits", "tune", *sides, "--model", *models, "--weights", "1,2,3"]) != 0
    assert "has 3 numbers for 2 models" in capsys.readouterr().err


def test_tuning_corrects_the_spelling_first(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("symspellpy")
    right = (folder / "valid.src").read_text().splitlines()
    (tmp_path / "wrong").write_text("".join(f"{line} necesary\n" for line in right))
    (tmp_path / "right").write_text("".join(f"{line} necessary\n" for line in right))
    SpellingCounts({"necessary": 99}, {"necessary </s>": 99}).write(tmp_path / "counts")
    words = [str(folder / "valid.trg"), "--model", str(folder / "bert.pt")]
    found = []
    for name in ("wrong", "right"):
        given = ["--spelling", str(tmp_path / "counts")] if name == "wrong" else []
        assert main(["edits", "tune", str(tmp_path / name), *words, *given]) == 0
        shown = capsys.readouterr()
        found.append((shown.out, re.findall(r"f0\.5 ([\d.]+)", shown.err)))
    assert found[0] == found[1]


def test_different_edit_dictionaries_are_rejected(folder: Path) -> None:
    path = folder / "other.pt"
    state = torch.load(folder / "electra.pt", weights_only=False)
    edits = EditDictionary.read(folder / "bin" / "edits.txt")
    state["task_state"]["edit_dictionary"] = EditDictionary(
        edits.grams[::-1], edits.counts, edits.max_ngram, edits.transforms
    ).text()
    torch.save(state, path)
    with pytest.raises(ConfigurationError, match="edit dictionary of the checkpoint differs"):
        corrector(folder, "bert other")
    with pytest.raises(ConfigurationError, match=r"differs from edits\.txt of the first"):
        load_tagger([folder / "bert.pt", path], None, "cpu")


def test_models_on_tokens_need_a_data_folder(folder: Path) -> None:
    paths = [folder / "bert.pt", folder / "token.pt"]
    for some in (paths, paths[::-1], paths[1:]):
        with pytest.raises(ConfigurationError, match="needs the folder of the data"):
            load_tagger(some, None, "cpu")
