"""CTranslate2 models: conversion of a Transformer of fairseq, and validation before loading."""

from __future__ import annotations

import argparse
import os
import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from fairseq_ssl.checkpoints.model_folder import (
    FormatError,
    check_checksums,
    check_replaceable,
    read_json,
    write_checksums,
)
from fairseq_ssl.errors import DataError, import_optional, system_error
from fairseq_ssl.io.outputs import atomic_folder

if TYPE_CHECKING:
    from fairseq_ssl.checkpoints.files import State, TrainingData

WEIGHTS, CONFIG = "model.bin", "config.json"
VOCABULARIES = {"source": "source_vocabulary.json", "target": "target_vocabulary.json"}
SHARED = "shared_vocabulary.json"
SIDES = ("encoder", "decoder")
EMBEDDINGS = {
    "encoder/embeddings_0/weight": "source",
    "decoder/projection/weight": "target",
    "decoder/embeddings/weight": "target",
}
"""Variables with a row for each word, and the side whose vocabulary they use."""
TOKENS = ("unk_token", "bos_token", "eos_token", "decoder_start_token")

VARIABLE_SIZES = {"float32": 4, "int8": 1, "int16": 2, "int32": 4, "float16": 2, "bfloat16": 2}
"""Bytes of a value by data type."""
VARIABLE_DTYPES = tuple(VARIABLE_SIZES)
"""Data types of variables. The file stores the index of the data type."""
FLOATS = ("float32", "float16", "bfloat16")
MAX_RANK = 4
CHUNK = 1 << 22
"""Number of values to check at a time."""


@dataclass(frozen=True)
class Variable:
    """Shape, type and position of a variable in the file of weights."""

    shape: tuple[int, ...]
    dtype: str
    offset: int
    """Offset of the values in the file."""

    @property
    def count(self) -> int:
        """Number of values."""
        return prod(self.shape)


def check_ctranslate2_folder(folder: Path) -> None:
    """Check the folder of a model before CTranslate2 reads it.

    Raises:
        DataError: if a file is missing, damaged or does not match the other files.
    """
    try:
        config = read_json(folder / CONFIG, dict)
        vocabularies = {side: _vocabulary(folder, side) for side in VOCABULARIES}
        _check_tokens(config, vocabularies)
        with (folder / WEIGHTS).open("rb") as file:
            variables, aliases, revision = _parsed(file)
            has_checksums = check_checksums(folder)
            _check_revision(revision, has_checksums)
            whole = {**variables, **{name: variables[of] for name, of in aliases.items()}}
            scalars = _scalars(file, variables)
            scalars |= {name: scalars[of] for name, of in aliases.items() if of in scalars}
            _check_names(whole, scalars)
            sizes = {side: len(words) for side, words in vocabularies.items()}
            scaled = {name for name in whole if f"{aliases.get(name, name)}_scale" in whole}
            _check_shapes(whole, sizes, scalars, scaled)
            for name, variable in variables.items():
                _check_values(file, name, variable)
    except FormatError as error:
        raise DataError(
            f"{folder} is not a complete CTranslate2 model: {error}. Export the model again with "
            "fairseq-ssl export."
        ) from None
    except OSError as error:
        raise DataError(f"{error.filename or folder} cannot be read: {error.strerror}.") from None


def position_limits(folder: Path) -> tuple[int | None, int | None]:
    """Return the number of positions of the encoder and of the decoder, None for no limit."""
    with (folder / WEIGHTS).open("rb") as file:
        variables, aliases, _ = _parsed(file)
    found = []
    for side in ("encoder", "decoder"):
        name = f"{side}/position_encodings/encodings"
        variable = variables.get(aliases.get(name, name))
        found.append(None if variable is None else variable.shape[0])
    return found[0], found[1]


