"""Model folders in the format of Hugging Face: checked, then read without running their code."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fairseq_ssl.checkpoints.files import rejection_reason
from fairseq_ssl.errors import DataError, UnsafeCheckpointError, import_optional
from fairseq_ssl.io.outputs import atomic_lines
from fairseq_ssl.io.text_files import parse_json, read_lines
from fairseq_ssl.text.vocabulary import RESERVED

ADAPTER = "adapter_config.json"
"""Names a base model elsewhere, which transformers loads in place of the folder's."""
CODE = ("auto_map", "custom_pipelines", "trust_remote_code")
"""Settings that name Python files of the folder or of a repository."""
ELSEWHERE = (
    *("quantization_config", "transformers_weights"),
    *("use_pretrained_backbone", "use_timm_backbone", "backbone", "backbone_config"),
    *("mecab_option", "sudachi_config_path", "sudachi_resource_dir"),
)
"""Settings that make transformers read other files or use other packages."""
ATTENTION = ("attn_implementation", "_attn_implementation", "_attn_implementation_internal")
BUILT_IN = ("eager", "sdpa", "flex_attention", "flash_attention_2", "flash_attention_3")
"""Attention of transformers itself; other names are kernels to download."""
UNREAD = "special_tokens_map_file"
"""A setting that names a file, which transformers keeps and does not open."""


def check_model_folder(folder: Path) -> None:
    """Reject a folder that asks to run code or to read files outside it.

    Raises:
        UnsafeCheckpointError: if a JSON file of the folder does
        DataError: if a JSON file of the folder is damaged
    """
    if (folder / ADAPTER).exists():
        raise UnsafeCheckpointError(
            f"{folder} was rejected: its {ADAPTER} names another model to load. Expected a model "
            "with all its weights; merge the adapter into its base model."
        )
    for path in sorted(folder.glob("*.json")):
        if path.name.endswith(".index.json"):
            _check_index(path)
        elif path.name.endswith("config.json"):
            check_settings(read_settings(path), str(path))


def check_settings(settings: Any, where: str) -> None:
    """Reject settings that name code, or files other than the folder's own.

    Args:
        settings: of a model or a tokenizer, nested or not
        where: they were found, for the error
    """
    for name, value in _named(settings):
        if value is None or (isinstance(value, (int, float)) and value is not True):
            continue  # switched off, or the id of a label with such a name
        if name in CODE:
            what = "asks to run code of the folder's author"
        elif name in ATTENTION and value not in BUILT_IN:
            what = "asks to download a kernel"
        elif name in ELSEWHERE:
            what = "asks for other files or packages"
        elif name == "fast_tokenizer_files" and _are_names(value):
            continue
        elif name.endswith(("_file", "_files")) and name != UNREAD:
            what = "asks to read another file"
        else:
            continue
        raise UnsafeCheckpointError(
            f"{where} was rejected and nothing was run: {name} {what}. Expected the settings of a "
            "model that transformers has itself, such as a BERT or a RoBERTa."
        )


def _check_index(path: Path) -> None:
    """Reject an index of weights in parts that names files outside its folder."""
    parts = read_settings(path).get("weight_map")
    names = parts.values() if isinstance(parts, dict) else []
    wrong = [name for name in names if not _are_names([name])]
    if wrong:
        raise UnsafeCheckpointError(
            f"{path} names the file {str(wrong[0])[:60]!r}; expected names of files beside it."
        )


def _are_names(names: Any) -> bool:
    """Return True if all are names of files without a folder."""
    return isinstance(names, list) and all(
        isinstance(name, str) and Path(name).name == name and name not in (".", "..")
        for name in names
    )


def _named(settings: Any) -> Iterator[tuple[str, Any]]:
    """Yield all settings, those of parts too."""
    waiting = [settings]
    while waiting:
        found = waiting.pop()
        if isinstance(found, Mapping):
            yield from ((str(name), value) for name, value in found.items())
            waiting += found.values()
        elif isinstance(found, list):
            waiting += found


def read_settings(path: Path) -> dict[str, Any]:
    """Return the names and values in a JSON file; raise a DataError if it holds anything else."""
    try:
        found = parse_json(path.read_bytes())
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None
    except ValueError:
        raise DataError(f"{path} is not JSON. Copy it again.") from None
    if not isinstance(found, dict):
        raise DataError(f"{path} holds no names and values. Copy it again.")
    return found


CONFIG = "config.json"
LISTED, NUMBERED, TOKENISER = "vocab.txt", "vocab.json", "tokenizer.json"
ADDED = "added_tokens.json"
WEIGHT_FILES = ("model.safetensors", "pytorch_model.bin")

STAND_INS = ("[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]", "<mask>")
"""Symbols that no text has; for the first four fairseq's dictionary has names of its own."""


def read_config(folder: Path) -> dict[str, Any]:
    """Read the settings of the model, and reject a folder that asks to run code."""
    check_model_folder(folder)
    return _json(folder / CONFIG, folder)


def read_vocabulary(folder: Path) -> dict[str, int]:
    """Return the row of each symbol, from whichever of the tokenizer's files is there."""
    if (folder / LISTED).is_file():
        symbols = read_lines(folder / LISTED)
        return {symbol: row for row, symbol in enumerate(symbols)} | _added(folder)
    if (folder / NUMBERED).is_file():
        rows = _json(folder / NUMBERED, folder) | _added(folder)
        return _checked(rows, folder / NUMBERED)
    if (folder / TOKENISER).is_file():
        return _read_tokenizer(folder / TOKENISER)
    raise DataError(
        f"{folder} has no symbols. Expected {LISTED}, {NUMBERED} or {TOKENISER}, which its "
        "tokenizer saves."
    )


def write_dictionary(folder: Path, output: Path) -> int:
    """Write the symbols as a dictionary for fairseq-preprocess --srcdict; return how many.

    What fairseq has names of its own for is left out, and so is what no tokenized text can
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
    for name in WEIGHT_FILES:
        index = folder / f"{name}.index.json"
        if (folder / name).is_file():
            return _reader(name)(folder / name)
        if index.is_file():
            weights: dict[str, Tensor] = {}
            for part in _parts(index):
                weights.update(_reader(name)(part))
            return weights
    raise DataError(
        f"{folder} has no weights. Expected {' or '.join(WEIGHT_FILES)}, or the same in parts with "
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
        refused = rejection_reason(path, error)
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


def _read_tokenizer(path: Path) -> dict[str, int]:
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
