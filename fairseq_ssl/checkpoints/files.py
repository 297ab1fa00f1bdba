"""Reading and writing of fairseq checkpoints, and access to their options and languages.

Code in a checkpoint is never run.
"""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from fairseq_ssl.checkpoints.safe_values import plain_globals, shortened
from fairseq_ssl.checkpoints.stored_options import check_options
from fairseq_ssl.errors import DataError, UnsafeCheckpointError, UsageError, first_line
from fairseq_ssl.io.outputs import atomic_path
from fairseq_ssl.io.text_files import decode_file_name, require_file

State = dict[str, Any]
"""A checkpoint in fairseq format: a dictionary with keys such as `model`, `cfg` and `args`."""

PARTS: dict[str, tuple[type, ...]] = {
    "args": (Namespace, dict),
    "cfg": (dict,),
    "extra_state": (dict,),
    "model": (dict,),
    "optimizer_history": (list,),
    "task_state": (dict,),
}
"""Allowed types of a checkpoint's parts, by key. A part can be None or missing."""
GROUPS = ("checkpoint", "criterion", "model", "task")
"""Groups of options in `cfg` that this package reads."""
DTYPES = (
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.bool),
    *(torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
)
"""Supported dtypes of the tensors in a checkpoint."""
MAX_DEPTH = 50
"""Maximum nesting depth of dictionaries and lists in a checkpoint."""


def rejection_reason(path: str | Path, error: Exception) -> DataError:
    """Convert an exception from unpickling `path` with torch to an error of this package.

    Return an UnsafeCheckpointError if the pickle imports a forbidden name, otherwise a DataError.
    """
    name = re.search(r"GLOBAL (\S+)", str(error))
    if name is None:
        return DataError(
            f"{path} cannot be read as a checkpoint: it is damaged or has a different format. "
            "Copy it again, or use another checkpoint of the run."
        )
    return UnsafeCheckpointError(
        f"{path} was rejected and nothing in it was run: its pickle imports {name[1]!r}, which no "
        "checkpoint of fairseq or fairseq-ssl needs. Do not load this file. Ask its author for a "
        "checkpoint that contains only tensors, numbers and text."
    )


def read_checkpoint(path: str | Path) -> State:
    """Read a checkpoint into CPU memory. Tensors are memory-mapped if possible.

    Options are checked, and options that name files are dropped. See `checkpoints.stored_options`.
    """
    require_file(path, "a checkpoint of fairseq-train, such as checkpoint_best.pt")
    state = load_checkpoint(path, path, mmap=can_map(path))
    if not isinstance(state.get("model"), dict):
        raise _no_model(path)
    return state


def can_map(path: str | Path) -> bool:
    """Return True if torch can memory-map a file: a zip archive whose path torch can decode."""
    with Path(path).open("rb") as file:
        return file.read(4) == b"PK\x03\x04" and decode_file_name(str(path)) == str(path)


def load_checkpoint(source: Any, path: str | Path, **options: Any) -> State:
    """Load a checkpoint of tensors and plain values, and check its parts, tensors and options.

    Args:
        source: path or open file.
        path: name of the file in error messages.
        options: keyword arguments of `torch.load`, except `map_location` and `weights_only`.
    """
    options["map_location"] = "cpu"
    try:
        with plain_globals():
            state = torch.load(source, weights_only=True, **options)
    except (OSError, RuntimeError) as error:
        raise DataError(
            f"{path} cannot be read ({first_line(error)}). If it is damaged, copy it again."
        ) from None
    except Exception as error:  # UnpicklingError, or any error of torch for damaged data
        raise rejection_reason(path, error) from None
    if not isinstance(state, dict):
        raise _no_model(path)
    try:
        _check_parts(state)
        _check_tensors(state)
    except _FormatError as error:
        raise DataError(f"{path} is not a checkpoint of fairseq-train: {error}.") from None
    check_options(state, path)
    return state


def _no_model(path: str | Path) -> DataError:
    return DataError(
        f"{path} is not a fairseq checkpoint: it contains no model. Expected a checkpoint of "
        "fairseq-train."
    )


class _FormatError(Exception):
    """Reason why a file is not a fairseq checkpoint."""


