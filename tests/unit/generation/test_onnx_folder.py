"""Validation of damaged and hostile folders of edit taggers in ONNX format."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fairseq_ssl
from fairseq_ssl.checkpoints.model_folder import CHECKSUMS
from fairseq_ssl.data.oov_dictionary import OovDictionary
from fairseq_ssl.errors import ConfigurationError, DataError, UnsafeCheckpointError
from tests.pretrained import change_tokenizer
from tests.unit.generation import random_taggers

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")
pytest.importorskip("transformers")
fairseq_ssl.register()
from fairseq_ssl.generation.onnx_tagger import load_onnx_tagger  # noqa: E402
from fairseq_ssl.generation.tagger_export import write_onnx  # noqa: E402

Damage = Callable[[Path], None]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Exported taggers of words and of subwords, without checksums."""
    path = tmp_path_factory.mktemp("exported")
    shutil.copytree(random_taggers.exported_words(tmp_path_factory) / "onnx", path / "word")
    write_onnx(*random_taggers.token_tagger(edit_unfactorized=True), path / "subword")
    return path


@pytest.fixture
def folder(exported: Path, tmp_path: Path) -> Path:
    return copied(exported / "word", tmp_path)


def copied(source: Path, parent: Path) -> Path:
    path = shutil.copytree(source, parent / "model")
    (path / CHECKSUMS).unlink()
    load_onnx_tagger(path)
    return path


def graph(change: Callable[[Any], None]) -> Damage:
    def damage(folder: Path) -> None:
        model = onnx.load(folder / "model.onnx")
        change(model)
        onnx.save(model, folder / "model.onnx")

    return damage


