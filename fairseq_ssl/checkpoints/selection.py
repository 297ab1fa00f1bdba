"""Which checkpoints of a training run to take: the last n, or the n that validated best."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from fairseq_ssl.checkpoints.reading import State, read
from fairseq_ssl.errors import DataError

PATTERNS = {
    "epoch": re.compile(r"checkpoint(\d+)\.pt"),
    "update": re.compile(r"checkpoint_\d+_(\d+)\.pt"),
}
"""fairseq's file names, by what their number counts."""

BEST = re.compile(r"checkpoint(_best|\.best_.+)\.pt")


@dataclass(frozen=True)
class Numbered:
    """A checkpoint file and the epoch or update in its name."""

    number: int
    path: Path


def numbered(folder: Path, by: str) -> list[Numbered]:
    """List the checkpoints of `folder` that were saved by epoch or by update, oldest first."""
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder. Expected the --save-dir of a training run.")
    found = [(PATTERNS[by].fullmatch(path.name), path) for path in folder.iterdir()]
    kept = [Numbered(int(match[1]), path) for match, path in found if match]
    return sorted(kept, key=lambda checkpoint: checkpoint.number)


def last(folder: Path, count: int, by: str, upto: int | None = None) -> list[Path]:
    """Return the newest `count` checkpoints, none newer than epoch or update `upto`."""
    found = [c for c in numbered(folder, by) if upto is None or c.number <= upto]
    if len(found) < count:
        other = next(kind for kind in PATTERNS if kind != by)
        hint = f" There are {n}: pass --by {other}." if (n := len(numbered(folder, other))) else ""
        raise DataError(
            f"{folder} holds {len(found)} checkpoints saved by {by}"
            f"{'' if upto is None else f' up to {upto}'}, {count} are wanted.{hint}"
        )
    return [checkpoint.path for checkpoint in found[-count:]]


def best(folder: Path, count: int) -> list[Path]:
    """Return the `count` checkpoints with the best validation value, the best one last.

    The value and its direction are those that fairseq stored inside each checkpoint
    (--best-checkpoint-metric); copies of one update count once.
    """
    files = [c.path for by in PATTERNS for c in numbered(folder, by)]
    files += sorted(path for path in folder.iterdir() if BEST.fullmatch(path.name))
    ranked: dict[int, tuple[float, Path]] = {}
    for path in files:
        state = read(path)
        value = (state.get("extra_state") or {}).get("val_loss")
        if value is not None:
            sign = 1.0 if _higher_is_better(state) else -1.0
            ranked.setdefault(_updates(state), (sign * float(value), path))
    if len(ranked) < count:
        raise DataError(
            f"{folder} holds {len(ranked)} checkpoints with a validation value, "
            f"{count} are wanted. Lower --best, or train with validation and keep more checkpoints."
        )
    in_order = sorted((value, updates) for updates, (value, _) in ranked.items())
    return [ranked[updates][1] for _, updates in in_order[-count:]]


def _higher_is_better(state: State) -> bool:
    settings = (state.get("cfg") or {}).get("checkpoint") or {}
    return bool(settings.get("maximize_best_checkpoint_metric", False))


def _updates(state: State) -> int:
    history = state.get("optimizer_history") or [{}]
    return int(history[-1].get("num_updates", 0))
