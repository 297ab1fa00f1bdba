"""A language model in a local folder, as Hugging Face stores it: settings, symbols, weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fairseq_ssl.checkpoints.reading import refusal
from fairseq_ssl.checkpoints.untrusted_folder import check_folder, read_settings
from fairseq_ssl.errors import DataError, UnsafeCheckpointError, import_optional
from fairseq_ssl.io.atomic import atomic_lines
from fairseq_ssl.io.text_files import read_lines
from fairseq_ssl.text.vocabulary import RESERVED

CONFIG = "config.json"
LISTED, NUMBERED, TOKENISER = "vocab.txt", "vocab.json", "tokenizer.json"
ADDED = "added_tokens.json"
WEIGHTS = ("model.safetensors", "pytorch_model.bin")

STAND_INS = ("[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]", "<mask>")
"""Symbols that no text has; for the first four fairseq's dictionary has names of its own."""


def read_config(folder: Path) -> dict[str, Any]:
    """Read the settings of the model, and reject a folder that asks to run code."""
    check_folder(folder)
    return _json(folder / CONFIG, folder)


def read_vocabulary(folder: Path) -> dict[str, int]:
    """Return the row of each symbol, from whichever of the tokeniser's files is there."""
    if (folder / LISTED).is_file():
        symbols = read_lines(folder / LISTED)
        return {symbol: row for row, symbol in enumerate(symbols)} | _added(folder)
    if (folder / NUMBERED).is_file():
        rows = _json(folder / NUMBERED, folder) | _added(folder)
        return _checked(rows, folder / NUMBERED)
    if (folder / TOKENISER).is_file():
        return _of_tokeniser(folder / TOKENISER)
    raise DataError(
        f"{folder} has no symbols. Expected {LISTED}, {NUMBERED} or {TOKENISER}, which its "
        "tokeniser saves."
    )


def write_dictionary(folder: Path, output: Path) -> int:
    """Write the symbols as a dictionary for fairseq-preprocess --srcdict; return how many.

    What fairseq has names of its own for is left out, and so is what no tokenised text can
    have: a mask, and symbols with white space.
    """
    left_out = {*RESERVED, *STAND_INS}
    rows = read_vocabulary(folder)
    ordered = sorted(rows, key=rows.__getitem__)
    kept = [one for one in ordered if one not in left_out and one.split() == [one]]
    with atomic_lines(output) as file:
        file.writelines(f"{symbol} 1\n" for symbol in kept)
    return len(kept)


def read_weights(folder: Path) -> dict[str, Tensor]:
    """Read all weights, from one file or from several with an index; no code of theirs is run."""
    for name in WEIGHTS:
        index = folder / f"{name}.index.json"
        if (folder / name).is_file():
            return _reader(name)(folder / name)
        if index.is_file():
            weights: dict[str, Tensor] = {}
            for part in _parts(index):
                weights.update(_reader(name)(part))
            return weights
    raise DataError(
        f"{folder} has no weights. Expected {' or '.join(WEIGHTS)}, or the same in parts with "
        "an index."
    )


def _reader(name: str) -> Callable[[Path], dict[str, Tensor]]:
    return _of_safetensors if name.endswith(".safetensors") else _of_pickle


def _of_safetensors(path: Path) -> dict[str, Tensor]:
    package = import_optional("safetensors", f"Reading {path}", "bert")
    load = import_optional("safetensors.torch", f"Reading {path}", "bert").load_file
    try:
        loaded: dict[str, Tensor] = load(path)
    except (OSError, package.SafetensorError) as error:
        raise DataError(f"{path} can not be read: {error}. Copy it again.") from None
    return loaded


def _of_pickle(path: Path) -> dict[str, Tensor]:
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise DataError(f"{path} can not be read: {error.strerror}.") from None
    except Exception as error:  # UnpicklingError, or what torch trips over in other bytes
        refused = refusal(path, error)
        if isinstance(refused, UnsafeCheckpointError):
            raise refused from None
        raise DataError(f"{path} is damaged or holds no weights. Copy it again.") from None
    if not isinstance(found, dict) or not all(isinstance(one, Tensor) for one in found.values()):
        raise DataError(f"{path} holds more than weights. Expected tensors by name, nothing else.")
    return dict(found)


def _parts(index: Path) -> list[Path]:
    """Return the files that an index names, each in the index's own folder."""
    named = _json(index, index.parent).get("weight_map")
    if not isinstance(named, dict) or not named:
        raise DataError(f"{index} names no files. Expected them under weight_map.")
    names = sorted({str(name) for name in named.values()})
    for name in names:
        if Path(name).name != name or not (index.parent / name).is_file():
            raise DataError(f"{index} names the file {name!r}, which is not in {index.parent}.")
    return [index.parent / name for name in names]


def _of_tokeniser(path: Path) -> dict[str, int]:
    found = _json(path, path.parent)
    model = found.get("model")
    rows = model.get("vocab") if isinstance(model, dict) else None
    if not isinstance(rows, dict):
        raise DataError(
            f"{path} has no symbols by row under model.vocab. Expected word pieces or byte pairs."
        )
    try:
        added = {str(one["content"]): one["id"] for one in found.get("added_tokens") or []}
    except (KeyError, TypeError):
        raise DataError(f"{path} has added_tokens without a content or an id.") from None
    return _checked(rows | added, path)


def _added(folder: Path) -> dict[str, int]:
    path = folder / ADDED
    return _checked(_json(path, folder), path) if path.is_file() else {}


def _checked(rows: dict[str, Any], path: Path) -> dict[str, int]:
    """Refuse symbols whose row is no row."""
    odd = [symbol for symbol, row in rows.items() if not isinstance(row, int) or row < 0]
    if odd:
        raise DataError(f"{path}: the row of {odd[0]!r} is {rows[odd[0]]!r}; expected 0 or more.")
    return rows


def _json(path: Path, folder: Path) -> dict[str, Any]:
    if not path.is_file():
        raise DataError(
            f"{path} cannot be read. Expected {folder} to hold a BERT or RoBERTa as Hugging "
            f"Face stores it: {CONFIG}, the tokenizer's files and the weights."
        )
    return read_settings(path)
