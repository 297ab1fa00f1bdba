"""Checks of a model folder before the package transformers reads it.

transformers runs the code of a folder, loads other folders and downloads kernels where the
folder's settings ask for it. These checks reject such settings, whatever transformers does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fairseq_ssl.errors import DataError, UnsafeCheckpointError
from fairseq_ssl.io.json_files import parse_json

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


def check_folder(folder: Path) -> None:
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
