"""A CTranslate2 model from a checkpoint of fairseq's own Transformer, by its own converter."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fairseq_ssl.checkpoints.ctranslate2_folder import write_checksums
from fairseq_ssl.checkpoints.reading import State, save
from fairseq_ssl.checkpoints.training_data import TrainingData
from fairseq_ssl.errors import DataError, UsageError, import_optional
from fairseq_ssl.io.atomic import atomic_folder, system_error

UNSUPPORTED = {
    "adaptive_softmax_cutoff": "adaptive softmax",
    "adaptive_input": "adaptive input",
    "no_cross_attention": "decoder without cross-attention",
    "cross_self_attention": "cross-self-attention",
}
"""Options of the Transformer that the converter would meet too late to explain them."""


def write_ctranslate2(state: State, data: TrainingData, output: Path, quantization: str) -> None:
    """Write `state`, a stock checkpoint, as a CTranslate2 model into the folder `output`."""
    converters = import_optional("ctranslate2.converters", "Export to CTranslate2", "ctranslate2")
    _check_replaceable(output)
    options = _options(state, data)
    with atomic_folder(output) as folder:
        flat = folder.with_name(f"{folder.name}.pt")
        try:
            save({"args": options, "model": state["model"]}, flat)
            converter = converters.FairseqConverter(str(flat), options.data)
            converter.convert(str(folder), quantization=quantization, force=True)
        except Exception as error:  # what its converter lacks, or meets in options and weights
            if system_error(error) is not None:
                raise
            raise DataError(f"CTranslate2 cannot take this model: {error}") from None
        finally:
            flat.unlink(missing_ok=True)
        write_checksums(folder)


def _check_replaceable(output: Path) -> None:
    """Refuse to replace anything but another model: what is there will be deleted."""
    if output.is_symlink():
        raise UsageError(f"{output} is a link, so it is not replaced. Name the folder itself.")
    if output.exists() and not (output / "model.bin").is_file():
        raise UsageError(
            f"{output} exists and is no CTranslate2 model, so it is not replaced. Name another."
        )


def _options(state: State, data: TrainingData) -> argparse.Namespace:
    """Return what the converter reads: one flat namespace of model and task options."""
    model: dict[str, Any] = state["cfg"]["model"]
    task: dict[str, Any] = state["cfg"].get("task") or {}
    found = [words for option, words in UNSUPPORTED.items() if model.get(option)]
    if found:
        raise DataError(f"CTranslate2 has no {found[0]}, which this model uses.")
    named = {"_name": model["_name"], "task": "translation", "data": str(data.folder)}
    languages = {"source_lang": data.source, "target_lang": data.target}
    return argparse.Namespace(**{**model, **task, **named, **languages})
