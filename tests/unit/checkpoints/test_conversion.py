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


def test_training_state_is_removed_and_languages_are_kept() -> None:
    state = shape_state()
    languages = {"source_lang": "sr@latin", "target_lang": "zh-Hans"}
    state["cfg"]["task"] |= languages
    stock = to_stock(state)
    assert stock["last_optimizer_state"] is None
    assert [one["num_updates"] for one in stock["optimizer_history"]] == [7]
    assert stock["model"] == {"w": torch.ones(1)}
    assert stock["cfg"]["task"].items() > languages.items()
    assert to_stock(shape_state("transformer"))["cfg"]["model"]["arch"] == "transformer"


def test_absolute_and_shifted_positions_without_offset_are_converted() -> None:
    for kind in ("absolute", "shifted"):
        cfg = to_stock(shape_state(shape_positions=kind, shape_eval_offset=0))["cfg"]
        assert not any(name.startswith("shape_") for name in cfg["model"])


@pytest.mark.parametrize(
    ("arch", "options", "task", "culprit"),
    [
        *((arch, {}, {}, arch) for arch in ("transformer_lm", "pointer_transformer", "lstm")),
        ("shape_transformer", {"shape_positions": "relative"}, {}, "relative positions"),
        ("shape_transformer", {"shape_eval_offset": 40}, {}, "shape_eval_offset=40"),
        ("transformer", {}, {"_name": "tagged_translation", "right_to_left": True}, "right to"),
    ],
)
def test_models_that_fairseq_cannot_decode_are_rejected(
    arch: str, options: dict[str, Any], task: dict[str, Any], culprit: str
) -> None:
    state = shape_state(arch, **options)
    state["cfg"]["task"] |= task
    with pytest.raises((DataError, ConfigurationError), match=culprit):
        to_stock(state)


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


@pytest.mark.parametrize("to", ["fairseq", "onnx"])
def test_an_existing_output_is_kept(to: str, tmp_path: Path) -> None:
    (tmp_path / "model").write_text("mine")
    with pytest.raises(UsageError, match="model exists"):
        export("checkpoint.pt", tmp_path / "model", to)
    with pytest.raises(DataError, match="does not exist"):
        export("checkpoint.pt", tmp_path / "model", to, overwrite=True)
