"""Conversion of checkpoints to fairseq's own architectures."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fairseq_ssl
from fairseq_ssl.checkpoints.conversion import export, to_stock
from fairseq_ssl.checkpoints.ctranslate2 import write_ctranslate2
from fairseq_ssl.checkpoints.files import TrainingData
from fairseq_ssl.errors import ConfigurationError, DataError, UsageError

fairseq_ssl.register()
from fairseq.tasks import TASK_REGISTRY  # noqa: E402


def shape_state(arch: str = "shape_transformer_big", **ours: Any) -> dict[str, Any]:
    ours = {"shape_max_shift": 500, **ours}
    options = Namespace(_name=arch, arch=arch, dropout=np.float64(0.3), **ours)
    return {
        "args": None,
        "cfg": {"model": options, "task": {"_name": "translation"}, "common": {"user_dir": "x"}},
        "model": {"w": torch.ones(1)},
        "optimizer_history": [{"num_updates": 7}],
        "extra_state": {"train_iterator": {"epoch": 3}},
        "last_optimizer_state": {"m": torch.ones(1)},
    }


def test_architecture_is_renamed_and_own_options_are_removed() -> None:
    cfg = to_stock(shape_state())["cfg"]
    stock = "transformer_vaswani_wmt_en_de_big"
    assert cfg["model"] == {"_name": stock, "arch": stock, "dropout": 0.3}
    assert type(cfg["model"]["dropout"]) is float
    assert cfg["common"]["user_dir"] is None
    assert cfg["task"] == {"_name": "translation", "data": None}


def test_training_state_is_removed() -> None:
    stock = to_stock(shape_state())
    assert stock["last_optimizer_state"] is None
    assert [one["num_updates"] for one in stock["optimizer_history"]] == [7]
    assert stock["model"] == {"w": torch.ones(1)}


def test_languages_are_kept() -> None:
    languages = {"source_lang": "sr@latin", "target_lang": "zh-Hans"}
    state = shape_state()
    state["cfg"]["task"] |= languages
    assert to_stock(state)["cfg"]["task"].items() > languages.items()


@pytest.mark.parametrize("arch", ["transformer", "transformer_wmt_en_de_big"])
def test_architectures_of_fairseq_keep_their_names(arch: str) -> None:
    assert to_stock(shape_state(arch))["cfg"]["model"]["arch"] == arch


@pytest.mark.parametrize("arch", ["transformer_lm", "pointer_transformer", "lstm"])
def test_unsupported_architecture_is_rejected(arch: str) -> None:
    with pytest.raises(DataError, match=f"'{arch}' cannot be exported"):
        to_stock(shape_state(arch))


def test_absolute_and_shifted_positions_without_offset_are_converted() -> None:
    for kind in ("absolute", "shifted"):
        cfg = to_stock(shape_state(shape_positions=kind, shape_eval_offset=0))["cfg"]
        assert not any(name.startswith("shape_") for name in cfg["model"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shape_positions": "relative"}, "relative positions cannot be exported"),
        ({"shape_eval_offset": 40}, "shape_eval_offset=40"),
    ],
)
def test_unsupported_positions_are_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        to_stock(shape_state(**options))


def test_tasks_and_criterions_of_the_plug_in_become_those_of_fairseq() -> None:
    state = shape_state()
    names = {"task": "tagged_translation", "criterion": "denoising_cross_entropy"}
    state["cfg"] |= {group: {"_name": name} for group, name in names.items()}
    cfg = to_stock(state)["cfg"]
    assert [cfg[group]["_name"] for group in names] == ["translation", "cross_entropy"]
    names = {"task": "translation", "criterion": "label_smoothed_cross_entropy"}
    state["cfg"] |= {group: {"_name": name} for group, name in names.items()}
    cfg = to_stock(state)["cfg"]
    assert {group: cfg[group]["_name"] for group in names} == names


def test_quantization_noise_is_not_converted_to_ctranslate2(tmp_path: Path) -> None:
    """fairseq then multiplies embeddings by a matrix, which the converter would ignore."""
    pytest.importorskip("ctranslate2")
    stock = to_stock(shape_state(quant_noise_pq=0.1))
    with pytest.raises(DataError, match="quantization noise"):
        write_ctranslate2(stock, TrainingData(tmp_path, "de", "en"), tmp_path / "out", "float32")


def test_models_that_decode_from_right_to_left_are_rejected() -> None:
    state = shape_state()
    state["cfg"]["task"] = {"_name": "tagged_translation", "right_to_left": True}
    with pytest.raises(ConfigurationError, match="decodes from right to left"):
        to_stock(state)


def test_an_unknown_format_is_rejected() -> None:
    with pytest.raises(UsageError, match="Expected one of fairseq, ctranslate2"):
        export("checkpoint.pt", "folder", "marian")


@pytest.mark.parametrize("to", ["fairseq", "onnx"])
def test_an_existing_output_is_kept(to: str, tmp_path: Path) -> None:
    (tmp_path / "model").write_text("mine")
    with pytest.raises(UsageError, match=r"model exists\. Set `overwrite` to replace it"):
        export("checkpoint.pt", tmp_path / "model", to)
    with pytest.raises(DataError, match="does not exist"):
        export("checkpoint.pt", tmp_path / "model", to, overwrite=True)


def test_exporting_a_tagger_needs_the_plug_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(TASK_REGISTRY, "edit_labeling", raising=False)
    with pytest.raises(ConfigurationError, match=r"Call fairseq_ssl\.register first"):
        export("checkpoint.pt", tmp_path / "model", "onnx")
