"""Checkpoints of this package's models as checkpoints of fairseq's own."""

from __future__ import annotations

from typing import Any

from fairseq_ssl.checkpoints.reading import State, architecture, model_options
from fairseq_ssl.errors import DataError

STOCK_COUNTERPART = {
    "shape_transformer": "transformer",
    "shape_transformer_tiny": "transformer_tiny",
    "shape_transformer_iwslt_de_en": "transformer_iwslt_de_en",
    "shape_transformer_wmt_en_de": "transformer_wmt_en_de",
    "shape_transformer_big": "transformer_vaswani_wmt_en_de_big",
}
"""Architectures here, and the one of fairseq that computes the same outside training."""

KEPT = ("model", "optimizer_history", "task_state")


def to_stock(state: State) -> State:
    """Return a checkpoint of fairseq's own architecture that gives the same outputs.

    Only plain values and tensors are left in it, so that it loads with or without this
    package, and with torch's protection on.
    """
    options = _stock_options(state)
    plain = plain_state(state)
    if plain["cfg"].get("common"):
        plain["cfg"]["common"]["user_dir"] = None
    plain["cfg"]["model"] = options
    return plain


def plain_state(state: State) -> State:
    """Return a checkpoint in built-in types and tensors, without what only resuming needs."""
    plain = {key: _plain(state[key]) for key in KEPT if key in state}
    cfg = {key: _plain(value) for key, value in (state.get("cfg") or {}).items()}
    iterator = {"epoch": 1, "iterations_in_epoch": 0}
    return {
        "args": None,
        "cfg": cfg,
        **plain,
        "extra_state": {"train_iterator": iterator, "val_loss": None},
        "last_optimizer_state": None,
    }


def _stock_options(state: State) -> dict[str, Any]:
    arch = architecture(state)
    stock = STOCK_COUNTERPART.get(arch, arch)
    if not stock.startswith("transformer") or stock.startswith("transformer_lm"):
        raise DataError(
            f"A checkpoint of the architecture {arch!r} can not be exported: it has no counterpart "
            f"in fairseq. Those that have one: {', '.join(STOCK_COUNTERPART)}, and fairseq's own."
        )
    given = model_options(state)
    _check_positions(given)
    options = {key: value for key, value in given.items() if not key.startswith("shape_")}
    named: dict[str, Any] = _plain(options | {"_name": stock, "arch": stock})
    named.pop("user_dir", None)
    return named


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


def _plain(value: Any) -> Any:
    """Return `value` in built-in types and tensors only."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if hasattr(value, "__dict__") and type(value).__name__ == "Namespace":
        return _plain(vars(value))
    return value.item() if type(value).__module__ == "numpy" else value
