"""Options that exported and averaged checkpoints keep."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import torch

import fairseq_ssl
from fairseq_ssl.checkpoints.averaging import average
from fairseq_ssl.checkpoints.conversion import one_direction, to_stock
from fairseq_ssl.errors import DataError, UsageError

fairseq_ssl.register()
CODE = "__import__('os').system('touch canary')"


def state(arch: str = "transformer", task: str = "translation", **options: Any) -> dict[str, Any]:
    """Return a checkpoint with these model options."""
    languages = {"source_lang": "en", "target_lang": "de"}
    return {
        "args": None,
        "cfg": {
            "common": {"user_dir": "/home/stranger/plugin", "seed": 7},
            "model": Namespace(_name=arch, arch=arch, **options),
            "task": {"_name": task, "data": "/home/stranger/data", **languages},
            "criterion": {"_name": "label_smoothed_cross_entropy", "label_smoothing": 0.1},
        },
        "model": {"w": torch.ones(1)},
        "optimizer_history": [{"num_updates": 7, "lr_scheduler_state": {"best": CODE}}],
    }


def strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [found for pair in value.items() for one in pair for found in strings(one)]
    if isinstance(value, list):
        return [found for one in value for found in strings(one)]
    return [value] if isinstance(value, str) else []


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
    languages = {"source_lang": "en", "target_lang": "de"}
    assert cfg["task"] == {"_name": "translation", "data": None, **languages}
    assert cfg["criterion"] == {"_name": "label_smoothed_cross_entropy", "label_smoothing": 0.1}


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
    original = state("bytenet", "reconstruction_translation", bytenet_dilations="1,2", gift=CODE)
    original["model"] = {"models.en-de.w": torch.ones(1), "models.de-en.w": torch.ones(1)}
    single = one_direction(original, "de", "en")
    assert single["cfg"]["model"] == {
        "_name": "bytenet",
        "arch": "bytenet",
        "bytenet_dilations": "1,2",
    }
    assert single["cfg"]["task"]["source_lang"] == "de"
    assert list(single["model"]) == ["w"]
    with pytest.raises(UsageError, match="de-en or en-de"):
        one_direction(original, None, None)
    original["cfg"]["model"].bytenet_dilations = CODE
    with pytest.raises(DataError, match=r"model\.bytenet_dilations of the checkpoint"):
        one_direction(original, "de", "en")


def test_average_keeps_options_but_no_paths(tmp_path: Path) -> None:
    original = state(save_dir="runs(1)", adaptive_softmax_cutoff="(100, 200)")
    original["cfg"]["common"]["wandb_project"] = "GEC (baseline)"
    torch.save(original, tmp_path / "a.pt")
    cfg = average([tmp_path / "a.pt"])["cfg"]
    assert cfg["model"].adaptive_softmax_cutoff == "(100, 200)"
    assert (cfg["model"].save_dir, cfg["task"]["data"]) == (None, "???")
    assert cfg["common"] == {"user_dir": None, "seed": 7, "wandb_project": "GEC (baseline)"}
