"""Validation of damaged and hostile folders of edit taggers in ONNX format."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fairseq_ssl
from fairseq_ssl.checkpoints.model_folder import CHECKSUMS
from fairseq_ssl.edits.decoding import DEFAULT
from fairseq_ssl.errors import DataError, UnsafeCheckpointError
from fairseq_ssl.inference import CorrectionConfig
from tests.pretrained import change_tokenizer
from tests.unit.generation import random_taggers

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")
pytest.importorskip("transformers")
fairseq_ssl.register()
from fairseq_ssl.inference.onnx_tagger import OnnxTagger  # noqa: E402
from fairseq_ssl.text.word_ids import WordIds  # noqa: E402

Damage = Callable[[Path], object]


def load(folder: Path) -> OnnxTagger:
    return OnnxTagger(folder, WordIds(), threads=1)


@pytest.fixture(params=["bert"])
def folder(
    request: pytest.FixtureRequest, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A copy of an exported tagger."""
    *_, path = random_taggers.exported(tmp_path_factory, request.param)
    return shutil.copytree(path, tmp_path / "model")


def graph(change: Callable[[Any], None]) -> Damage:
    def damage(folder: Path) -> None:
        model = onnx.load(folder / "model.onnx")
        change(model)
        (folder / "model.onnx").write_bytes(model.SerializeToString())

    return damage


def file(name: str, change: Callable[[bytes], bytes]) -> Damage:
    return lambda folder: (folder / name).write_bytes(change((folder / name).read_bytes()))


def settings(**changes: object) -> Damage:
    return file("config.json", lambda data: json.dumps({**json.loads(data), **changes}).encode())


def without(name: str) -> Damage:
    return lambda folder: (folder / name).unlink()


def weight(model: Any, name: str = "scores.edits.bias") -> Any:
    return next(one for one in model.graph.initializer if one.name.endswith(name))


def change_weight(
    change: Callable[[Any], Any], name: str = "scores.edits.bias"
) -> Callable[[Any], None]:
    def apply(model: Any) -> None:
        tensor = weight(model, name)
        values = change(onnx.numpy_helper.to_array(tensor)).astype(np.float32)
        tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))

    return apply


def shorter_raw_data(model: Any) -> None:
    tensor = weight(model)
    tensor.raw_data = tensor.raw_data[:-4]


def with_loop(model: Any) -> None:
    node = model.graph.node.add(op_type="Loop", name="loop")
    node.attribute.append(onnx.helper.make_attribute("body", onnx.GraphProto(name="body")))


def other_type(model: Any) -> None:
    model.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.INT32


def tokenizer_with_a_large_id(folder: Path) -> None:
    change_tokenizer(folder, lambda content: content["model"]["vocab"].update(zebra=10**6))


DAMAGES: dict[str, Damage] = {
    **{f"no {name}": without(name) for name in ("edits.txt", "model.onnx", "config.json")},
    "no tokenizer": without("tokenizer.json"),
    "config that is a list": file("config.json", lambda _: b"[]"),
    "other version": settings(version=1),
    "other unit": settings(edit_unit="sentence"),
    "unit of another model": settings(edit_unit="subword"),
    "text as a size": settings(max_source_positions="32"),
    "boolean as a size": settings(max_source_positions=True),
    "negative padding": settings(padding=-1),
    "wrong search": settings(search={"keep_bias": 2}),
    "search of another kind": settings(search=[1]),
    "padding beyond the vocabulary": settings(padding=10**6),
    "too large vocabulary": settings(vocabulary=10**6),
    "too small vocabulary": settings(vocabulary=3),
    "truncated model": file("model.onnx", lambda data: data[: len(data) // 2]),
    "empty model": file("model.onnx", lambda _: b""),
    "endless number": file("model.onnx", lambda _: b"\xff" * 10**6),
    "edits of another format": file("edits.txt", lambda _: b"KEEP\n"),
    "fewer edits": file("edits.txt", lambda data: data[: data.index(b"\n", 50) + 1]),
    "tokenizer that is not JSON": file("tokenizer.json", lambda _: b"x"),
    "tokenizer with ids beyond the vocabulary": tokenizer_with_a_large_id,
    "NaN": graph(change_weight(lambda values: values * np.nan)),
    "truncated weight": graph(shorter_raw_data),
    "huge weight": graph(lambda model: weight(model).dims.__setitem__(0, 2**40)),
    "fewer embeddings": graph(change_weight(lambda values: values[:-1], "tokens.weight")),
    "renamed input": graph(lambda model: setattr(model.graph.input[0], "name", "tokens")),
    "input of another type": graph(other_type),
    "unknown operator": graph(lambda model: setattr(model.graph.node[0], "op_type", "Attentive")),
    "loop": graph(with_loop),
    "function": graph(lambda model: model.functions.add(name="f", domain="d")),
}


@pytest.mark.parametrize("name", DAMAGES)
@pytest.mark.slow
def test_damaged_folders_are_rejected(
    name: str, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / CHECKSUMS).unlink()
    DAMAGES[name](folder)
    with pytest.raises(DataError) as caught:
        load(folder)
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")


def test_a_search_option_that_the_folder_lacks_has_its_default(folder: Path) -> None:
    (folder / CHECKSUMS).unlink()
    settings(search={"keep_bias": 0.25})(folder)
    assert CorrectionConfig((folder,), iterations=2).search == replace(
        DEFAULT, keep_bias=0.25, iterations=2
    )


def external(location: str) -> Damage:
    def change(model: Any) -> None:
        tensor = weight(model)
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=location)

    def damage(folder: Path) -> None:
        (folder / "weights").write_bytes(weight(onnx.load(folder / "model.onnx")).raw_data)
        graph(change)(folder)

    return damage


def external_in_a_constant(model: Any) -> None:
    tensor = onnx.TensorProto(dims=[1], data_type=1, data_location=onnx.TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="/etc/passwd")
    node = model.graph.node.add(op_type="Constant", name="c", output=["c"])
    node.attribute.append(onnx.AttributeProto(name="value", type=4, t=tensor))


def custom_operator(model: Any) -> None:
    model.opset_import.add(domain="com.example", version=1)
    model.graph.node.add(op_type="Run", domain="com.example", output=["r"])


ATTACKS = {
    "file outside the folder": external("/etc/passwd"),
    "parent folder": external("../weights"),
    "file in the folder": external("weights"),
    "file in a constant": graph(external_in_a_constant),
    "custom operator": graph(custom_operator),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_other_files_and_custom_operators_are_rejected(name: str, folder: Path) -> None:
    (folder / CHECKSUMS).unlink()
    load(folder)
    ATTACKS[name](folder)
    with pytest.raises(UnsafeCheckpointError, match="was rejected"):
        load(folder)


def test_checksums_detect_every_changed_byte(folder: Path) -> None:
    load(folder)
    graph(change_weight(lambda values: values + 1))(folder)
    with pytest.raises(DataError, match=r"model.onnx does not match its checksum"):
        load(folder)


@pytest.mark.parametrize("folder", ["subword"], indirect=True)
@pytest.mark.slow
def test_damaged_dictionaries_of_tokens_are_rejected(folder: Path) -> None:
    (folder / CHECKSUMS).unlink()
    load(folder)
    for content in ("a 1\nb\n", "a 1\na 1\n", "a 1\n"):
        (folder / "dict.txt").write_text(content)
        with pytest.raises(DataError, match=r"dict\.txt"):
            load(folder)
