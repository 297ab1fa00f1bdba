"""Training continues from a GECToR model, on data with its labels."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import safetensors.torch
import torch

import fairseq_ssl
from fairseq_ssl.checkpoints.gector import read_gector, read_labels
from fairseq_ssl.cli.main import main
from fairseq_ssl.edits.dictionary import EditDictionary
from fairseq_ssl.errors import ConfigurationError
from tests.conftest import weights
from tests.gector_models import LABELS, write_package
from tests.learning.learner_sentences import write
from tests.plugin.edit_corpus import FEW, WORDS, trained

pytest.importorskip("transformers")
fairseq_ssl.register()
from fairseq_ssl.inference import Corrector  # noqa: E402

pytestmark = [  # warnings of Hydra, the data loader, and fairseq with recent PyTorch
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


def prepare(folder: Path, *options: str) -> Path:
    write(folder, "train", 60, seed=1)
    files = [str(folder / f"train.{side}") for side in ("src", "trg")]
    command = ["edits", "prepare", *files, "-o", str(folder / "bin"), "--jobs", "1"]
    # fairseq 0.12.2 loads validation data although validation is disabled.
    assert main([*command, "--valid", *files, *options]) == 0
    return folder / "bin"


@pytest.mark.parametrize("kind", ["bert", "xlnet"])
def test_training_continues_from_a_gector_model(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    write_package(folder, kind)
    state = safetensors.torch.load_file(folder / "model.safetensors")
    for label, bias in (("$TRANSFORM_VERB_VB_VBZ", 2000), ("$KEEP", 1000)):
        state["label_proj_layer.bias"][LABELS.index(label)] = bias
    safetensors.torch.save_file(state, folder / "model.safetensors")
    (folder / "verb-form-vocab.txt").write_text("play_plays:VB_VBZ\nplays_play:VBZ_VB\n")
    data = prepare(tmp_path, "--dictionary", str(folder))
    edits = EditDictionary.read(data / "edits.txt")
    assert edits == read_labels(folder).edits
    model = read_gector(folder, folder / "encoder")
    init = ("--edit-init", str(folder), *WORDS)
    start = weights(trained(data, tmp_path / "start", *FEW, *init, "--lr", "0"))
    expected = model.weights()
    assert start.keys() == expected.keys()
    for name, weight in expected.items():
        torch.testing.assert_close(start[name], weight)
    path = trained(data, tmp_path / "run", *FEW, *init)
    after = weights(path)
    for name in ("scores.edits.weight", "errors.weight"):
        assert not torch.equal(after[name], expected[name])
    shutil.rmtree(folder)
    corrector = Corrector.from_pretrained(path, tokenizer="none")
    assert corrector.correct(["She play ."])[0].text == "She plays ."


def test_data_with_other_labels_is_rejected(tmp_path: Path) -> None:
    write_package(tmp_path / "model", "bert")
    data = prepare(tmp_path)
    init = ("--edit-init", str(tmp_path / "model"), *WORDS)
    encoder = ("--edit-tokenizer", str(tmp_path / "model/encoder"))
    with pytest.raises(ConfigurationError, match=r"edits prepare --dictionary .*model"):
        trained(data, tmp_path / "run", *FEW, *init, *encoder)


def test_dictionaries_that_exist_have_no_size(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edits = prepare(tmp_path, "--size", "3") / "edits.txt"
    shutil.copy(edits, tmp_path / "edits.txt")
    options = ("--dictionary", str(tmp_path / "edits.txt"), "--force")
    assert (prepare(tmp_path, *options) / "edits.txt").read_text() == (
        tmp_path / "edits.txt"
    ).read_text()
    with pytest.raises(AssertionError):
        prepare(tmp_path, *options, "--size", "3")
    assert "--size cannot be used with --dictionary" in capsys.readouterr().err
