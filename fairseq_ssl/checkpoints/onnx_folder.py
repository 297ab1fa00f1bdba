"""Edit taggers in ONNX format: the files of a folder, and their validation before loading.

A folder is self-contained. `model.onnx` scores edits, `edits.txt` is the edit dictionary, and
`config.json` contains the fields of `OnnxConfig`. The folder of a word-level tagger also contains
the `tokenizer.json` of its encoder, and other folders contain the token dictionary, `dict.txt`. The
files are read without the package onnx, because it is larger than all other required packages.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from fairseq_ssl.checkpoints.model_folder import FormatError, check_checksums, read_json
from fairseq_ssl.edits.decoding import CorrectionSearch
from fairseq_ssl.errors import DataError, UnsafeCheckpointError, UsageError
from fairseq_ssl.io.text_files import json_text

MODEL, CONFIG = "model.onnx", "config.json"
EDITS, DICTIONARY, TOKENIZER = "edits.txt", "dict.txt", "tokenizer.json"
WORD = "word"
UNITS = (WORD, "subword", "character")
TOKEN_INPUTS, WORD_INPUTS = ("ids",), ("ids", "first", "counts")
"""Input names. The inputs of a word-level tagger are the fields of `SubwordBatch`."""
TOP_OUTPUTS = ("kept", "errors", "labels", "probabilities")
"""Output names for a single model, the fields of `TopEdits`."""
ALL_OUTPUTS = ("edits", "errors")
"""Output names for ensembles: the probabilities of all edits, and the error probabilities."""
OWN_DOMAINS = ("", "ai.onnx")
FORMAT = {"format": "fairseq-ssl edit tagger", "version": 2}


@dataclass(frozen=True)
class OnnxConfig:
    """The content of config.json."""

    edit_unit: str
    """Unit of the edit labels: word, subword or character."""
    max_source_positions: int
    """Maximum sentence length in tokens or subwords, including start and end symbols."""
    vocabulary: int
    """Vocabulary size of the encoder."""
    padding: int
    """Padding id of the encoder."""
    quantization: str
    """Data type of matrix multiplications, float32 or int8."""
    search: CorrectionSearch
    """Search options that commands use by default."""

    def write(self, folder: Path) -> None:
        """Write config.json to a folder."""
        text = json_text({**FORMAT, **asdict(self)})
        (folder / CONFIG).write_text(f"{text}\n", encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> OnnxConfig:
        """Read config.json from a folder. Raise FormatError if a field is missing or invalid."""
        content = read_json(folder / CONFIG, dict)
        if (stored := {name: content.get(name) for name in FORMAT}) != FORMAT:
            raise FormatError(f"{CONFIG} contains {str(stored)[:80]}, expected {FORMAT}")
        values = {field.name: content.get(field.name) for field in fields(cls)}
        for field in fields(cls)[:-1]:
            value = values[field.name]
            if type(value).__name__ != field.type or (isinstance(value, int) and value < 0):
                raise FormatError(f"{field.name} in {CONFIG} is invalid: {str(value)[:40]!r}")
        if values["edit_unit"] not in UNITS or not values["padding"] < values["vocabulary"]:
            raise FormatError(f"{CONFIG} contains an unknown edit_unit or padding >= vocabulary")
        try:
            return cls(**{**values, "search": CorrectionSearch(**values["search"])})
        except (TypeError, UsageError) as error:
            raise FormatError(f"{CONFIG} contains invalid search options ({error})") from None

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the model's inputs."""
        return WORD_INPUTS if self.edit_unit == WORD else TOKEN_INPUTS


def is_onnx_folder(path: Path) -> bool:
    """Return True if a folder contains model.onnx."""
    return (path / MODEL).is_file()


def read_onnx_config(folder: Path) -> OnnxConfig:
    """Return the configuration of an edit tagger. Raise DataError if it is missing or damaged."""
    try:
        return OnnxConfig.read(folder)
    except FormatError as error:
        raise format_error(folder, str(error)) from None
    except OSError as error:
        raise format_error(folder, f"{CONFIG} cannot be read: {error.strerror}") from None


