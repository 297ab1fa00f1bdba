"""Averaging of checkpoints, and selection of the last or the best checkpoints of a run."""

from __future__ import annotations

import math
import re
from argparse import Namespace
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from fairseq_ssl.checkpoints.files import (
    State,
    architecture,
    check_finite,
    read_checkpoint,
    update_count,
    weight_difference,
)
from fairseq_ssl.errors import DataError, UsageError, check_choice, check_positive
from fairseq_ssl.io.text_files import path_list

PATTERNS = {
    "epoch": re.compile(r"checkpoint(\d+)\.pt"),
    "update": re.compile(r"checkpoint_\d+_(\d+)\.pt"),
}
"""Patterns of fairseq's file names for checkpoints saved by epoch and by update."""

BEST_PATTERN = re.compile(r"checkpoint(_best|\.best_.+)\.pt")
LAST_PATTERN = re.compile(r"checkpoint_last\.pt")


def numbered_checkpoints(folder: Path, by: str) -> list[Path]:
    """List the checkpoints of `folder` that were saved by epoch or by update, oldest first."""
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder. Expected the folder of a training run.")
    matches = [(PATTERNS[by].fullmatch(path.name), path) for path in folder.iterdir()]
    return [path for _, path in sorted((int(match[1]), path) for match, path in matches if match)]


def last_checkpoints(folder: str | Path, count: int, by: str) -> list[Path]:
    """Return the last `count` checkpoints of a run, oldest first.

    Args:
        folder: folder of the run.
        count: number of checkpoints, 1 or more.
        by: ``epoch`` or ``update``, which selects the checkpoints saved by epoch or by update.

    Raises:
        DataError: if there are fewer checkpoints.
    """
    check_positive("count", count)
    check_choice("by", by, PATTERNS)
    folder = Path(folder)
    available = numbered_checkpoints(folder, by)
    if len(available) < count:
        other = next(kind for kind in PATTERNS if kind != by)
        hint = (
            f" There are {n} by {other}: set `by`."
            if (n := len(numbered_checkpoints(folder, other)))
            else ""
        )
        raise DataError(
            f"{folder} has {len(available)} checkpoints saved by {by}. Expected {count}.{hint}"
        )
    return available[-count:]


def best_checkpoints(folder: str | Path, count: int) -> list[Path]:
    """Return the `count` checkpoints with the best validation scores, the best one last.

    The checkpoints store the scores, and whether higher is better. Checkpoints whose score is not a
    number are not used. Copies of the same update, such as checkpoint_best.pt, are used only once.
    """
    check_positive("count", count)
    folder = Path(folder)
    files = [path for by in PATTERNS for path in numbered_checkpoints(folder, by)]
    files += sorted(path for path in folder.iterdir() if BEST_PATTERN.fullmatch(path.name))
    ranked: dict[int, tuple[float, Path]] = {}
    for path in files:
        state = read_checkpoint(path)
        value = (state.get("extra_state") or {}).get("val_loss")
        if isinstance(value, (int, float)) and not math.isnan(value):
            sign = 1.0 if _higher_is_better(state) else -1.0
            ranked.setdefault(update_count(state), (sign * float(value), path))
    if len(ranked) < count:
        raise DataError(
            f"{folder} has {len(ranked)} checkpoints with a validation score. Expected {count}. "
            "Average fewer, or train with validation and keep more checkpoints."
        )
    in_order = sorted((value, updates) for updates, (value, _) in ranked.items())
    return [ranked[updates][1] for _, updates in in_order[-count:]]


def check_average_output(output: str | Path, inputs: Iterable[str | Path]) -> None:
    """Raise UsageError if an average would replace a checkpoint of the training run.

    Args:
        output: file of the average.
        inputs: checkpoints, or the folder of the run.
    """
    output = Path(output)
    folders = {(path if path.is_dir() else path.parent).resolve() for path in path_list(inputs)}
    patterns = (*PATTERNS.values(), BEST_PATTERN, LAST_PATTERN)
    is_checkpoint = any(pattern.fullmatch(output.name) for pattern in patterns)
    if is_checkpoint and output.exists() and output.parent.resolve() in folders:
        raise UsageError(f"{output} is a checkpoint of the run. Choose another output.")


def _higher_is_better(state: State) -> bool:
    settings = (state.get("cfg") or {}).get("checkpoint") or state.get("args") or {}
    if isinstance(settings, Namespace):
        settings = vars(settings)
    return bool(settings.get("maximize_best_checkpoint_metric", False))


TieKey = tuple[int, int, tuple[int, ...], tuple[int, ...]]


def average(paths: Sequence[str | Path], moving: bool = False) -> State:
    """Average the weights of checkpoints. Return the resulting checkpoint.

    Weights are averaged in float64. Integer tensors and all other parts are copied from the last
    checkpoint. The optimizer state is removed.

    Args:
        paths: checkpoints of one training run.
        moving: whether to average the exponential moving averages (EMA) in the checkpoints
            instead of the weights.

    >>> average(["checkpoint7.pt", "checkpoint8.pt"])  # doctest: +SKIP
    """
    paths = path_list(paths)
    if not paths:
        raise UsageError("There is nothing to average. Expected at least one checkpoint.")
    state = _read(paths[0], moving)
    names = [name for name, weight in state["model"].items() if weight.is_floating_point()]
    sums = dict.fromkeys(names, torch.zeros((), dtype=torch.float64))
    for index, path in enumerate(paths):
        if index:
            newer = _read(path, moving)
            _check_same_model(paths[0], state, path, newer)
            state = newer
        for name in names:
            sums[name] = sums[name] + state["model"][name].double()
    model = state["model"]
    # A run that is resumed on a GPU stores copies of weights that were tied on a CPU.
    for tied in ties(model):
        shared = None
        for name in filter(sums.__contains__, tied):
            mean = (sums.pop(name) / len(paths)).to(model[name].dtype)
            is_shared = shared is not None and torch.equal(mean, shared)
            model[name] = shared = shared if is_shared else mean
    state.pop("last_optimizer_state", None)
    for key in ("ema", "ema_fp32_params"):
        (state.get("extra_state") or {}).pop(key, None)
    return state


def _read(path: Path, moving: bool) -> State:
    """Read a checkpoint. With `moving`, replace its weights by their moving average."""
    state = read_checkpoint(path)
    if moving:
        stored = (state.get("extra_state") or {}).get("ema")
        if stored is None:
            raise DataError(
                f"{path} has no moving average. Expected a checkpoint that was trained with the "
                "option store_ema."
            )
        state["model"] = stored
    check_finite(state["model"], path)
    return state


def ties(model: dict[str, Tensor]) -> Iterable[list[str]]:
    """Return the names of all tensors, grouped by tensors that share memory (tied weights)."""
    groups: dict[TieKey, list[str]] = {}
    for name, tensor in model.items():
        storage = tensor.untyped_storage().data_ptr()
        key = (storage, int(tensor.storage_offset()), tuple(tensor.shape), tensor.stride())
        groups.setdefault(key, []).append(name)
    return groups.values()


def _check_same_model(first_path: Path, first: State, path: Path, state: State) -> None:
    """Raise DataError with the first difference if two checkpoints have different models."""
    difference = weight_difference(state["model"], first["model"])
    if architecture(first) != architecture(state):
        difference = f"{architecture(state)!r} against {architecture(first)!r}"
    if difference is None:
        return
    raise DataError(
        f"{path} and {first_path} have different models: {difference}. Expected checkpoints of "
        "one training run."
    )
