"""Checkpoints of this package's models as checkpoints of fairseq's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from fairseq_ssl.checkpoints.known_options import inference_config, named_values
from fairseq_ssl.checkpoints.reading import State, architecture, model_options, task_options
from fairseq_ssl.errors import DataError

STOCK_COUNTERPART = {
    "shape_transformer": "transformer",
    "shape_transformer_tiny": "transformer_tiny",
    "shape_transformer_iwslt_de_en": "transformer_iwslt_de_en",
    "shape_transformer_wmt_en_de": "transformer_wmt_en_de",
    "shape_transformer_big": "transformer_vaswani_wmt_en_de_big",
}
"""Architectures here, and the one of fairseq that computes the same outside training."""


def to_stock(state: State) -> State:
    """Return a checkpoint of fairseq's own architecture that gives the same outputs."""
    return exported(state, _stock_architecture(state), task_options(state))


def exported(state: State, arch: str, task: Mapping[str, Any]) -> State:
    """Return a checkpoint with the weights of `state` and the known ones of its options.

    It holds plain values and tensors only, so that it loads with or without this package, and
    with torch's protection on. It names no folders: whoever decodes passes the data.

    Args:
        state: the checkpoint
        arch: architecture of the new one
        task: options of the task of the new one
    """
    wrong = [name for name, weight in state["model"].items() if not isinstance(weight, Tensor)]
    if wrong:
        raise DataError(f"The weight {wrong[0]!r} of the checkpoint is not a tensor.")
    return {
        "args": None,
        "cfg": inference_config(
            arch,
            model_options(state),
            {**task, "data": None},
            _criterion(state),
        ),
        "model": dict(state["model"]),
        "optimizer_history": [_history(state)],
        "task_state": {},
        "extra_state": {
            "train_iterator": {"epoch": 1, "iterations_in_epoch": 0},
            "val_loss": None,
        },
        "last_optimizer_state": None,
    }


def _criterion(state: State) -> dict[str, Any]:
    """Return the options of the criterion, of a checkpoint of any age."""
    options = named_values((state.get("cfg") or {}).get("criterion"))
    if isinstance(options, dict):
        return options
    options = dict(named_values(state.get("args") or {}))
    return {**options, "_name": options.get("criterion")}


def _history(state: State) -> dict[str, Any]:
    """Return what fairseq reads of the optimizer's history: the number of updates."""
    histories = state.get("optimizer_history") or [{}]
    updates = histories[-1].get("num_updates", 0) if isinstance(histories[-1], dict) else 0
    return {
        "num_updates": updates if isinstance(updates, int) else 0,
        "criterion_name": "",
        "optimizer_name": "",
        "lr_scheduler_state": {},
    }


def _stock_architecture(state: State) -> str:
    arch = architecture(state)
    stock = STOCK_COUNTERPART.get(arch, arch)
    if not stock.startswith("transformer") or stock.startswith("transformer_lm"):
        raise DataError(
            f"A checkpoint of the architecture {arch!r} can not be exported: it has no counterpart "
            f"in fairseq. Those that have one: {', '.join(STOCK_COUNTERPART)}, and fairseq's own."
        )
    _check_positions(model_options(state))
    return stock


def _check_positions(options: dict[str, Any]) -> None:
    """Refuse positions that fairseq's own Transformer does not have."""
    if options.get("shape_positions") == "relative":
        raise DataError(
            "A checkpoint with --shape-positions relative can not be exported: fairseq's own "
            "Transformer has no relative positions. Absolute and shifted ones can be."
        )
    if options.get("shape_eval_offset"):
        raise DataError(
            f"The checkpoint has --shape-eval-offset {options['shape_eval_offset']} and can not be "
            "exported: the first position of fairseq's own Transformer is always 0."
        )