def _check_parts(state: State) -> None:
    for part, kinds in PARTS.items():
        _check_kind(state.get(part), part, kinds)
    for group in GROUPS:
        _check_kind((state.get("cfg") or {}).get(group), f"cfg.{group}", PARTS["args"])
    average = (state.get("extra_state") or {}).get("ema")
    _check_kind(average, "extra_state.ema", (dict,))
    for name, weight in [*(state.get("model") or {}).items(), *(average or {}).items()]:
        if not isinstance(name, str):
            raise _FormatError(f"the name of a weight is {shortened(name)}, expected a string")
        _check_kind(weight, f"the weight {name}", (Tensor,))


def _check_kind(value: Any, name: str, kinds: tuple[type, ...]) -> None:
    if value is not None and not isinstance(value, kinds):
        expected = " or ".join(kind.__name__ for kind in kinds)
        raise _FormatError(f"{name} has the type {type(value).__name__}, expected {expected}")


def _check_tensors(state: State) -> None:
    """Raise _FormatError unless all tensors are dense, have a supported dtype and fit into storage.

    The total size of different views must not exceed their storage. Tied weights count once.
    """
    free: dict[int, int] = {}
    views = set()
    for name, tensor in _named_tensors(state):
        is_plain = type(tensor) in (Tensor, Parameter) and tensor.layout is torch.strided
        if not is_plain or tensor.is_nested or tensor.is_meta or tensor.dtype not in DTYPES:
            kind = f"{tensor.layout}, {tensor.dtype}, {tensor.device}"
            raise _FormatError(f"the tensor {name} has an unsupported type: {kind}")
        storage = tensor.untyped_storage()
        view = storage.data_ptr(), tensor.storage_offset(), tensor.shape, tensor.stride()
        if view not in views:  # tied weights share their values
            views.add(view)
            size = tensor.numel() * tensor.element_size()
            free[view[0]] = free.get(view[0], storage.nbytes()) - size
            if free[view[0]] < 0:
                raise _FormatError(f"the tensor {name} is larger than its storage in the file")


def _named_tensors(state: State) -> Iterator[tuple[str, Tensor]]:
    """Yield each tensor in a checkpoint, with its key in the innermost dictionary as its name.

    Raise _FormatError if dictionaries or lists are nested more deeply than `MAX_DEPTH`.
    """
    left: list[tuple[str, Any, int]] = [("", state, 0)]
    seen = set()
    while left:
        name, value, depth = left.pop()
        if isinstance(value, Tensor):
            yield name, value
        elif isinstance(value, (dict, list, tuple, Namespace)) and id(value) not in seen:
            if depth > MAX_DEPTH:
                raise _FormatError(f"its values are nested more than {MAX_DEPTH} levels deep")
            seen.add(id(value))
            if isinstance(value, (list, tuple)):
                left.extend((name, item, depth + 1) for item in value)
            else:
                items = vars(value) if isinstance(value, Namespace) else value
                left.extend((str(key), item, depth + 1) for key, item in items.items())


def check_finite(weights: Mapping[str, Tensor], path: str | Path) -> None:
    """Raise DataError if a weight of the checkpoint `path` contains NaN or infinite values."""
    for name, weight in weights.items():
        if not weight.is_floating_point() or name.endswith("._float_tensor"):
            continue  # fairseq 0.12.2 stores _float_tensor, which has no value
        # A sum needs a single pass over the memory. That of finite numbers can overflow.
        total = weight.sum(dtype=torch.promote_types(weight.dtype, torch.float32))
        if not total.isfinite() and not weight.isfinite().all():
            raise DataError(
                f"{path} cannot be used: its weight {name} contains NaN or infinite values. Choose "
                "a checkpoint that was saved before training diverged."
            )


def write_checkpoint(state: State, path: str | Path) -> None:
    """Write a checkpoint to a temporary file, and rename it to `path`."""
    with atomic_path(Path(path)) as temporary:
        save_checkpoint(state, temporary)


def save_checkpoint(state: State, path: Path) -> None:
    """Write a checkpoint. Open the file here, since torch's errors for a path are unclear."""
    with path.open("wb") as file:
        torch.save(state, file)