def settings(**changes: object) -> Damage:
    def damage(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return damage


def without(name: str) -> Damage:
    return lambda folder: (folder / name).unlink()


def text(name: str, content: str) -> Damage:
    def damage(folder: Path) -> None:
        (folder / name).write_text(content)

    return damage


def truncate(folder: Path) -> None:
    data = (folder / "model.onnx").read_bytes()
    (folder / "model.onnx").write_bytes(data[: len(data) // 2])


def weight(model: Any, name: str = "scores.edits.bias") -> Any:
    return next(one for one in model.graph.initializer if one.name.endswith(name))


def replace(model: Any, values: Any, name: str = "scores.edits.bias") -> None:
    tensor = weight(model, name)
    tensor.CopyFrom(onnx.numpy_helper.from_array(values.astype(np.float32), tensor.name))


def values(model: Any, name: str = "scores.edits.bias") -> Any:
    return onnx.numpy_helper.to_array(weight(model, name)).copy()


def with_nan(model: Any) -> None:
    changed = values(model)
    changed[0] = np.nan
    replace(model, changed)


def shorter_raw_data(model: Any) -> None:
    tensor = weight(model)
    tensor.raw_data = tensor.raw_data[:-4]


def huge_shape(model: Any) -> None:
    weight(model).dims[0] = 2**40


def smaller_vocabulary(model: Any) -> None:
    replace(model, values(model, "tokens.weight")[:-1], "tokens.weight")


def renamed_input(model: Any) -> None:
    model.graph.input[0].name = "tokens"


def other_type(model: Any) -> None:
    model.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.INT32


def unknown_operator(model: Any) -> None:
    model.graph.node[0].op_type = "Attentive"


def with_loop(model: Any) -> None:
    node = model.graph.node.add(op_type="Loop", name="loop")
    node.attribute.append(onnx.helper.make_attribute("body", onnx.GraphProto(name="body")))


def with_function(model: Any) -> None:
    model.functions.add(name="f", domain="d")


def tokenizer_with_a_large_id(folder: Path) -> None:
    change_tokenizer(folder, lambda content: content["model"]["vocab"].update(zebra=10**6))


DAMAGES: dict[str, Damage] = {
    **{f"no {name}": without(name) for name in ("edits.txt", "model.onnx", "tokenizer.json")},
    "no config.json": without("config.json"),
    "config that is a list": text("config.json", "[]"),
    "config that is not JSON": text("config.json", "{"),
    "other version": settings(version=2),
    "other format": settings(format="x"),
    "other unit": settings(edit_unit="sentence"),
    "unit of another model": settings(edit_unit="subword"),
    "text as a size": settings(max_source_positions="32"),
    "boolean as a size": settings(max_source_positions=True),
    "negative padding": settings(padding=-1),
    "padding beyond the vocabulary": settings(padding=10**6),
    "too large vocabulary": settings(vocabulary=10**6),
    "too small vocabulary": settings(vocabulary=3),
    "truncated model": truncate,
    "model that is text": text("model.onnx", "model"),
    "empty model": text("model.onnx", ""),
    "edits of another format": text("edits.txt", "KEEP\n"),
    "fewer edits": text("edits.txt", "fairseq-ssl edit dictionary, form 1\nlongest 2\n"),
    "tokenizer that is not JSON": text("tokenizer.json", "x"),
    "tokenizer with ids beyond the vocabulary": tokenizer_with_a_large_id,
    "NaN": graph(with_nan),
    "truncated weight": graph(shorter_raw_data),
    "huge weight": graph(huge_shape),
    "fewer embeddings": graph(smaller_vocabulary),
    "renamed input": graph(renamed_input),
    "input of another type": graph(other_type),
    "unknown operator": graph(unknown_operator),
    "loop": graph(with_loop),
    "function": graph(with_function),
}


def test_a_checkpoint_is_not_a_folder(tmp_path: Path) -> None:
    (tmp_path / "model.pt").write_bytes(b"PK")
    with pytest.raises(DataError, match=r"model\.pt is a file\. Expected a folder of fairseq-ssl"):
        load_onnx_tagger(tmp_path / "model.pt")


@pytest.mark.parametrize("name", DAMAGES)
@pytest.mark.slow
def test_damaged_folders_are_rejected(
    name: str, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    DAMAGES[name](folder)
    with pytest.raises(DataError) as caught:
        load_onnx_tagger(folder)
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")


def external(location: str) -> Damage:
    def change(model: Any) -> None:
        tensor = weight(model)
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=location)

    def damage(folder: Path) -> None:  # onnx.save would look for the data
        model = onnx.load(folder / "model.onnx")
        (folder / "weights").write_bytes(weight(model).raw_data)
        change(model)
        (folder / "model.onnx").write_bytes(model.SerializeToString())

    return damage


def external_in_a_constant(folder: Path) -> None:
    model = onnx.load(folder / "model.onnx")
    tensor = onnx.TensorProto(dims=[1], data_type=1, data_location=onnx.TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="/etc/passwd")
    node = model.graph.node.add(op_type="Constant", name="c", output=["c"])
    node.attribute.append(onnx.AttributeProto(name="value", type=4, t=tensor))
    (folder / "model.onnx").write_bytes(model.SerializeToString())


def custom_operator(folder: Path) -> None:
    model = onnx.load(folder / "model.onnx")
    model.opset_import.add(domain="com.example", version=1)
    model.graph.node.add(op_type="Run", domain="com.example", output=["r"])
    (folder / "model.onnx").write_bytes(model.SerializeToString())


ATTACKS = {
    "file outside the folder": external("/etc/passwd"),
    "parent folder": external("../weights"),
    "file in the folder": external("weights"),
    "file in a constant": external_in_a_constant,
    "custom operator": custom_operator,
}


@pytest.mark.parametrize("name", ATTACKS)
def test_other_files_and_custom_operators_are_rejected(name: str, folder: Path) -> None:
    ATTACKS[name](folder)
    with pytest.raises(UnsafeCheckpointError, match="was rejected"):
        load_onnx_tagger(folder)


def test_checksums_detect_every_changed_byte(exported: Path, tmp_path: Path) -> None:
    path = shutil.copytree(exported / "word", tmp_path / "model")
    load_onnx_tagger(path)
    graph(lambda model: replace(model, values(model) + 1))(path)
    with pytest.raises(DataError, match=r"model.onnx does not match its checksum"):
        load_onnx_tagger(path)


@pytest.mark.parametrize(
    ("content", "problem"),
    [("a 1\nb\n", "is damaged"), ("a 1\na 1\n", "is damaged"), ("a 1\n", "has 5 symbols")],
)
def test_damaged_dictionaries_of_tokens_are_rejected(
    content: str, problem: str, exported: Path, tmp_path: Path
) -> None:
    path = copied(exported / "subword", tmp_path)
    (path / "dict.txt").write_text(content)
    with pytest.raises(DataError, match=rf"dict\.txt {problem}"):
        load_onnx_tagger(path)


def test_the_dictionaries_of_an_ensemble_must_agree(exported: Path) -> None:
    with pytest.raises(ConfigurationError, match="differs from that of the other models"):
        load_onnx_tagger(exported / "subword", 1, OovDictionary())
