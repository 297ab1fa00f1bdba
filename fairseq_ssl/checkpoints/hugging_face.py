"""Model folders in Hugging Face format: validation and reading of their settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fairseq_ssl.errors import DataError, UnsafeCheckpointError
from fairseq_ssl.io.text_files import read_json

ADAPTER = "adapter_config.json"
"""Settings file of an adapter. It names a base model, which transformers would also load."""
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
"""Attention implementations in transformers. For other names, transformers downloads a kernel."""
UNREAD = "special_tokens_map_file"
"""Setting with the name of a file that transformers does not open."""


def check_model_folder(folder: Path) -> None:
    """Check that loading a folder with transformers runs no code and reads no files outside it.

    Raises:
        UnsafeCheckpointError: if a setting names code or other files, or the model is an adapter.
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
    """Raise UnsafeCheckpointError if a setting would run code or load other files or packages.

    Args:
        settings: settings of a model or a tokenizer, which can be nested.
        where: source of the settings, for the error message.
    """
    for name, value in _iterate_settings(settings):
        if value is None or (isinstance(value, (int, float)) and value is not True):
            continue  # disabled, or the id of a label that has this name
        if name in CODE:
            problem = "would run Python code"
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
    """Raise UnsafeCheckpointError if a weight index names files outside its folder."""
    parts = read_settings(path).get("weight_map")
    names = parts.values() if isinstance(parts, dict) else []
    wrong = [name for name in names if not _are_names([name])]
    if wrong:
        raise UnsafeCheckpointError(
            f"{path} names the file {str(wrong[0])[:60]!r}. Expected files in the same folder."
        )


def _are_names(names: Any) -> bool:
    """Return True if `names` is a list of file names without folders."""
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
        raise DataError(f"{path} does not contain a JSON object. Copy it again.")
    return settings


CONFIG = "config.json"


def read_config(folder: Path) -> dict[str, Any]:
    """Check a folder with `check_model_folder`. Return the settings in config.json."""
    check_model_folder(folder)
    if not folder.exists():
        raise DataError(
            f"The folder {folder} does not exist. Expected a model in Hugging Face format. "
            f"Download one with: hf download NAME --local-dir {folder}"
        )
    if not (folder / CONFIG).is_file():
        raise DataError(
            f"{folder / CONFIG} does not exist. Expected a Hugging Face model folder with "
            f"{CONFIG}, tokenizer files and weights."
        )
    return read_settings(folder / CONFIG)
