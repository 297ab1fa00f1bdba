"""Model folders in Hugging Face format: validation, and reading of settings and vocabularies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fairseq_ssl.errors import DataError, UnsafeCheckpointError
from fairseq_ssl.io.outputs import atomic_lines
from fairseq_ssl.io.text_files import read_json, read_lines
from fairseq_ssl.text.vocabulary import RESERVED

ADAPTER = "adapter_config.json"
"""File that names a base model, which transformers loads instead of the model in the folder."""
CODE = ("auto_map", "custom_pipelines", "trust_remote_code")
"""Settings that name Python code in the folder or in a repository."""
ELSEWHERE = (
    *("quantization_config", "transformers_weights"),
    *("use_pretrained_backbone", "use_timm_backbone", "backbone", "backbone_config"),
    *("mecab_option", "sudachi_config_path", "sudachi_resource_dir"),
)
"""Settings that make transformers read files outside the folder or use other packages."""
ATTENTION = ("attn_implementation", "_attn_implementation", "_attn_implementation_internal")
BUILT_IN = ("eager", "sdpa", "flex_attention", "flash_attention_2", "flash_attention_3")
"""Attention implementations of transformers. Other names are kernels to download."""
UNREAD = "special_tokens_map_file"
"""Setting with the name of a file that transformers does not open."""


def check_model_folder(folder: Path) -> None:
    """Check that the settings of a folder do not run code or read files outside the folder.

    Raises:
        UnsafeCheckpointError: if a setting names code or other files.
        DataError: if a JSON file is damaged.
    """
    if (folder / ADAPTER).exists():
        raise UnsafeCheckpointError(
            f"{folder} was rejected: its {ADAPTER} names a base model to load. Expected a complete "
            "model. Merge the adapter into its base model."
        )
    for path in sorted(folder.glob("*.json")):
        if path.name.endswith(".index.json"):
            _check_index(path)
        elif path.name.endswith("config.json"):
            # data_config.json of sentence-transformers is a list
            check_settings(read_json(path), str(path))


def check_settings(settings: Any, where: str) -> None:
    """Raise UnsafeCheckpointError for settings that name code or files outside the folder.

    Args:
        settings: settings of a model or a tokenizer, which can be nested.
        where: source of the settings, for the error message.
    """
    for name, value in _iterate_settings(settings):
        if value is None or (isinstance(value, (int, float)) and value is not True):
            continue  # disabled, or the id of a label that has this name
        if name in CODE:
            problem = "would run code from the folder"
        elif name in ATTENTION and value not in BUILT_IN:
            problem = "would download a kernel"
        elif name in ELSEWHERE:
            problem = "would load other files or packages"
        elif name == "fast_tokenizer_files" and _are_names(value):
            continue
        elif name.endswith(("_file", "_files")) and name != UNREAD:
            problem = "would read another file"
        else:
            continue
        raise UnsafeCheckpointError(
            f"{where} was rejected and nothing was run: the setting {name} {problem}. Expected the "
            "settings of a model that is part of transformers, such as BERT or RoBERTa."
        )


def _check_index(path: Path) -> None:
    """Raise UnsafeCheckpointError if an index of weights names files outside its folder."""
    parts = read_settings(path).get("weight_map")
    names = parts.values() if isinstance(parts, dict) else []
    wrong = [name for name in names if not _are_names([name])]
    if wrong:
        raise UnsafeCheckpointError(
            f"{path} names the file {str(wrong[0])[:60]!r}; expected names of files in its folder."
        )


def _are_names(names: Any) -> bool:
    """Return True for a list of file names without folders."""
    return isinstance(names, list) and all(
        isinstance(name, str) and Path(name).name == name and name not in (".", "..")
        for name in names
    )


def _iterate_settings(settings: Any) -> Iterator[tuple[str, Any]]:
    """Yield the name and the value of each setting, including nested settings."""
    waiting = [settings]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            yield from ((str(name), nested) for name, nested in value.items())
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


def read_settings(path: Path) -> dict[str, Any]:
    """Read a JSON file. Raise DataError if its content is not an object."""
    settings = read_json(path)
    if not isinstance(settings, dict):
        raise DataError(f"{path} is not a JSON object with names and values. Copy it again.")
    return settings


CONFIG = "config.json"
VOCAB_TXT, VOCAB_JSON, TOKENIZER_JSON = "vocab.txt", "vocab.json", "tokenizer.json"
ADDED = "added_tokens.json"

SPECIAL = ("[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]", "<mask>")
"""Special symbols that do not occur in text. fairseq has other names for the first four."""


def read_config(folder: Path) -> dict[str, Any]:
    """Check a folder with `check_model_folder`. Return the settings in config.json."""
    check_model_folder(folder)
    return _read_object(folder / CONFIG, folder)


def read_vocabulary(folder: Path) -> dict[str, int]:
    """Return the embedding row of each symbol, from the first available tokenizer file."""
    if (folder / VOCAB_TXT).is_file():
        symbols = read_lines(folder / VOCAB_TXT)
        return {symbol: row for row, symbol in enumerate(symbols)} | _read_added(folder)
    if (folder / VOCAB_JSON).is_file():
        rows = _read_object(folder / VOCAB_JSON, folder) | _read_added(folder)
        return _check_rows(rows, folder / VOCAB_JSON)
    if (folder / TOKENIZER_JSON).is_file():
        return _read_tokenizer(folder / TOKENIZER_JSON)
    raise DataError(
        f"{folder} has no vocabulary. Expected {VOCAB_TXT}, {VOCAB_JSON} or {TOKENIZER_JSON}."
    )


def write_dictionary(folder: Path, output: Path) -> int:
    """Write the vocabulary as a dictionary for fairseq-preprocess. Return the number of symbols.

    Special symbols and symbols with whitespace are omitted.
    """
    omitted = {*RESERVED, *SPECIAL}
    rows = read_vocabulary(folder)
    ordered = sorted(rows, key=rows.__getitem__)
    symbols = [one for one in ordered if one not in omitted and one.split() == [one]]
    with atomic_lines(output) as file:
        file.writelines(f"{symbol} 1\n" for symbol in symbols)
    return len(symbols)


def _read_tokenizer(path: Path) -> dict[str, int]:
    content = _read_object(path, path.parent)
    model = content.get("model")
    rows = model.get("vocab") if isinstance(model, dict) else None
    if not isinstance(rows, dict):
        raise DataError(
            f"{path} has no token ids under model.vocab. Expected a tokenizer with word "
            "pieces or byte-pair encoding."
        )
    try:
        added = {str(one["content"]): one["id"] for one in content.get("added_tokens") or []}
    except (KeyError, TypeError):
        raise DataError(
            f"{path} has added_tokens without a content or an id. Copy it again."
        ) from None
    return _check_rows(rows | added, path)


def _read_added(folder: Path) -> dict[str, int]:
    path = folder / ADDED
    return _check_rows(_read_object(path, folder), path) if path.is_file() else {}


def _check_rows(rows: dict[str, Any], path: Path) -> dict[str, int]:
    """Raise DataError unless all rows are integers of 0 or more. Return the rows."""
    wrong = [symbol for symbol, row in rows.items() if not isinstance(row, int) or row < 0]
    if wrong:
        symbol = wrong[0]
        raise DataError(f"{path}: the id of {symbol!r} is {rows[symbol]!r}; expected 0 or more.")
    return rows


def _read_object(path: Path, folder: Path) -> dict[str, Any]:
    if not folder.exists():
        raise DataError(
            f"The folder {folder} does not exist. Expected a model in the format of Hugging Face. "
            f"Download one with: hf download NAME --local-dir {folder}"
        )
    if not path.is_file():
        raise DataError(
            f"{path} cannot be read. Expected {folder} to be a model in the format of Hugging "
            f"Face, with {CONFIG}, the files of the tokenizer and the weights."
        )
    return read_settings(path)