def _parsed(file: BinaryIO) -> tuple[dict[str, Variable], dict[str, str], int]:
    """Return the variables without their values, the variable of each alias, and the revision."""
    size = os.fstat(file.fileno()).st_size
    version = _number(file, "I")
    supported = int(_package("specs.model_spec").CURRENT_BINARY_VERSION)
    if version != supported:
        raise FormatError(f"{WEIGHTS} has the format {version}, expected {supported}")
    kind = _text(file)
    if kind != "TransformerSpec":
        raise FormatError(f"{WEIGHTS} is a {kind[:40]!r}, expected a TransformerSpec")
    revision = _number(file, "I")
    variables: dict[str, Variable] = {}
    for _ in range(_number(file, "I")):
        name = _text(file)
        rank = _number(file, "B")
        if rank > MAX_RANK:
            raise FormatError(f"{WEIGHTS}: {name[:80]!r} has {rank} dimensions")
        shape = tuple(_number(file, "I") for _ in range(rank))
        kind_id, stored = _number(file, "B"), _number(file, "I")
        if kind_id >= len(VARIABLE_DTYPES):
            raise FormatError(f"{WEIGHTS}: {name[:80]!r} has the unknown type {kind_id}")
        variable = Variable(shape, VARIABLE_DTYPES[kind_id], file.tell())
        expected = variable.count * VARIABLE_SIZES[variable.dtype]
        if stored != expected % 2**32 or name in variables:
            raise FormatError(f"{WEIGHTS}: the size or the name of {name[:80]!r} is wrong")
        if variable.offset + expected > size:
            raise FormatError(f"{WEIGHTS} ends within {name[:80]!r}")
        variables[name] = variable
        file.seek(expected, os.SEEK_CUR)
    aliases = {_text(file): _text(file) for _ in range(_number(file, "I"))}
    if variables.keys() & aliases.keys() or not set(aliases.values()) <= variables.keys():
        raise FormatError(f"{WEIGHTS} has a wrong list of aliases")
    if file.tell() != size:
        raise FormatError(f"{WEIGHTS} has {size - file.tell()} bytes too many")
    return variables, aliases, revision


def _package(name: str) -> Any:
    return import_optional(f"ctranslate2.{name}", "Reading a CTranslate2 model", "ctranslate2")


def _check_revision(revision: int, has_checksums: bool) -> None:
    """Raise an error unless the installed package supports the revision of the model.

    Older revisions are accepted only with checksums, since the other checks assume the current one.
    """
    supported = int(_package("specs").TransformerSpec.revision.fget(None))
    if not (revision == supported or (has_checksums and 0 < revision < supported)):
        raise FormatError(f"{WEIGHTS} has the revision {revision}, expected {supported}")


def _check_names(whole: dict[str, Variable], scalars: dict[str, float]) -> None:
    """Raise an error unless the variables are those of a Transformer with as many layers."""
    layers = tuple(
        len(
            {
                name.split("/")[1]
                for name in whole
                if name.startswith(f"{side}/layer_") and name.split("/")[1] != "layer_norm"
            }
        )
        for side in SIDES
    )
    if not all(layers) or any(scalars.get(f"{side}/num_heads", 0) < 1 for side in SIDES):
        raise FormatError(f"{WEIGHTS} lacks layers or the number of attention heads")

    def has(part: str) -> bool:
        return any(part in name for name in whole)

    spec = _package("specs").TransformerSpec.from_config(
        layers,
        int(scalars["encoder/num_heads"]),
        pre_norm=scalars.get("encoder/pre_norm") == 1,
        layernorm_embedding=has("/layernorm_embedding/"),
        with_relative_position=has("/relative_position_keys"),
        relative_attention_bias=has("/relative_attention_bias"),
        ffn_glu=has("/ffn/linear_0_noact/"),
        rms_norm=not has("/beta"),
    )
    known: dict[str, Any] = {}
    visit = _package("specs.model_spec").visit_spec
    visit(spec, lambda _, name, value: known.update({name: value}))
    required = {name for name, value in known.items() if not isinstance(value, str)}
    wrong = sorted((whole.keys() - known.keys()) | (required - whole.keys()))
    if wrong:
        raise FormatError(f"{WEIGHTS} lacks {wrong[0][:80]!r} or should not have it")


