"""Conversion of checkpoints to fairseq's own architectures."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fairseq_ssl
from fairseq_ssl.checkpoints.conversion import one_direction, to_stock
from fairseq_ssl.checkpoints.ctranslate2 import write_ctranslate2
from fairseq_ssl.checkpoints.files import TrainingData
from fairseq_ssl.errors import ConfigurationError, DataError, UsageError
from fairseq_ssl.inference import export

fairseq_ssl.register()
CODE = "__import__('os').system('touch canary')"
LANGUAGES = {"source_lang": "sr@latin", "target_lang": "zh-Hans"}


def state(arch: str = "transformer", task: str = "translation", **options: Any) -> dict[str, Any]:
    """Return a checkpoint with these model options."""
    return {
        "args": None,
        "cfg": {
            "common": {"user_dir": "/home/stranger/plugin", "seed": 7},
            "model": Namespace(_name=arch, arch=arch, **options),
            "task": {"_name": task, "data": "/home/stranger/data", **LANGUAGES},
            "criterion": {"_name": "label_smoothed_cross_entropy", "label_smoothing": 0.1},
        },
        "model": {"w": torch.ones(1)},
        "optimizer_history": [{"num_updates": 7, "lr_scheduler_state": {"best": CODE}}],
        "last_optimizer_state": {"m": torch.ones(1)},
    }


def test_own_options_and_the_training_state_are_removed() -> None:
    ours: dict[str, Any] = {"shape_max_shift": 500, "dropout": np.float64(0.3)}
    stock = to_stock(state("shape_transformer_big", **ours))
    arch = "transformer_vaswani_wmt_en_de_big"
    assert stock["cfg"]["model"] == {"_name": arch, "arch": arch, "dropout": 0.3}
    assert type(stock["cfg"]["model"]["dropout"]) is float
    assert stock["cfg"]["common"]["user_dir"] is None
    assert stock["last_optimizer_state"] is None
    assert [one["num_updates"] for one in stock["optimizer_history"]] == [7]
    assert stock["model"] == {"w": torch.ones(1)}
    for kind in ("absolute", "shifted"):
        options: dict[str, Any] = {"shape_positions": kind, "shape_eval_offset": 0}
        model = to_stock(state("shape_transformer", **options))["cfg"]["model"]
        assert not any(name.startswith("shape_") for name in model)


def test_declared_options_are_kept() -> None:
    declared: dict[str, Any] = {
        "encoder_layers": 2,
        "dropout": 0.3,
        "encoder_learned_pos": True,
        "activation_fn": "gelu",
        "adaptive_softmax_cutoff": "100,200",
        "encoder_layers_to_keep": None,
        "max_source_positions": 512,
    }
    paths = {"encoder_embed_path": "/etc/passwd", "decoder_embed_path": "passwd"}
    cfg = to_stock(state(**declared, **paths))["cfg"]
    assert {cfg["model"].pop(name) for name in paths} == {None}
    assert cfg["model"] == {**declared, "_name": "transformer", "arch": "transformer"}
    assert cfg["task"] == {"_name": "translation", "data": None, **LANGUAGES}
    assert cfg["criterion"] == {"_name": "label_smoothed_cross_entropy", "label_smoothing": 0.1}


def strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [found for pair in value.items() for one in pair for found in strings(one)]
    if isinstance(value, list):
        return [found for one in value for found in strings(one)]
    return [value] if isinstance(value, str) else []


def test_other_options_are_dropped() -> None:
    original = state(gift=CODE, user_dir="/home/stranger/plugin", save_dir="${oc.env:HOME}")
    cfg = original["cfg"]
    cfg |= {"gift": CODE, "bpe": {"_name": "sentencepiece", "sentencepiece_model": "/x"}}
    cfg["task"] |= {"gift": CODE, "eval_bleu_args": CODE, "eval_bleu_detok": "/x"}
    cfg["criterion"] |= {"gift": CODE, "report_accuracy": True}
    stock = to_stock({**original, "gift": CODE, "task_state": {"gift": CODE}})
    values = strings({key: value for key, value in stock.items() if key != "model"})
    assert not [one for one in values if "gift" in one or "${" in one or "canary" in one]
    assert not [one for one in values if "stranger" in one or one == "/x"]
    assert stock["cfg"]["criterion"]["report_accuracy"] is True


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("encoder_layers", value) for value in (CODE, "6", 6.5, float("inf"), True, [6])),
        *(("dropout", CODE), ("dropout", {"a": 1}), ("encoder_learned_pos", 1)),
        *(("activation_fn", CODE), ("adaptive_softmax_cutoff", CODE)),
        *(("adaptive_softmax_cutoff", ["${oc.env:HOME}"]), ("decoder_output_dim", "${oc.env:A}")),
    ],
)
def test_value_of_another_type_is_rejected(option: str, value: Any) -> None:
    with pytest.raises(DataError, match=rf"model\.{option} "):
        to_stock(state(**{option: value}))


def test_unknown_names_are_replaced_or_rejected() -> None:
    assert to_stock(state(task=CODE))["cfg"]["task"]["_name"] == "translation"
    with pytest.raises(DataError, match="transformer_of_a_stranger"):
        to_stock(state("transformer_of_a_stranger"))


def test_one_direction_has_declared_options_only() -> None:
    """Fields that are not command-line options are also kept."""
    fields = {"bytenet_dilations": "1,2", "bytenet_encoder_kernel": 7, "bytenet_uncompressed": True}
    fields["bytenet_activation"] = "selu"
    original = state("bytenet", "reconstruction_translation", **fields, gift=CODE)
    original["model"] = {"models.en-de.w": torch.ones(1), "models.de-en.w": torch.ones(1)}
    original["cfg"]["task"] |= {"source_lang": "en", "target_lang": "de"}
    single = one_direction(original, "de", "en")
    assert single["cfg"]["model"] == {"_name": "bytenet", "arch": "bytenet", **fields}
    assert single["cfg"]["task"]["source_lang"] == "de"
    assert list(single["model"]) == ["w"]
    with pytest.raises(UsageError, match="de-en or en-de"):
        one_direction(original, None, None)
    original["cfg"]["model"].bytenet_dilations = CODE
    with pytest.raises(DataError, match=r"checkpoint's option model\.bytenet_dilations"):
        one_direction(original, "de", "en")


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
    original = state(arch, **options)
    original["cfg"]["task"] |= task
    with pytest.raises((DataError, ConfigurationError), match=culprit):
        to_stock(original)


@pytest.mark.parametrize(
    ("ours", "stock"),
    [
        (("tagged_translation", "denoising_cross_entropy"), ("translation", "cross_entropy")),
        (("translation", "label_smoothed_cross_entropy"),) * 2,
    ],
)
def test_tasks_and_criterions_become_those_of_fairseq(
    ours: tuple[str, str], stock: tuple[str, str]
) -> None:
    original = state(task=ours[0])
    original["cfg"]["criterion"]["_name"] = ours[1]
    cfg = to_stock(original)["cfg"]
    assert (cfg["task"]["_name"], cfg["criterion"]["_name"]) == stock


def test_quantization_noise_is_not_converted_to_ctranslate2(tmp_path: Path) -> None:
    """fairseq then multiplies embeddings by a matrix, which the converter would ignore."""
    pytest.importorskip("ctranslate2")
    stock = to_stock(state(quant_noise_pq=0.1))
    with pytest.raises(DataError, match="quantization noise"):
        write_ctranslate2(stock, TrainingData(tmp_path, "de", "en"), tmp_path / "out", "float32")


@pytest.mark.parametrize("to", ["fairseq", "onnx"])
def test_an_existing_output_is_kept(to: str, tmp_path: Path) -> None:
    (tmp_path / "model").write_text("mine")
    with pytest.raises(UsageError, match="model exists"):
        export("checkpoint.pt", tmp_path / "model", to)
    with pytest.raises(DataError, match="does not exist"):
        export("checkpoint.pt", tmp_path / "model", to, overwrite=True)
