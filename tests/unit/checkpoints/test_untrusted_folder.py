"""Folders of language models that would run code or read other files, or whose files disagree."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("transformers")

from fairseq_ssl.checkpoints import hugging_face, pretrained
from fairseq_ssl.errors import DataError, UnsafeCheckpointError
from tests import pretrained as tiny
from tests.conftest import Attack

LOADERS = {
    "model": pretrained.load_model,
    "model with head": lambda folder: pretrained.load_model(folder, has_head=True),
    "configuration": pretrained.load_config,
    "tokenizer": pretrained.load_tokenizer,
    "edit tagger": hugging_face.read_config,
}
"""All functions that read a folder. --edit-init reads the configuration first."""

CODE = "import pathlib\npathlib.Path({canary!r}).touch()\n"
ATTACKS: list[tuple[str, dict[str, Any]]] = [
    ("config.json", {"auto_map": {"AutoConfig": "attack.Attack", "AutoModel": "attack.Attack"}}),
    ("config.json", {"auto_map": {"AutoConfig": "attack.Attack"}, "model_type": "attack"}),
    ("config.json", {"auto_map": {"AutoModel": "a/b--attack.Attack"}}),
    ("config.json", {"custom_pipelines": {"x": {"impl": "attack.Attack"}}}),
    ("config.json", {"trust_remote_code": True}),
    ("config.json", {"attn_implementation": "stranger/attention"}),
    ("config.json", {"part": [{"_attn_implementation": "stranger/x:y"}]}),
    ("config.json", {"transformers_weights": "../secret.safetensors"}),
    ("config.json", {"quantization_config": {"quant_method": "bitsandbytes"}}),
    ("config.json", {"model_type": "detr", "backbone": "/x", "use_pretrained_backbone": True}),
    ("tokenizer_config.json", {"auto_map": {"AutoTokenizer": ["attack.Attack", None]}}),
    ("tokenizer_config.json", {"tokenizer_file": "/secret.json"}),
    ("tokenizer_config.json", {"fast_tokenizer_files": ["../tokenizer.4.0.json"]}),
    ("tokenizer_config.json", {"vocab_file": "/etc/passwd"}),
    ("tokenizer_config.json", {"mecab_kwargs": {"mecab_option": "-r /x"}}),
    ("adapter_config.json", {"base_model_name_or_path": "/secret"}),
    ("model.safetensors.index.json", {"weight_map": {"w": "../../secret.safetensors"}}),
    ("pytorch_model.bin.index.json", {"weight_map": {"w": "/secret.bin"}}),
]
"""Files, and settings that would run code or read other files."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.bert(tmp_path_factory.mktemp("models") / "bert")