def weights_below(state: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return the weights whose names start with `prefix`. The prefix is removed from the names."""
    return {
        name.removeprefix(prefix): weight
        for name, weight in state["model"].items()
        if name.startswith(prefix)
    }


def weight_difference(weights: Mapping[str, Tensor], others: Mapping[str, Tensor]) -> str | None:
    """Describe the first difference in names or shapes of two state dicts. Return None if equal."""
    if missing := weights.keys() ^ others.keys():
        return f"only one of them has the weight {min(missing)!r}"
    for name, weight in weights.items():
        if weight.shape != others[name].shape:
            shapes = f"{tuple(weight.shape)} and {tuple(others[name].shape)}"
            return f"the shapes of the weight {name!r} are {shapes}"
    return None


def model_options(state: State) -> dict[str, Any]:
    """Return the model options in `args` or `cfg`. Raise DataError if a checkpoint has neither."""
    options = state.get("args") or (state.get("cfg") or {}).get("model")
    if options is None:
        raise DataError(
            "The checkpoint contains neither cfg.model nor args, so its architecture is unknown. "
            "Expected a checkpoint of fairseq-train, not weights alone."
        )
    return dict(options) if isinstance(options, dict) else dict(vars(options))


def group_options(state: State, group: str) -> dict[str, Any]:
    """Return a group of options, such as ``criterion``, from `cfg`, or all options in `args`.

    `_name` is the registered name, such as ``cross_entropy``. If the checkpoint contains neither
    the group nor `args`, the result contains only `_name`, which is None.
    """
    options = (state.get("cfg") or {}).get(group) or state.get("args") or {}
    named = dict(options) if isinstance(options, dict) else dict(vars(options))
    return {"_name": named.get(group), **named}


def task_options(state: State) -> dict[str, Any]:
    """Return the options of the training task. `_name` is the name of the task."""
    return group_options(state, "task")


def update_count(state: State) -> int:
    """Return the number of training updates, or 0 if the checkpoint does not contain it."""
    history = state.get("optimizer_history") or [{}]
    updates = history[-1].get("num_updates") if isinstance(history[-1], dict) else None
    return updates if isinstance(updates, int) else 0


def architecture(state: State) -> str:
    """Return the name of a checkpoint's architecture."""
    options = model_options(state)
    return str(options.get("_name") or options.get("arch"))


BINARIZED = re.compile(r"[^.]+\.(?P<source>[^.]+)-(?P<target>[^.]+)\.[^.]+\.idx")


@dataclass(frozen=True)
class TrainingData:
    """The languages of a translation model, and the folder that contains its dictionaries."""

    folder: Path
    source: str
    target: str

    @property
    def dictionaries(self) -> tuple[Path, Path]:
        """Paths of the source and the target dictionary."""
        return self.folder / f"dict.{self.source}.txt", self.folder / f"dict.{self.target}.txt"


def require_folder(folder: str | Path | None) -> Path:
    """Return `folder` as a path. Raise UsageError for None: checkpoints' folders are not used."""
    if folder is None:
        raise UsageError(
            "`data_dir` is not set. Set it to the folder with the model's dictionaries. The folder "
            "stored in the checkpoint is not used."
        )
    return Path(folder)


def training_data(
    state: State,
    folder: str | Path | None,
    source: str | None = None,
    target: str | None = None,
) -> TrainingData:
    """Return a checkpoint's languages and data folder. Raise DataError if a dictionary is missing.

    Args:
        state: the checkpoint.
        folder: folder that contains the dictionaries. None raises UsageError.
        source: source language (default: from the checkpoint or the file names in the folder).
        target: target language (default: from the checkpoint or the file names in the folder).
    """
    task = task_options(state)
    folder = require_folder(folder)
    source, target = source or task.get("source_lang"), target or task.get("target_lang")
    if not (source and target):
        matches = [
            m for path in sorted(folder.glob("*.idx")) if (m := BINARIZED.fullmatch(path.name))
        ]
        if not matches:
            raise DataError(
                "The languages of the model are neither in the checkpoint nor in the names of .idx "
                f"files in {folder}. Set `source_lang` and `target_lang`, and set `data_dir` to "
                "the folder with dict.SOURCE.txt and dict.TARGET.txt."
            )
        source, target = source or matches[0]["source"], target or matches[0]["target"]
    data = TrainingData(folder, str(source), str(target))
    for dictionary in data.dictionaries:
        if not dictionary.is_file():
            raise DataError(
                f"{dictionary} does not exist. Set `data_dir` to the folder with "
                f"dict.{source}.txt and dict.{target}.txt."
            )
    return data
