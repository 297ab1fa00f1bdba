"""Models of fairseq's, loaded to score sentences: one, or an ensemble."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fairseq_ssl.engines.devices import device_of
from fairseq_ssl.engines.loading import load_models
from fairseq_ssl.engines.scoring import LANGUAGE_MODEL, MASKED_MODEL, TRANSLATION, Scoring
from fairseq_ssl.errors import DataError, UsageError

TASKS = {"language_modeling": LANGUAGE_MODEL, "masked_lm": MASKED_MODEL}
"""What a checkpoint holds, by the --task of its training; all others translate."""

FLAGS = {kind: f"--{kind}" for kind in (TRANSLATION, LANGUAGE_MODEL, MASKED_MODEL)}


@dataclass(frozen=True)
class Loaded:
    """Models that are asked together, and the task that knows their dictionaries."""

    models: list[Any]
    task: Any
    device: Any

    def average(self, each: Sequence[Any]) -> Any:
        """Return the log of the mean of the models' probabilities, given their logs."""
        import torch

        if len(each) == 1:
            return each[0]
        return torch.logsumexp(torch.stack(list(each)), 0) - math.log(len(each))

    def longest(self, side: int = 0) -> int:
        """Return how many tokens all models read, of a side where they have two."""
        found = [model.max_positions() for model in self.models]
        return min(one[side] if isinstance(one, (tuple, list)) else int(one) for one in found)


def checked(scoring: Scoring) -> dict[str, Any]:
    """Return what replaces options of the checkpoints; refuse what the kind does not go with."""
    from fairseq_ssl.checkpoints.reading import read, task_options
    from fairseq_ssl.checkpoints.training_data import require_folder, training_data

    states = [read(path) for path in scoring.models]
    for path, state in zip(scoring.models, states, strict=True):
        name = task_options(state)["_name"]
        kind = TASKS.get(str(name), TRANSLATION)
        if kind != scoring.kind:
            raise UsageError(
                f"{path} was trained with --task {name}, so it goes with {FLAGS[kind]}, not with "
                f"{FLAGS[scoring.kind]}."
            )
    if scoring.kind == TRANSLATION:
        data = training_data(states[0], scoring.data_dir, *scoring.languages)
        return {
            "data": str(data.folder),
            "source_lang": data.source,
            "target_lang": data.target,
            "eval_bleu": False,
        }
    folder = require_folder(scoring.data_dir)
    if not (folder / "dict.txt").is_file():
        raise DataError(
            f"{folder / 'dict.txt'} does not exist. Pass --data-dir with the folder of binarised "
            "data that the model was trained on."
        )
    return {"data": str(folder)}


def writes_right_to_left(scoring: Scoring) -> bool:
    """Tell whether the models write the last token first."""
    from fairseq_ssl.checkpoints.reading import read, task_options

    if scoring.right_to_left is not None:
        return scoring.right_to_left
    said = {bool(task_options(read(path)).get("right_to_left")) for path in scoring.models}
    if len(said) > 1:
        raise UsageError(
            "Some of the models write from right to left and some do not. Score with each kind by "
            "itself."
        )
    return said.pop()


def loaded(scoring: Scoring, worker: int) -> Loaded:
    """Load the models."""
    import torch

    logging.getLogger("fairseq").setLevel(logging.WARNING)
    torch.set_num_threads(scoring.threads)
    device = device_of(scoring.device, worker)
    models, _, task = load_models(scoring.models, **checked(scoring))
    for model in models:
        model.to(device=device, dtype=torch.float16 if scoring.half else torch.float32).eval()
    return Loaded(models, task, device)


def numbers(dictionary: Any, tokens: Sequence[str]) -> list[int]:
    """Return the symbols' numbers."""
    return [dictionary.index(token) for token in tokens]


def padded(rows: Sequence[Sequence[int]], pad: int, left: bool = False) -> Any:
    """Return rows of numbers as one block [rows, time], padded on the right or the left."""
    import numpy as np
    import torch

    lengths = np.array([len(row) for row in rows])
    places = np.arange(lengths.max())
    there = places >= lengths.max() - lengths[:, None] if left else places < lengths[:, None]
    block = np.full(there.shape, pad, np.int64)
    block[there] = np.concatenate([np.asarray(row, np.int64) for row in rows])
    return torch.from_numpy(block)