def _check_shapes(
    whole: dict[str, Variable],
    words: dict[str, int],
    scalars: dict[str, float],
    scaled: Collection[str],
) -> None:
    """Raise an error unless the shapes and data types of all variables are consistent.

    Args:
        whole: all variables, including aliases.
        words: size of the vocabulary of each side.
        scalars: values of the variables without dimensions.
        scaled: names of the quantized variables, which have a scale. The scale of an alias is
            stored under the name of its variable.
    """
    for name, side in EMBEDDINGS.items():
        shape = whole[name].shape
        if len(shape) != 2 or shape[0] != words[side]:
            raise FormatError(
                f"{WEIGHTS} has {name} of the shape {list(shape)} but the {side} vocabulary has "
                f"{words[side]} words"
            )
    dims = {name.partition("/")[0]: whole[name].shape[1] for name in EMBEDDINGS}
    for name, one in whole.items():
        side, _, rest = name.partition("/")
        if not _is_shape(rest, one.shape, dims[side], whole, name):
            raise FormatError(f"{WEIGHTS}: {name!r} has the shape {list(one.shape)}")
    if any(dim % scalars[f"{side}/num_heads"] for side, dim in dims.items()):
        raise FormatError(f"{WEIGHTS} has a wrong number of heads")
    floats = {
        one.dtype
        for name, one in whole.items()
        if one.shape and not name.endswith("_scale") and name not in scaled
    }
    if len(floats) > 1 or not floats <= set(FLOATS):
        raise FormatError(f"{WEIGHTS} has weights of the types {', '.join(sorted(floats))}")


def _is_shape(
    name: str, shape: tuple[int, ...], dim: int, whole: dict[str, Variable], full: str
) -> bool:
    """Return True if a shape is valid for a variable, or its name has no known shape.

    Args:
        name: name of the variable without its side.
        shape: shape of the variable.
        dim: dimension of the hidden states of the side.
        whole: all variables.
        full: full name of the variable.
    """
    part, _, kind = name.rpartition("/")
    owner = full.rpartition("/")[0]
    if kind in ("bias", "weight_scale", "weight_zero"):
        return shape == whole[f"{owner}/weight"].shape[:1] or (kind != "bias" and shape == ())
    if kind in ("beta", "gamma"):
        return shape == (dim,)
    if kind == "encodings":
        return len(shape) == 2 and shape[1] == dim
    if kind != "weight":
        return True
    if part.endswith("ffn/linear_1"):
        inner = whole[f"{owner.rpartition('/')[0]}/linear_0/weight"].shape[:1]
        return shape == (dim, *inner)
    reads_states = part.endswith(("self_attention/linear_0", "attention/linear_0", "ffn/linear_0"))
    return len(shape) == 2 and 0 not in shape and (not reads_states or shape[1] == dim)


def _scalars(file: BinaryIO, variables: dict[str, Variable]) -> dict[str, float]:
    """Return the values of scalar variables, such as the number of heads. bfloat16 is skipped."""
    scalars = {}
    for name, variable in variables.items():
        if not variable.shape and variable.dtype != "bfloat16":
            file.seek(variable.offset)
            scalars[name] = float(
                np.frombuffer(file.read(VARIABLE_SIZES[variable.dtype]), variable.dtype)[0]
            )
    return scalars


def _check_values(file: BinaryIO, name: str, variable: Variable) -> None:
    """Raise an error if a floating-point variable has infinite values or NaN."""
    if variable.dtype not in FLOATS:
        return
    for block in _blocks(file, variable):
        if not np.isfinite(block).all():
            raise FormatError(f"{WEIGHTS}: {name[:80]!r} has infinite values")


def _blocks(file: BinaryIO, variable: Variable) -> Iterator[Any]:
    """Yield the values of a variable in blocks. bfloat16 is converted to float32."""
    file.seek(variable.offset)
    left = variable.count
    while left:
        count = min(left, CHUNK)
        data = file.read(count * VARIABLE_SIZES[variable.dtype])
        if variable.dtype == "bfloat16":  # the upper half of a float32
            yield (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32)
        else:
            yield np.frombuffer(data, variable.dtype)
        left -= count


