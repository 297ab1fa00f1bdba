"""Conversion of fairseq Transformers to CTranslate2 models."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
POSITIONS = "max_positions"
"""Name of the setting with the maximum source and target lengths in tokens, including </s>."""


def check_ctranslate2_folder(folder: Path) -> None:
    """Raise DataError if a file does not match checksums.json or cannot be read.

    A model without checksums.json is not checked. CTranslate2 checks the file formats on loading.
    """
    try:
        check_checksums(folder)
    except FormatError as error:
        raise DataError(
            f"{folder} is not a complete CTranslate2 model: {error}. Export the model again with "
            "fairseq-ssl export."
        ) from None
    except OSError as error:
        raise DataError(f"{error.filename or folder} cannot be read: {error.strerror}.") from None


def position_limits(folder: Path) -> tuple[int, int]:
    """Return the maximum source and target lengths in tokens, including </s>.

    If config.json contains no limits, because another program wrote it, both are `sys.maxsize`.
    """
    match read_json(folder / CONFIG, dict).get(POSITIONS):
        case [int(source), int(target)]:
            return source, target
    return sys.maxsize, sys.maxsize


UNSUPPORTED = {
    "adaptive_softmax_cutoff": "adaptive softmax",
    "adaptive_input": "adaptive input",
    "no_cross_attention": "a decoder without cross-attention",
    "cross_self_attention": "cross-self-attention",
    "quant_noise_pq": "quantization noise (quant_noise_pq)",
}
"""Features that CTranslate2's converter ignores or cannot convert, by fairseq option."""


def write_ctranslate2(state: State, data: TrainingData, output: Path, quantization: str) -> None:
    """Convert a checkpoint of fairseq's own Transformer to a CTranslate2 model.

    Args:
        state: the checkpoint.
        data: folder and languages of the dictionaries.
        output: folder to create.
        quantization: data type of the converted weights, such as ``int8``.
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
            _write_limits(folder / CONFIG, options)
        except Exception as error:  # the converter raises many exception types
            if system_error(error) is not None:
                raise
            line = str(error).rpartition("\n")[2].strip(" .-")
            raise DataError(
                f"CTranslate2 cannot convert this model with the dictionaries in {data.folder}: "
                f"{line}. If these are its own, use the checkpoint with the engine fairseq."
            ) from None
        finally:
            flat.unlink(missing_ok=True)
        write_checksums(folder)


def _write_limits(config: Path, options: argparse.Namespace) -> None:
    """Add the position limits to config.json. CTranslate2 ignores unknown settings.

    A limit that is missing in `options` is set to 1,024, fairseq's default.
    """
    names = ("max_source_positions", "max_target_positions")
    limits = [int(getattr(options, name, None) or 1024) for name in names]
    settings = {**read_json(config, dict), POSITIONS: limits}
    config.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


def _options(state: State, data: TrainingData) -> argparse.Namespace:
    """Return model and task options for the converter. Raise DataError for unsupported features."""
    model: dict[str, Any] = state["cfg"]["model"]
    task: dict[str, Any] = state["cfg"].get("task") or {}
    unsupported = [words for option, words in UNSUPPORTED.items() if model.get(option)]
    if unsupported:
        raise DataError(
            f"This model uses {unsupported[0]}, which CTranslate2 does not support. Use the "
            "checkpoint itself with the engine fairseq."
        )
    named = {"_name": model["_name"], "task": "translation", "data": str(data.folder)}
    languages = {"source_lang": data.source, "target_lang": data.target}
    return argparse.Namespace(**{**model, **task, **named, **languages})