@pytest.fixture
def hostile(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copy a model and add Python code that creates `canary`. Prompts are answered with yes."""
    folder = tmp_path / "hostile"
    folder.mkdir()
    for path in model.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    (folder / "attack.py").write_text(CODE.format(canary=str(tmp_path / "canary")))
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    return folder


def change(path: Path, settings: dict[str, Any]) -> None:
    content = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**content, **settings}))


def test_attack_succeeds_without_protection(hostile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import transformers

    cache = str(hostile.parent / "modules")
    monkeypatch.setattr(transformers.dynamic_module_utils, "HF_MODULES_CACHE", cache)
    change(hostile / "config.json", {"auto_map": {"AutoConfig": "attack.Attack"}})
    with pytest.raises(AttributeError, match="Attack"):
        transformers.AutoConfig.from_pretrained(str(hostile), trust_remote_code=True)
    assert (hostile.parent / "canary").exists()


@pytest.mark.parametrize(("name", "settings"), ATTACKS)
def test_hostile_folder_is_rejected(hostile: Path, name: str, settings: dict[str, Any]) -> None:
    change(hostile / name, settings)
    with pytest.raises(UnsafeCheckpointError, match=re.escape(str(hostile))):
        hugging_face.check_model_folder(hostile)


@pytest.mark.parametrize("number", [0, 10, 15])
@pytest.mark.parametrize("loader", LOADERS)
def test_every_loader_checks_the_folder(hostile: Path, number: int, loader: str) -> None:
    name, settings = ATTACKS[number]
    change(hostile / name, settings)
    with pytest.raises(UnsafeCheckpointError) as raised:
        LOADERS[loader](hostile)
    assert "\n" not in str(raised.value)
    assert not (hostile.parent / "canary").exists()


def test_harmless_settings_are_accepted(hostile: Path) -> None:
    labels = {"backbone": 0, "auto_map": 1}
    config = {"label2id": labels, "attn_implementation": "eager", "use_pretrained_backbone": False}
    change(hostile / "config.json", config)
    change(hostile / "tokenizer_config.json", {"special_tokens_map_file": "/gone.json"})
    (hostile / "data_config.json").write_text('[{"name": "sentences.jsonl.gz", "weight": 1}]')
    assert all(load(hostile) for load in LOADERS.values())


def test_pickle_is_not_run(hostile: Path) -> None:
    weights = pretrained.load_model(hostile, has_head=True).state_dict()
    torch.save(
        {**weights, "gift": Attack(hostile.parent / "canary")}, hostile / "pytorch_model.bin"
    )
    pretrained.load_model(hostile)  # model.safetensors comes first
    (hostile / "model.safetensors").unlink()
    for load in (LOADERS["model"], LOADERS["model with head"]):
        with pytest.raises(DataError) as raised:
            load(hostile)
        assert "\n" not in str(raised.value)
    assert not (hostile.parent / "canary").exists()


@pytest.mark.parametrize("kind", ["timm_wrapper", "detr", "attack", None, ["bert"]])
def test_other_kinds_of_models_are_rejected(hostile: Path, kind: Any) -> None:
    change(hostile / "config.json", {"model_type": kind})
    for load in (pretrained.load_model, pretrained.load_tokenizer):
        with pytest.raises(DataError, match="model_type"):
            load(hostile)
    with pytest.raises(DataError, match="model_type"):
        pretrained.of_config({"model_type": kind})


@pytest.mark.parametrize(
    "settings",
    [
        {"hidden_size": "__import__('os')"},
        {"hidden_size": 7},
        {"no_such": {"deep": [{"auto_map": {"AutoModel": "x"}}]}},
    ],
)
def test_configuration_in_a_checkpoint_is_checked(settings: dict[str, Any]) -> None:
    with pytest.raises(DataError) as raised:
        pretrained.of_config({"model_type": "bert", **settings})
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"[]", b'{"a": ', b"[" * 100_000])
def test_damaged_tokenizer_files_are_reported(hostile: Path, content: bytes) -> None:
    (hostile / "tokenizer.json").write_bytes(content)
    with pytest.raises(DataError) as raised:
        pretrained.load_tokenizer(hostile)
    assert "\n" not in str(raised.value)


def test_tokenizer_error_is_reported(hostile: Path) -> None:
    assert pretrained.subword_segmenter(hostile)("ab")
    tiny.change_tokenizer(hostile, lambda json: json["model"].update(unk_token="[GONE]"))
    with pytest.raises(DataError, match="cannot tokenize '☃'"):
        pretrained.subword_segmenter(hostile)("☃")


def test_panics_of_a_tokenizer_are_reported(hostile: Path) -> None:
    tiny.change_tokenizer(hostile, tiny.add_panic)
    segment = pretrained.subword_segmenter(hostile)
    with pytest.raises(DataError, match=r"cannot tokenize 'a+'"):
        segment(tiny.PANIC)
    assert segment("ab") == ["a", "##b"]
    tiny.change_tokenizer(hostile, lambda json: json.update(normalizer=tiny.DAMAGED_MAP))
    with pytest.raises(DataError, match="cannot be loaded"):
        pretrained.subword_segmenter(hostile)


def test_ids_without_an_embedding_are_rejected(hostile: Path) -> None:
    pretrained.load_tokenizer(hostile)
    tiny.change_tokenizer(hostile, lambda json: json["model"]["vocab"].update(zebra=1000))
    with pytest.raises(DataError, match="ids up to 1000"):
        pretrained.load_tokenizer(hostile)