def _vocabulary(folder: Path, side: str) -> list[str]:
    shared = folder / SHARED
    path = shared if shared.exists() else folder / VOCABULARIES[side]
    words: list[str] = read_json(path, list)
    if not words or not all(isinstance(word, str) for word in words):
        raise FormatError(f"{path.name} is not a list of words")
    if len(set(words)) < len(words):
        raise FormatError(f"{path.name} has a repeated word")
    return words


def _check_tokens(config: dict[str, Any], vocabularies: dict[str, list[str]]) -> None:
    for name in TOKENS:
        token = config.get(name)
        sides = ["target"] if name == "decoder_start_token" else list(vocabularies)
        if name == "decoder_start_token" and token is None:
            continue
        if not isinstance(token, str) or any(token not in vocabularies[side] for side in sides):
            raise FormatError(f"{CONFIG} has the {name} {str(token)[:40]!r}, which is not a word")
    for name in ("add_source_bos", "add_source_eos"):
        if not isinstance(config.get(name, False), bool):
            raise FormatError(f"{CONFIG} has a wrong value for {name}")


def _number(file: BinaryIO, kind: str) -> int:
    size = struct.calcsize(f"<{kind}")
    data = file.read(size)
    if len(data) < size:
        raise FormatError(f"{WEIGHTS} is truncated")
    return int(struct.unpack(f"<{kind}", data)[0])


def _text(file: BinaryIO) -> str:
    """Read a name, which is stored as its length, its characters and a zero byte."""
    length = _number(file, "H")
    data = file.read(length)
    if len(data) < length or not data.endswith(b"\0"):
        raise FormatError(f"{WEIGHTS} has a damaged name")
    try:
        return data[:-1].decode("ascii")
    except UnicodeDecodeError:
        raise FormatError(f"{WEIGHTS} has a damaged name") from None


UNSUPPORTED = {
    "adaptive_softmax_cutoff": "adaptive softmax",
    "adaptive_input": "adaptive input",
    "no_cross_attention": "decoder without cross-attention",
    "cross_self_attention": "cross-self-attention",
    "quant_noise_pq": "quantization noise, with a matrix after the embeddings",
}
"""Options of fairseq's Transformer that CTranslate2's converter ignores or cannot convert."""


def write_ctranslate2(state: State, data: TrainingData, output: Path, quantization: str) -> None:
    """Convert a checkpoint of fairseq's own Transformer to a CTranslate2 model.

    Args:
        state: the checkpoint.
        data: folder and languages of the dictionaries.
        output: folder to create.
        quantization: data type of the weights.
    """
    converters = import_optional("ctranslate2.converters", "Export to CTranslate2", "ctranslate2")
    from fairseq_ssl.checkpoints.files import save_checkpoint  # the checks above need no torch
    from fairseq_ssl.checkpoints.safe_values import plain_globals

    check_replaceable(output, WEIGHTS, "a CTranslate2 model")
    options = _options(state, data)
    with atomic_folder(output) as folder:
        flat = folder.with_name(f"{folder.name}.pt")
        try:
            save_checkpoint({"args": options, "model": state["model"]}, flat)
            converter = converters.FairseqConverter(str(flat), options.data)
            with plain_globals():  # the converter calls torch.load
                converter.convert(str(folder), quantization=quantization, force=True)
        except Exception as error:  # the converter raises many exception types
            if system_error(error) is not None:
                raise
            raise DataError(f"CTranslate2 cannot convert this model: {error}") from None
        finally:
            flat.unlink(missing_ok=True)
        write_checksums(folder)


def _options(state: State, data: TrainingData) -> argparse.Namespace:
    """Return the flat namespace of model and task options that the converter reads."""
    model: dict[str, Any] = state["cfg"]["model"]
    task: dict[str, Any] = state["cfg"].get("task") or {}
    unsupported = [words for option, words in UNSUPPORTED.items() if model.get(option)]
    if unsupported:
        raise DataError(f"This model uses {unsupported[0]}, which CTranslate2 does not support.")
    named = {"_name": model["_name"], "task": "translation", "data": str(data.folder)}
    languages = {"source_lang": data.source, "target_lang": data.target}
    return argparse.Namespace(**{**model, **task, **named, **languages})
