"""Validation of the options in checkpoints, and removal of paths."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import torch

import fairseq_ssl
from fairseq_ssl.checkpoints.files import model_options, read_checkpoint
from fairseq_ssl.checkpoints.stored_options import check_options
from fairseq_ssl.errors import UnsafeCheckpointError

CODE = "__import__('os').system('touch canary')"


def checked(section: str, **options: Any) -> Any:
    """Check options in a section of `cfg`. Return the section."""
    state = {"cfg": {section: options}}
    check_options(state, "evil.pt")
    return state["cfg"][section]


REJECTED: dict[str, tuple[dict[Any, Any], str]] = {
    "code": ({"encoder_layers": CODE}, "encoder_layers"),
    "code in a list": ({"parts": [{"adam_betas": CODE}]}, "adam_betas"),
    "code in JSON": ({"model_json": json.dumps({"conv_feature_layers": CODE})}, "conv_feature"),
    "a resolver": ({"seed": "${oc.env:HOME}"}, "seed"),
    "a reference": ({"a": [["x ${common.seed}"]]}, "interpolation"),
    "a resolver in a name": ({"${oc.env:HOME}": 1}, "interpolation"),
    "a resolver in JSON": ({"mixture_expert_options": '{"x": "${oc.env:HOME}"}'}, "interpolation"),
    "a path for a name": ({"arch": "../evil"}, "arch"),
    "a path for a language": ({"source_lang": "en/../../x"}, "source_lang"),
    "a tensor": ({"x": torch.zeros(1)}, "x is a Tensor"),
    "a function": ({"x": print}, "x is a builtin_function"),
    "a set": ({"x": {1}}, "x is a set"),
    "a key that is a tuple": ({(1, 2): 3}, "a tuple key"),
}


@pytest.mark.parametrize(("options", "culprit"), REJECTED.values(), ids=REJECTED)
def test_hostile_options_are_rejected(options: dict[Any, Any], culprit: str) -> None:
    states: list[dict[str, Any]] = [{"cfg": {name: options}} for name in ("model", "lr_scheduler")]
    if all(isinstance(name, str) for name in options):
        states.append({"args": Namespace(**options)})
    for state in states:
        with pytest.raises(UnsafeCheckpointError, match=rf"evil\.pt was rejected.*{culprit}"):
            check_options(state, "evil.pt")


def test_deeply_nested_and_huge_options_are_rejected() -> None:
    recursive: list[Any] = []
    recursive.append(recursive)
    doubled: list[Any] = [1]
    for _ in range(18):
        doubled = [doubled, doubled]
    for value in (recursive, doubled, "[" * 500 + "]" * 500):
        with pytest.raises(UnsafeCheckpointError):
            checked("model", x=value if not isinstance(value, str) else [json.loads(value)])


def test_paths_are_replaced_by_the_empty_values_of_fairseq() -> None:
    section = checked(
        "model",
        data="/etc",
        w2v_path="a.pt",
        encoder_embed_path="glove.txt",
        seq2seq_path="b.pt",
        user_dir="evil",
        nested={"sentencepiece_model": "x.model"},
        legacy=Namespace(data="/etc", encoder_embed_path="glove.txt"),
        dropout=0.1,
        mixture_expert_options='{"_name": "lstm_classifier", "classifier_lm": "/x", "layers": 2}',
        classifier_encoder_options='{"arch":  "transformer_tiny"}',
    )
    legacy = section.pop("legacy")
    assert vars(legacy) == {"data": None, "encoder_embed_path": None}
    assert section == {
        **dict.fromkeys(("data", "w2v_path"), "???"),
        **dict.fromkeys(("encoder_embed_path", "user_dir")),
        "seq2seq_path": "",
        "nested": {"sentencepiece_model": "???"},
        "dropout": 0.1,
        "mixture_expert_options": json.dumps(
            {"_name": "lstm_classifier", "classifier_lm": None, "layers": 2}
        ),
        "classifier_encoder_options": '{"arch":  "transformer_tiny"}',
    }


def test_paths_of_old_checkpoints_are_removed_so_that_defaults_apply() -> None:
    state = {
        "args": Namespace(data=["/etc"], save_dir="/tmp", user_dir="evil", arch="lstm", lr=[1.0])
    }
    check_options(state, "old.pt")
    assert vars(state["args"]) == {"arch": "lstm", "lr": [1.0]}


def test_options_of_fairseq_are_unchanged() -> None:
    options = {
        "conv_feature_layers": "[(512,10,5)] + [(512,3,2)] * 4",
        "adam_betas": "(0.9, 0.999)",
        "adaptive_softmax_cutoff": None,
        "lang_pairs": "de-en,fr-en",
        "source_lang": "zh-Hans",
        "target_lang": "ca@valencia",
        "classification_unlabeled": "unlabeled:valid",
        "post_process": "@@ ",
        "eval_bleu_args": '{"beam": 4, "lenpen": 0.6}',
        "_missing": "???",
        "update_freq": (1,),
        "epochs": {1: 0.5},
    }
    assert checked("model", **options) == options


def test_noises_of_version_0_2_get_their_new_names() -> None:
    old = "direct:keep=0.5, denoise:deviation=0.1:mean=0.3,filtering,spelling:letters=spell,spell"
    state = {"cfg": {"task": {"noise": old}}, "args": Namespace(noise=old)}
    check_options(state, "old.pt")
    new = "direct:keep=0.5, shuffle:std=0.1:mean=0.3,negatives,characters:letters=spell,confusion"
    assert state == {"cfg": {"task": {"noise": new}}, "args": Namespace(noise=new)}
    assert checked("task", noise=new) == {"noise": new}


def test_read_checkpoint_checks_options(tmp_path: Path) -> None:
    path = tmp_path / "evil.pt"
    state = {"model": {}, "args": None, "cfg": {"model": {"_name": "fconv", "data": "/etc"}}}
    torch.save(state, path)
    assert model_options(read_checkpoint(path)) == {"_name": "fconv", "data": "???"}
    state["cfg"]["model"]["encoder_layers"] = CODE  # type: ignore[index]
    torch.save(state, path)
    with pytest.raises(UnsafeCheckpointError, match=r"evil\.pt was rejected.*encoder_layers"):
        read_checkpoint(path)


@pytest.mark.parametrize("is_old", [True, False])
def test_data_folder_that_the_user_passed_is_kept(tmp_path: Path, is_old: bool) -> None:
    fairseq_ssl.register()
    from fairseq import options

    words = [str(tmp_path / "mine"), "--path", "model.pt"]
    options.parse_args_and_arch(options.get_generation_parser(), words)
    for folder, is_kept in ((tmp_path / "mine", True), (tmp_path / "other", False)):
        values = {"data": str(folder), "user_dir": str(folder)}
        state: Any = {"args": Namespace(**values)} if is_old else {"cfg": {"task": dict(values)}}
        check_options(state, "model.pt")
        checked_options = vars(state["args"]) if is_old else state["cfg"]["task"]
        expected = str(folder) if is_kept else None if is_old else "???"
        assert checked_options.get("data") == expected
        assert checked_options.get("user_dir") is None
