"""Selection of the last or the best checkpoints of a training run."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.io.text_files import path_list
from fairseq_ssl.options import check, option

PATTERNS = {
    "epoch": re.compile(r"checkpoint(\d+)\.pt"),
    "update": re.compile(r"checkpoint_\d+_(\d+)\.pt"),
}
"""Patterns of fairseq's file names for checkpoints saved by epoch and by update."""
BEST_PATTERN = re.compile(r"checkpoint(_best|\.best_.+)\.pt")
LAST_PATTERN = re.compile(r"checkpoint_last\.pt")


@dataclass(frozen=True)
class CheckpointSelection:
    """Number and kind of the checkpoints to average. By default, all input checkpoints are used."""

    last: int | None = option(None, "number of most recent checkpoints to average", low=1)
    best: int | None = option(
        None, "number of checkpoints to average, those with the best validation scores", low=1
    )
    by: str | None = option(
        None,
        "for --last: kind of checkpoints; epoch: saved at the end of an epoch (checkpointN.pt); "
        "update: saved after a number of updates (checkpoint_E_N.pt)",
        choices=tuple(PATTERNS),
        usual="epoch",
    )

    def __post_init__(self) -> None:
        check(self)
        if self.by and self.last is None:
            raise UsageError("`by` needs `last`, the number of checkpoints. Set `last` too.")

    def paths(self, inputs: Sequence[str | Path]) -> list[Path]:
        """Return the selected checkpoints, or `inputs` if neither `last` nor `best` is set.

        The last checkpoints are sorted by number. The best checkpoints are sorted by their stored
        validation score, from worst to best. Each checkpoint also stores whether a higher score is
        better. Checkpoints without a score are not used. Copies of the same update, such as
        checkpoint_best.pt, are used only once.

        Args:
            inputs: the folder of a run, or checkpoints.
        """
        paths = path_list(inputs)
        if self.last or self.best:
            if len(paths) != 1:
                raise UsageError(f"`last` and `best` need a run's folder, not {len(paths)} paths.")
            return self._last(paths[0]) if self.last else self._best(paths[0])
        for path in paths:
            if path.is_dir():
                raise UsageError(f"{path} is a folder. Set `last` or `best`, or pass files.")
        return paths

    def _last(self, folder: Path) -> list[Path]:
        by, count = self.by or "epoch", self.last or 0
        paths = _numbered_checkpoints(folder, by)
        if len(paths) < count:
            other = next(kind for kind in PATTERNS if kind != by)
            number = len(_numbered_checkpoints(folder, other))
            hint = f" To use the {number} saved by {other}, set `by` to {other}." if number else ""
            raise DataError(
                f"{folder} contains {len(paths)} {by} checkpoints. Expected at least {count}, the "
                f"value of `last`.{hint}"
            )
        return paths[-count:]

    def _best(self, folder: Path) -> list[Path]:
        from fairseq_ssl.checkpoints.files import group_options, read_checkpoint, update_count

        count = self.best or 0
        paths = [path for by in PATTERNS for path in _numbered_checkpoints(folder, by)]
        paths += sorted(path for path in folder.iterdir() if BEST_PATTERN.fullmatch(path.name))
        ranked: dict[int, tuple[float, Path]] = {}
        for path in paths:
            state = read_checkpoint(path)
            value = (state.get("extra_state") or {}).get("val_loss")
            if isinstance(value, (int, float)) and not math.isnan(value):
                options = group_options(state, "checkpoint")
                sign = 1.0 if options.get("maximize_best_checkpoint_metric") else -1.0
                ranked.setdefault(update_count(state), (sign * float(value), path))
        if len(ranked) < count:
            raise DataError(
                f"{folder} contains {len(ranked)} checkpoints of different updates with validation "
                f"scores besides checkpoint_last.pt. Expected at least {count}, as set by `best`."
            )
        in_order = sorted((value, updates) for updates, (value, _) in ranked.items())
        return [ranked[updates][1] for _, updates in in_order[-count:]]


def check_average_output(output: str | Path, inputs: Sequence[str | Path]) -> None:
    """Raise UsageError if an average would replace a checkpoint of the training run.

    Args:
        output: path of the averaged checkpoint.
        inputs: checkpoints, or the folder of the run.
    """
    output = Path(output)
    folders = {(path if path.is_dir() else path.parent).resolve() for path in path_list(inputs)}
    patterns = (*PATTERNS.values(), BEST_PATTERN, LAST_PATTERN)
    is_checkpoint = any(pattern.fullmatch(output.name) for pattern in patterns)
    if is_checkpoint and output.exists() and output.parent.resolve() in folders:
        raise UsageError(f"{output} is a checkpoint of the run. Choose a different output file.")


def _numbered_checkpoints(folder: Path, by: str) -> list[Path]:
    """Return the checkpoints in a folder that were saved by epoch or by update, oldest first."""
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder. Expected the folder of a training run.")
    matches = [(PATTERNS[by].fullmatch(path.name), path) for path in folder.iterdir()]
    numbered = [(int(match[1]), path) for match, path in matches if match]
    return [path for _, path in sorted(numbered)]
