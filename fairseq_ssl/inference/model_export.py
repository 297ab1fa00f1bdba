"""Conversion of checkpoints to models that run without this package."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairseq_ssl.checkpoints.conversion import is_two_way, one_direction, to_stock
from fairseq_ssl.checkpoints.ensembles import load_models
from fairseq_ssl.checkpoints.files import (
    State,
    architecture,
    check_finite,
    read_checkpoint,
    training_data,
    write_checkpoint,
)
from fairseq_ssl.edits.decoding import DEFAULT
from fairseq_ssl.errors import UsageError, check_choice
from fairseq_ssl.inference.loading import load_gector
from fairseq_ssl.io.fingerprints import content_digest
from fairseq_ssl.io.jobs import check_new
from fairseq_ssl.io.outputs import write_signature
from fairseq_ssl.io.text_files import optional_path, require_file
from fairseq_ssl.signature import Signature

TAGGER_FORMATS = ("onnx", "huggingface")
"""Output formats for edit taggers."""
FORMATS = ("fairseq", "ctranslate2", "translation", *TAGGER_FORMATS)
"""Output formats of `export`."""


def export(
    checkpoint: str | Path,
    output: str | Path,
    to: str,
    *,
    data_dir: str | Path | None = None,
    source_lang: str | None = None,
    target_lang: str | None = None,
    encoder: str | Path | None = None,
    quantization: str = "float32",
    overwrite: bool = False,
) -> Signature:
    """Convert a checkpoint to a model that runs without this package. Return the signature.

    Call `fairseq_ssl.register` first.

    Args:
        checkpoint: checkpoint of a shape_transformer, a fairseq Transformer, a two-way model or an
            edit_tagger; for ``onnx`` also a GECToR model.
        output: output file for ``fairseq`` and ``translation``, output folder for other formats.
        to: output format: ``fairseq`` (fairseq Transformer), ``ctranslate2``, ``translation`` (one
            direction of a two-way model of any architecture), or for an edit_tagger ``onnx`` or
            ``huggingface`` (Hugging Face token classifier).
        data_dir: folder with the dictionaries, for ``ctranslate2`` and edit taggers. A word-level
            edit tagger does not need it.
        source_lang: source language of the direction to export. Two-way models require it.
        target_lang: target language of the direction to export. Two-way models require it.
        encoder: folder of the encoder with which a GECToR model was trained (default: the public
            encoder that the model names).
        quantization: data type of the weights, for ``ctranslate2`` and ``onnx``. The format
            ``onnx`` supports only float32 and int8.
        overwrite: whether to replace an existing output.
    """
    check_choice("to", to, FORMATS)
    checkpoint, output = Path(checkpoint), Path(output)
    check_new(output, overwrite)
    if to in TAGGER_FORMATS:
        languages = {"source_lang": source_lang, "target_lang": target_lang}
        options = {name: value for name, value in languages.items() if value}
        options["data"] = str(data_dir or "")
        return _export_tagger(checkpoint, output, to, quantization, encoder, options)
    if to != "ctranslate2" and data_dir:
        raise UsageError(
            f"`data_dir` is not used if `to` is {to}. Remove it, or set `to` to ctranslate2, onnx "
            "or huggingface."
        )
    if to != "ctranslate2" and quantization != "float32":
        raise UsageError(
            f"`quantization` is not used if `to` is {to}. Remove it, or set `to` to ctranslate2 or "
            "onnx."
        )
    state = _read_direction(checkpoint, to, source_lang, target_lang)
    parameters: dict[str, Any] = {"to": to, "arch": architecture(state)}
    parameters["checkpoint_digest"] = content_digest(checkpoint)
    if to == "translation":
        parameters |= {"source_lang": source_lang, "target_lang": target_lang}
    stock = state if to == "translation" else to_stock(state)
    if to == "ctranslate2":
        from fairseq_ssl.checkpoints.ctranslate2 import write_ctranslate2

        data = training_data(state, data_dir, source_lang, target_lang)
        write_ctranslate2(stock, data, output, quantization)
        parameters["quantization"] = quantization
    else:
        write_checkpoint(stock, output)
    signature = Signature("export", parameters, {"checkpoint": str(checkpoint)})
    write_signature(signature, output)
    return signature


def _export_tagger(
    checkpoint: Path,
    output: Path,
    to: str,
    quantization: str,
    encoder: str | Path | None,
    options: Mapping[str, str],
) -> Signature:
    """Export an edit tagger. Return the signature. `options` override the model's task options."""
    from fairseq_ssl.checkpoints.gector import is_gector, read_search
    from fairseq_ssl.checkpoints.token_classifier import write_token_classifier
    from fairseq_ssl.generation.tagger_export import QUANTIZATIONS, quiet, write_onnx

    if quantization not in QUANTIZATIONS[: 1 + (to == "onnx")]:
        raise UsageError(
            f"`quantization` is {quantization}, which the format {to} does not support. Expected "
            "float32, or int8 for onnx."
        )
    arch, search = "gector", DEFAULT
    with quiet(logging.INFO):
        if is_gector(checkpoint):
            folder = optional_path(encoder)
            search = read_search(checkpoint, folder)
            (model,), task = load_gector([checkpoint], folder)
        else:
            require_file(checkpoint, "an edit tagger: a checkpoint or, for onnx, a GECToR model")
            arch = architecture(read_checkpoint(checkpoint))
            if not arch.startswith("edit_tagger"):
                raise UsageError(
                    f"{checkpoint} has the architecture {arch!r}. Expected an edit tagger."
                )
            (model, *_), _, task = load_models([checkpoint], **options)
    model.float().eval().prepare_for_inference_(None)
    if to == "onnx":
        write_onnx(model, task, output, quantization, search)
    else:
        write_token_classifier(model, task, output)
    parameters = {"to": to, "arch": arch, "quantization": quantization}
    parameters["checkpoint_digest"] = content_digest(checkpoint)
    signature = Signature("export", parameters, {"checkpoint": str(checkpoint)})
    write_signature(signature, output)
    return signature


def _read_direction(checkpoint: Path, to: str, source: str | None, target: str | None) -> State:
    """Read a checkpoint. From a two-way model, extract the direction from `source` to `target`."""
    state = read_checkpoint(checkpoint)
    check_finite(state["model"], checkpoint)
    if is_two_way(state):
        return one_direction(state, source, target)
    if to == "translation":
        raise UsageError(
            f"{checkpoint} is not a two-way model. Expected a checkpoint with two directions, "
            "because `to` is translation."
        )
    if to == "fairseq" and (source or target):
        raise UsageError(
            "`source_lang` and `target_lang` are not used if `to` is fairseq and the checkpoint is "
            "not a two-way model. Remove them."
        )
    return state
