"""Checkpoints of fairseq: read without running their code, written; their languages and data."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from fairseq_ssl.checkpoints.options import check_options
from fairseq_ssl.checkpoints.safe_values import allow_plain_globals
from fairseq_ssl.errors import DataError, UnsafeCheckpointError, UsageError
from fairseq_ssl.io.outputs import atomic_path
from fairseq_ssl.io.text_files import decode_file_name

State = dict[str, Any]
"""A checkpoint as fairseq writes it: model, cfg, extra_state and more."""


def rejection_reason(path: str | Path, error: Exception) -> DataError:
    """Say in our words why torch would not unpickle `path`."""
    wanted = re.search(r"GLOBAL (\S+)", str(error))
    if wanted is None:
        return DataError(
            f"{path} cannot be read as a checkpoint: its contents are damaged or of another kind. "
            "Copy it again, or take another checkpoint of the run."
        )
    return UnsafeCheckpointError(
        f"{path} was rejected and nothing in it was run: its pickle asks for {wanted[1]!r}, "
        "which no checkpoint of fairseq or of this package needs. Do not load this file; ask "
        "whoever made it for one that holds only tensors, numbers and text."
    )


def read_checkpoint(path: Path) -> State:
    """Read a checkpoint on the CPU; its tensors stay on disk until they are touched.

    Its options are checked, and those that name files are dropped: see `options`.
    """
    try:
        # What torch wrote before 1.6 cannot be mapped, nor a name that is not text in this locale.
        mapped = zipfile.is_zipfile(path) and decode_file_name(str(path)) == str(path)
    except OSError:
        mapped = False  # `load_checkpoint` says why
    state = load_checkpoint(path, path, mmap=mapped)
    if not isinstance(state.get("model"), dict):
        raise DataError(f"{path} is not a fairseq checkpoint: it holds no model.")
    return state


def load_checkpoint(source: Any, path: str | Path, **options: Any) -> State:
    """Unpickle a checkpoint with `torch.load`, restricted to plain values, and check its options.

    Args:
        source: the file, or its path
        path: what errors call it
        options: of torch.load
    """
    allow_plain_globals()
    options["map_location"] = "cpu"
    try:
        state = torch.load(source, weights_only=True, **options)
    except FileNotFoundError:
        raise DataError(f"{path} does not exist. Expected a fairseq checkpoint.") from None
    except IsADirectoryError:
        raise DataError(
            f"{path} is a folder. Expected a fairseq checkpoint, a file such as "
            f"{Path(path) / 'checkpoint_best.pt'}."
        ) from None
    except (OSError, RuntimeError) as error:
        raise DataError(f"{path} cannot be read as a checkpoint: {_first_line(error)}") from None
    except Exception as error:  # UnpicklingError, or what torch trips over in other bytes
        raise rejection_reason(path, error) from None
    if not isinstance(state, dict):
        raise DataError(f"{path} is not a fairseq checkpoint: it holds no model.")
    check_options(state, path)
    return state


def write_checkpoint(state: State, path: Path) -> None:
    """Write a checkpoint that appears when it is complete."""
    with atomic_path(path) as temporary:
        save_checkpoint(state, temporary)


def save_checkpoint(state: State, path: Path) -> None:
    """Write a checkpoint by Python's own file, whose errors say what happened; torch's do not."""
    with path.open("wb") as file:
        torch.save(state, file)


def weights_below(state: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return the weights of a part of the model, by their names in that part."""
    return {
        name.removeprefix(prefix): weight
        for name, weight in state["model"].items()
        if name.startswith(prefix)
    }


def model_options(state: State) -> dict[str, Any]:
    """Return the options the model was built with, of a checkpoint of any age."""
    options = state.get("args") or (state.get("cfg") or {}).get("model")
    if options is None:
        raise DataError(
            "The checkpoint does not say which model it holds: it has no cfg or args. Expected "
            "what fairseq-train saved, and not weights alone."
        )
    return dict(options) if isinstance(options, dict) else dict(vars(options))


def task_options(state: State) -> dict[str, Any]:
    """Return the options of the task the model was trained in; `_name` is what --task was."""
    options = (state.get("cfg") or {}).get("task") or state.get("args") or {}
    named = dict(options) if isinstance(options, dict) else dict(vars(options))
    return {"_name": named.get("task"), **named}


def architecture(state: State) -> str:
    """Return the name that --arch had when the model was trained."""
    options = model_options(state)
    return str(options.get("_name") or options.get("arch"))


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


BINARIZED = re.compile(r"[^.]+\.(?P<source>[^.]+)-(?P<target>[^.]+)\.[^.]+\.idx")


@dataclass(frozen=True)
class TrainingData:
    """A folder with ``dict.SOURCE.txt`` and ``dict.TARGET.txt``."""

    folder: Path
    source: str
    target: str

    @property
    def dictionaries(self) -> tuple[Path, Path]:
        """The files of both sides."""
        return self.folder / f"dict.{self.source}.txt", self.folder / f"dict.{self.target}.txt"


def require_folder(folder: Path | None) -> Path:
    """Return the folder of a model's dictionaries, which a checkpoint must not name."""
    if folder is None:
        raise UsageError(
            "Set `data_dir` to the folder of the model's dictionaries. The folder in a checkpoint "
            "is not read."
        )
    return folder


def training_data(
    state: State, folder: Path | None, source: str | None = None, target: str | None = None
) -> TrainingData:
    """Return what a checkpoint was trained on.

    Args:
        state: the checkpoint
        folder: of the dictionaries; None is rejected
        source: language, as target (None: the one it names, or else that of the folder's data)
        target: language
    """
    task = task_options(state)
    folder = require_folder(folder)
    source, target = source or task.get("source_lang"), target or task.get("target_lang")
    if not (source and target):
        found = [match for path in sorted(folder.glob("*.idx")) if (match := _named(path))]
        if not found:
            raise DataError(
                f"The checkpoint does not say between which languages it translates, nor does "
                f"{folder}. Set `source_lang`, `target_lang` and `data_dir`, the folder of "
                "dict.SOURCE.txt and dict.TARGET.txt."
            )
        source, target = source or found[0]["source"], target or found[0]["target"]
    data = TrainingData(folder, str(source), str(target))
    for dictionary in data.dictionaries:
        if not dictionary.is_file():
            raise DataError(
                f"{dictionary} does not exist. Set `data_dir` to the folder with "
                f"dict.{source}.txt and dict.{target}.txt."
            )
    return data


def _named(path: Path) -> re.Match[str] | None:
    return BINARIZED.fullmatch(path.name)
