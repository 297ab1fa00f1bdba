"""Averaging of checkpoints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from fairseq_ssl.checkpoints.files import State, architecture, check_finite, read_checkpoint
from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.io.text_files import path_list

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
        _add_weights(sums, state["model"])
    state["model"] = _means(state["model"], sums, len(paths))
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


def _add_weights(sums: dict[str, Tensor], model: dict[str, Tensor]) -> None:
    """Add the weights of a checkpoint to the sums.

    Names share a sum as long as all checkpoints tie their weights. A run that is resumed on a GPU
    stores copies of weights that were tied on a CPU.
    """
    for names in ties(model):
        updated: dict[int, Tensor] = {}
        for name in filter(sums.__contains__, names):
            old = sums[name]
            if id(old) not in updated:
                updated[id(old)] = old + model[name].double()
            sums[name] = updated[id(old)]


def ties(model: dict[str, Tensor]) -> Iterable[list[str]]:
    """Return the names of all tensors, grouped by tensors that share memory (tied weights)."""
    groups: dict[TieKey, list[str]] = {}
    for name, tensor in model.items():
        storage = tensor.untyped_storage().data_ptr()
        key = (storage, int(tensor.storage_offset()), tuple(tensor.shape), tensor.stride())
        groups.setdefault(key, []).append(name)
    return groups.values()


def _means(model: dict[str, Tensor], sums: dict[str, Tensor], count: int) -> dict[str, Tensor]:
    """Return the weights of `model`, with the mean in place of each weight that has a sum.

    Means have the dtype of the weight. Sums are removed one by one to save memory.
    """
    means: dict[int, Tensor] = {}
    weights = {}
    for name, weight in model.items():
        if name in sums:
            total = sums.pop(name)
            if id(total) not in means:
                means[id(total)] = (total / count).to(weight.dtype)
            weight = means[id(total)]
        weights[name] = weight
    return weights


def _check_same_model(first_path: Path, first: State, path: Path, state: State) -> None:
    """Raise DataError with the first difference if two checkpoints have different models."""
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
        f"{path} and {first_path} have different models: {difference}. Expected checkpoints of "
        "one training run."
    )
