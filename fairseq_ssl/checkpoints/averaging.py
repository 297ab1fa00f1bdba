"""Averages of checkpoints, and the selection of checkpoints of a run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from fairseq_ssl.checkpoints.files import State, architecture, read_checkpoint
from fairseq_ssl.errors import DataError, UsageError

PATTERNS = {
    "epoch": re.compile(r"checkpoint(\d+)\.pt"),
    "update": re.compile(r"checkpoint_\d+_(\d+)\.pt"),
}
"""fairseq's file names, by what their number counts."""

BEST_PATTERN = re.compile(r"checkpoint(_best|\.best_.+)\.pt")


@dataclass(frozen=True)
class NumberedCheckpoint:
    """A checkpoint file and the epoch or update in its name."""

    number: int
    path: Path


def numbered_checkpoints(folder: Path, by: str) -> list[NumberedCheckpoint]:
    """List the checkpoints of `folder` that were saved by epoch or by update, oldest first."""
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder. Expected the folder of a training run.")
    found = [(PATTERNS[by].fullmatch(path.name), path) for path in folder.iterdir()]
    kept = [NumberedCheckpoint(int(match[1]), path) for match, path in found if match]
    return sorted(kept, key=lambda checkpoint: checkpoint.number)


def last_checkpoints(folder: Path, count: int, by: str, upto: int | None = None) -> list[Path]:
    """Return the newest `count` checkpoints, none newer than epoch or update `upto`."""
    found = [c for c in numbered_checkpoints(folder, by) if upto is None or c.number <= upto]
    if len(found) < count:
        other = next(kind for kind in PATTERNS if kind != by)
        hint = (
            f" There are {n} by {other}: set `by`."
            if (n := len(numbered_checkpoints(folder, other)))
            else ""
        )
        raise DataError(
            f"{folder} has {len(found)} checkpoints saved by {by}"
            f"{'' if upto is None else f' up to {upto}'}. Expected {count}.{hint}"
        )
    return [checkpoint.path for checkpoint in found[-count:]]


def best_checkpoints(folder: Path, count: int) -> list[Path]:
    """Return the `count` checkpoints with the best validation scores, the best one last.

    fairseq stores the score and its direction in each checkpoint. Copies of an update count once.
    """
    files = [c.path for by in PATTERNS for c in numbered_checkpoints(folder, by)]
    files += sorted(path for path in folder.iterdir() if BEST_PATTERN.fullmatch(path.name))
    ranked: dict[int, tuple[float, Path]] = {}
    for path in files:
        state = read_checkpoint(path)
        value = (state.get("extra_state") or {}).get("val_loss")
        if value is not None:
            sign = 1.0 if _higher_is_better(state) else -1.0
            ranked.setdefault(_updates(state), (sign * float(value), path))
    if len(ranked) < count:
        raise DataError(
            f"{folder} has {len(ranked)} checkpoints with a validation score. Expected {count}. "
            "Average fewer, or train with validation and keep more checkpoints."
        )
    in_order = sorted((value, updates) for updates, (value, _) in ranked.items())
    return [ranked[updates][1] for _, updates in in_order[-count:]]


def _higher_is_better(state: State) -> bool:
    settings = (state.get("cfg") or {}).get("checkpoint") or {}
    return bool(settings.get("maximize_best_checkpoint_metric", False))


def _updates(state: State) -> int:
    history = state.get("optimizer_history") or [{}]
    return int(history[-1].get("num_updates", 0))


TieKey = tuple[int, int, tuple[int, ...], tuple[int, ...]]


def average(paths: Sequence[Path], moving: bool = False) -> State:
    """Return the average of checkpoints.

    The weights are averaged in float64. Integer tensors and all other parts are those of the last
    checkpoint. The optimizer's state is removed.

    Args:
        paths: checkpoints of one training run
        moving: average the exponential moving averages in the checkpoints instead of the weights

    >>> average([Path("checkpoint7.pt"), Path("checkpoint8.pt")])  # doctest: +SKIP
    """
    if not paths:
        raise UsageError("There is nothing to average. Expected a checkpoint or more.")
    state = _read(paths[0], moving)
    sums = _zeros(state["model"])
    for index, path in enumerate(paths):
        if index:
            newer = _read(path, moving)
            _check_same_model(paths[0], state, path, newer)
            state = newer
        for name, total in sums.items():
            total += state["model"][name]
    state["model"] = _means(state["model"], sums, len(paths))
    state.pop("last_optimizer_state", None)
    for key in ("ema", "ema_fp32_params"):
        (state.get("extra_state") or {}).pop(key, None)
    return state


def _read(path: Path, moving: bool) -> State:
    """Read a checkpoint; with `moving`, the moving average in the place of its weights."""
    state = read_checkpoint(path)
    if moving:
        stored = (state.get("extra_state") or {}).get("ema")
        if stored is None:
            raise DataError(
                f"{path} has no moving average. Expected a checkpoint of a training with the "
                "option store_ema."
            )
        state["model"] = stored
    return state


def _zeros(model: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return a float64 sum for each floating-point tensor, one for those that share memory."""
    return {
        names[0]: torch.zeros(model[names[0]].shape, dtype=torch.float64)
        for names in _ties(model)
        if model[names[0]].is_floating_point()
    }


def _ties(model: dict[str, Tensor]) -> Iterable[list[str]]:
    """Group the names that share one tensor's memory, as tied embeddings do."""
    groups: dict[TieKey, list[str]] = {}
    for name, tensor in model.items():
        storage = tensor.untyped_storage().data_ptr()
        key = (storage, int(tensor.storage_offset()), tuple(tensor.shape), tensor.stride())
        groups.setdefault(key, []).append(name)
    return groups.values()


def _means(model: dict[str, Tensor], sums: dict[str, Tensor], count: int) -> dict[str, Tensor]:
    """Divide each sum by `count`, in the weights' own type; frees the sums on the way."""
    means: dict[str, Tensor] = {}
    for names in _ties(model):
        tensor = model[names[0]]
        if names[0] in sums:
            tensor = (sums.pop(names[0]) / count).to(tensor.dtype)
        means.update(dict.fromkeys(names, tensor))
    return {name: means[name] for name in model}


def _check_same_model(first_path: Path, first: State, path: Path, state: State) -> None:
    """Reject checkpoints of different models, with the first difference."""
    if architecture(first) != architecture(state):
        difference = f"{architecture(state)!r} against {architecture(first)!r}"
    elif first["model"].keys() != state["model"].keys():
        name = min(first["model"].keys() ^ state["model"].keys())
        difference = f"only one of them has the weight {name!r}"
    else:
        shapes = {name: tuple(tensor.shape) for name, tensor in first["model"].items()}
        changed = [n for n, t in state["model"].items() if tuple(t.shape) != shapes[n]]
        if not changed:
            return
        shape = tuple(state["model"][changed[0]].shape)
        difference = f"{changed[0]!r} is of shape {shape} against {shapes[changed[0]]}"
    raise DataError(
        f"{path} holds another model than {first_path}: {difference}. "
        "Average checkpoints of one training run only."
    )
