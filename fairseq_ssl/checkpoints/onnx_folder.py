"""Folders of edit taggers in ONNX format: files, and validation before onnxruntime loads them.

A folder needs no other file. `model.onnx` computes the logits of the edits from ids, `edits.txt` is
the edit dictionary, and `config.json` has the fields of `OnnxConfig`. A tagger of words has the
`tokenizer.json` of its encoder, and other taggers have their token dictionary, `dict.txt`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_ssl.checkpoints.model_folder import FormatError, check_checksums, read_json
from fairseq_ssl.errors import DataError, UnsafeCheckpointError, import_optional
from fairseq_ssl.io.text_files import json_text

MODEL, CONFIG = "model.onnx", "config.json"
EDITS, DICTIONARY, TOKENIZER = "edits.txt", "dict.txt", "tokenizer.json"
WORD = "word"
UNITS = (WORD, "subword", "character")
TOKEN_INPUTS, WORD_INPUTS = ("ids",), ("ids", "first", "counts")
"""Names of the inputs. Those of a tagger of words are the fields of `SubwordBatch`."""
OUTPUTS = ("edits", "errors")
"""Names of the outputs. Only a tagger with an error detection head has the second one."""
OWN_DOMAINS = ("", "ai.onnx")
FORMAT = {"format": "fairseq-ssl edit tagger", "version": 1}


@dataclass(frozen=True)
class OnnxConfig:
    """The content of config.json."""

    edit_unit: str
    """Unit of the edit labels: word, subword or character."""
    max_source_positions: int
    """Maximum sentence length, including start and end symbols."""
    vocabulary: int
    """Number of ids that the encoder reads."""
    padding: int
    """Padding id of the encoder."""
    quantization: str
    """Data type of the multiplications, float32 or int8."""

    def write(self, folder: Path) -> None:
        """Write config.json."""
        text = json_text({**FORMAT, **asdict(self)})
        (folder / CONFIG).write_text(f"{text}\n", encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> OnnxConfig:
        """Read config.json. Raise FormatError if a field is missing or wrong."""
        content = read_json(folder / CONFIG, dict)
        if {name: content.get(name) for name in FORMAT} != FORMAT:
            raise FormatError(f"{CONFIG} does not have the format and version {FORMAT}")
        for field in fields(cls):
            value = content.get(field.name)
            if type(value).__name__ != field.type or (isinstance(value, int) and value < 0):
                raise FormatError(f"{CONFIG} has the {field.name} {str(value)[:40]!r}")
        config = cls(**{field.name: content[field.name] for field in fields(cls)})
        if config.edit_unit not in UNITS or not config.padding < config.vocabulary:
            raise FormatError(f"{CONFIG} has a wrong edit_unit, padding or vocabulary")
        return config

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs of the model."""
        return WORD_INPUTS if self.edit_unit == WORD else TOKEN_INPUTS


def read_onnx_folder(folder: Path) -> tuple[OnnxConfig, bytes]:
    """Return the configuration of an edit tagger and the content of its model.onnx, after checks.

    Raises:
        DataError: if a file is missing, damaged or does not match the other files.
        UnsafeCheckpointError: if the model names other files or operators that are not ONNX's.
    """
    if folder.is_file():
        raise DataError(f"{folder} is a file. Expected a folder of fairseq-ssl export --to onnx.")
    try:
        config = OnnxConfig.read(folder)
        files = (MODEL, EDITS, TOKENIZER if config.edit_unit == WORD else DICTIONARY)
        missing = [name for name in files if not (folder / name).is_file()]
        if missing:
            raise FormatError(f"{missing[0]} is missing")
        check_checksums(folder)
        content = (folder / MODEL).read_bytes()
        _check_model(content, config, folder / MODEL)
    except FormatError as error:
        raise format_error(folder, str(error)) from None
    except OSError as error:
        raise DataError(f"{error.filename or folder} cannot be read: {error.strerror}.") from None
    return config, content


def format_error(folder: Path, problem: str) -> DataError:
    """Return an error for a damaged folder."""
    return DataError(
        f"{folder} is not a complete edit tagger in ONNX format: {problem}. Export the model again "
        "with fairseq-ssl export."
    )


def _check_model(content: bytes, config: OnnxConfig, path: Path) -> None:
    onnx = import_optional("onnx", "Reading an ONNX model", "onnx")
    try:
        model = onnx.load_model_from_string(content)
    except Exception:  # protobuf has several exception types
        raise FormatError(f"{MODEL} is damaged") from None
    graph = model.graph
    if model.functions or model.training_info or graph.sparse_initializer:
        raise FormatError(f"{MODEL} has functions, training information or sparse weights")
    _check_interface(onnx, graph, config)
    for tensor in _tensors(onnx, graph, path):
        if tensor.external_data or tensor.data_location == onnx.TensorProto.EXTERNAL:
            raise UnsafeCheckpointError(
                f"{path} was rejected: the weight {tensor.name[:60]!r} is stored in another file. "
                "Expected a model in a single file."
            )
        try:
            values = onnx.numpy_helper.to_array(tensor)
        except Exception:  # numpy and onnx raise many types for damaged tensors
            raise FormatError(f"{MODEL}: the weight {tensor.name[:60]!r} is damaged") from None
        if values.dtype.kind == "f" and not np.isfinite(values).all() and values.size > 1:
            raise FormatError(f"{MODEL}: the weight {tensor.name[:60]!r} has infinite values")


def _check_interface(onnx: Any, graph: Any, config: OnnxConfig) -> None:
    """Raise FormatError unless the inputs and the outputs are those of an edit tagger."""
    weights = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in weights]
    names = tuple(value.name for value in graph.output)
    integer, real = onnx.TensorProto.INT64, onnx.TensorProto.FLOAT
    types = [value.type.tensor_type.elem_type for value in (*inputs, *graph.output)]
    if (
        tuple(value.name for value in inputs) != config.inputs
        or names not in (OUTPUTS[:1], OUTPUTS)
        or types != [integer] * len(inputs) + [real] * len(names)
    ):
        raise FormatError(f"{MODEL} does not have the inputs and outputs of a tagger of its unit")


def _tensors(onnx: Any, graph: Any, path: Path) -> Iterator[Any]:
    """Yield the tensors of a graph. Raise an error for operators with graphs and custom ones."""
    yield from graph.initializer
    kinds = onnx.AttributeProto
    for node in graph.node:
        if node.domain not in OWN_DOMAINS:
            raise UnsafeCheckpointError(
                f"{path} was rejected: it has the operator {node.op_type[:40]!r} of the domain "
                f"{node.domain[:40]!r}. Expected only operators of ONNX."
            )
        for attribute in node.attribute:
            if attribute.type in (kinds.GRAPH, kinds.GRAPHS, kinds.SPARSE_TENSOR) or (
                attribute.HasField("g") or attribute.graphs or attribute.HasField("sparse_tensor")
            ):
                raise FormatError(f"{MODEL} has the operator {node.op_type[:40]!r} with a graph")
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
