"""Weight averaging of fairseq checkpoints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from fairseq_ssl.checkpoints.files import (
    State,
    architecture,
    check_finite,
    read_checkpoint,
    weight_difference,
)
from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.io.text_files import path_list

TieKey = tuple[int, int, tuple[int, ...], tuple[int, ...]]


def average(paths: Sequence[str | Path], moving: bool = False) -> State:
    """Average the weights of checkpoints. Return the resulting checkpoint.

    Weights are averaged in float64. Integer tensors and all other parts are copied from the last
    checkpoint, except for the optimizer state and the moving averages, which are removed.

    Args:
        paths: checkpoints of one training run.
        moving: whether to average the exponential moving averages (EMA) in the checkpoints
            instead of the weights.

    >>> average(["checkpoint7.pt", "checkpoint8.pt"])  # doctest: +SKIP
    """
    paths = path_list(paths)
    if not paths:
        raise UsageError("`paths` is empty. Expected at least one checkpoint.")
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
    """Read a checkpoint. If `moving` is True, replace its weights with their moving averages."""
    state = read_checkpoint(path)
    if moving:
        stored = (state.get("extra_state") or {}).get("ema")
        if stored is None:
            raise DataError(
                f"{path} contains no exponential moving averages (EMA). Expected a checkpoint of a "
                "training run with --store-ema."
            )
        state["model"] = stored
    check_finite(state["model"], path)
    return state


def ties(model: dict[str, Tensor]) -> Iterable[list[str]]:
    """Group the names of tensors that share memory, shape and strides, such as tied weights."""
    groups: dict[TieKey, list[str]] = {}
    for name, tensor in model.items():
        storage = tensor.untyped_storage().data_ptr()
        key = (storage, int(tensor.storage_offset()), tuple(tensor.shape), tensor.stride())
        groups.setdefault(key, []).append(name)
    return groups.values()


def _check_same_model(first_path: Path, first: State, path: Path, state: State) -> None:
    """Raise DataError if the architectures, weight names or shapes of two checkpoints differ."""
    difference = weight_difference(state["model"], first["model"])
    if architecture(first) != architecture(state):
        difference = f"the architectures are {architecture(state)!r} and {architecture(first)!r}"
    if difference is None:
        return
    raise DataError(
        f"{path} and {first_path} contain different models: {difference}. Expected checkpoints of "
        "the same training run."
    )