def read_onnx_folder(folder: Path) -> OnnxConfig:
    """Check all files of an edit tagger in ONNX format. Return its configuration.

    Raises:
        DataError: if a file is missing, damaged or does not match its checksum.
        UnsafeCheckpointError: if the model refers to other files or contains custom operators.
    """
    config = read_onnx_config(folder)
    try:
        files = (MODEL, EDITS, TOKENIZER if config.edit_unit == WORD else DICTIONARY)
        missing = [name for name in files if not (folder / name).is_file()]
        if missing:
            raise FormatError(f"{missing[0]} is missing")
        check_checksums(folder)
        _check_model(folder / MODEL)
    except FormatError as error:
        raise format_error(folder, str(error)) from None
    except OSError as error:
        raise DataError(f"{error.filename or folder} cannot be read: {error.strerror}.") from None
    return config


def format_error(folder: Path, problem: str) -> DataError:
    """Return the error for an incomplete or damaged folder."""
    return DataError(
        f"{folder} is not a complete edit tagger in ONNX format: {problem}. Export the model again "
        "with fairseq-ssl export."
    )


TRAINING, FUNCTIONS, GRAPH = 20, 25, 7
NODE, INITIALIZER, SPARSE_INITIALIZER = 1, 5, 15
OP_TYPE, ATTRIBUTE, DOMAIN = 4, 5, 7
TENSOR, TENSORS, GRAPHS_OR_SPARSE = 5, 10, (6, 11, 22, 23)
EXTERNAL_DATA, DATA_LOCATION = 13, 14
"""Field numbers in ONNX protobuf messages. Each line contains the fields of one message type."""


def _check_model(path: Path) -> None:
    """Raise UnsafeCheckpointError if a model contains custom operators or external data.

    Raise FormatError for functions, subgraphs, sparse weights, training information and damaged
    files. onnxruntime checks everything else.
    """
    try:
        for number, part in _fields(memoryview(path.read_bytes())):
            if number in (TRAINING, FUNCTIONS):
                raise FormatError(f"{MODEL} contains functions or training information")
            if number == GRAPH:
                _check_graph(part, path)
    except (LookupError, TypeError):
        raise FormatError(f"{MODEL} is damaged") from None


def _check_graph(graph: Any, path: Path) -> None:
    for number, part in _fields(graph):
        if number == SPARSE_INITIALIZER:
            raise FormatError(f"{MODEL} contains sparse weights")
        if number == INITIALIZER:
            _check_tensor(part, path)
        if number == NODE:
            _check_node(part, path)


def _check_node(node: Any, path: Path) -> None:
    fields = list(_fields(node))
    name, domain = (
        next((bytes(part).decode("utf-8", "replace")[:40] for at, part in fields if at == kind), "")
        for kind in (OP_TYPE, DOMAIN)
    )
    if domain not in OWN_DOMAINS:
        raise UnsafeCheckpointError(
            f"{path} was rejected: it contains the operator {name!r} from the domain {domain!r}. "
            "Expected only standard ONNX operators."
        )
    for attribute in (part for number, part in fields if number == ATTRIBUTE):
        for number, part in _fields(attribute):
            if number in GRAPHS_OR_SPARSE:
                raise FormatError(f"{MODEL} contains the operator {name!r} with a subgraph")
            if number in (TENSOR, TENSORS):
                _check_tensor(part, path)


def _check_tensor(tensor: Any, path: Path) -> None:
    for number, part in _fields(tensor):
        if number == EXTERNAL_DATA or (number == DATA_LOCATION and part):
            raise UnsafeCheckpointError(
                f"{path} was rejected: a weight is stored in another file. Expected a model in a "
                "single file."
            )


def _fields(message: Any) -> Iterator[tuple[int, Any]]:
    """Yield the number and the content of each field in a protobuf message.

    Raise LookupError or TypeError for a damaged message.
    """
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        if kind == VARINT:
            content, at = _varint(message, at)
        else:
            size, at = _varint(message, at) if kind == BYTES else (FIXED[kind], at)
            content, at = message[at : at + size], at + size
        if at > len(message):
            raise IndexError
        yield key >> 3, content


VARINT, BYTES, FIXED = 0, 2, {1: 8, 5: 4}
"""Wire types of protobuf fields. `FIXED` contains the size of each fixed-size type in bytes."""


def _varint(message: Any, at: int) -> tuple[int, int]:
    """Decode the varint at index `at`, up to 10 bytes. Return the value and the index after it."""
    number = 0
    for shift in range(0, 70, 7):
        byte = message[at]
        number, at = number | (byte & 127) << shift, at + 1
        if byte < 128:
            return number, at
    raise IndexError
