"""Models loaded from checkpoints, one or an ensemble, and the devices that they run on."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairseq_ssl.errors import DataError, FairseqSslError, UsageError
from fairseq_ssl.inference.scoring import LANGUAGE_MODEL, MASKED_MODEL, TRANSLATION, ScoringConfig


def gpu_count() -> int:
    """Return the number of GPUs of this machine that torch can use."""
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def torch_device(kind: str, worker: int) -> Any:
    """Return the CPU or the GPU of the process with this index, from 0."""
    import torch

    if kind == "cuda":
        return torch.device("cuda", worker % torch.cuda.device_count())
    return torch.device("cpu")


def load_models(paths: Sequence[Path], **options: Any) -> tuple[list[Any], Any, Any]:
    """Return the models, the training configuration of the first, and their task.

    The task and the architectures must be registered: call `fairseq_ssl.register` first.

    Args:
        paths: checkpoints
        options: task options that replace those of the training; `data` is the data folder
    """
    from fairseq import checkpoint_utils

    for path in paths:
        if not path.is_file():
            raise DataError(f"{path} does not exist. Expected a checkpoint of fairseq-train.")
    names = [str(path) for path in paths]
    shown = ", ".join(names)
    data = options.get("data", "their data")
    try:
        models, cfg, task = checkpoint_utils.load_model_ensemble_and_task(names, options)
    except FairseqSslError:
        raise
    except FileNotFoundError as error:
        raise DataError(f"{data} is not the data of {shown}: {error}") from error
    except Exception as error:  # fairseq and torch raise many types for a damaged file
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise DataError(
            f"{shown} cannot be loaded with {data}. Expected the dictionaries of its training. "
            f"{lines[-1].strip()}"
        ) from error
    return list(models), cfg, task


TASKS = {"language_modeling": LANGUAGE_MODEL, "masked_lm": MASKED_MODEL}
"""Kinds of models by the task of their training. Models of other tasks translate."""


@dataclass(frozen=True)
class LoadedModels:
    """An ensemble, and the task with its dictionaries."""

    models: list[Any]
    task: Any
    device: Any

    def average(self, each: Sequence[Any]) -> Any:
        """Return the log of the models' mean probability of each log-probability."""
        import torch

        if len(each) == 1:
            return each[0]
        return torch.logsumexp(torch.stack(list(each)), 0) - math.log(len(each))

    def longest(self, side: int = 0) -> int:
        """Return the maximum number of tokens of all models; side 1 is that of the decoder."""
        found = [model.max_positions() for model in self.models]
        return min(one[side] if isinstance(one, (tuple, list)) else int(one) for one in found)


def check_models(scoring: ScoringConfig) -> dict[str, Any]:
    """Return the task options that replace those of the checkpoints. Reject other kinds."""
    from fairseq_ssl.checkpoints.files import (
        read_checkpoint,
        require_folder,
        task_options,
        training_data,
    )

    states = [read_checkpoint(path) for path in scoring.models]
    for path, state in zip(scoring.models, states, strict=True):
        name = task_options(state)["_name"]
        kind = TASKS.get(str(name), TRANSLATION)
        if kind != scoring.kind:
            raise UsageError(
                f"{path} was trained in the task {name}, so it is a {kind}, not a {scoring.kind}."
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
            f"{folder / 'dict.txt'} does not exist. Set `data_dir` to the folder of the model's "
            "training data."
        )
    return {"data": str(folder)}


def writes_right_to_left(scoring: ScoringConfig) -> bool:
    """Return True if the models write the last token first."""
    from fairseq_ssl.checkpoints.files import read_checkpoint, task_options

    if scoring.right_to_left is not None:
        return scoring.right_to_left
    said = {
        bool(task_options(read_checkpoint(path)).get("right_to_left")) for path in scoring.models
    }
    if len(said) > 1:
        raise UsageError(
            "Some of the models write from right to left and some do not. Score with each kind by "
            "itself."
        )
    return said.pop()


def load_scoring_models(scoring: ScoringConfig, worker: int) -> LoadedModels:
    """Load the models."""
    import torch

    logging.getLogger("fairseq").setLevel(logging.WARNING)
    torch.set_num_threads(scoring.threads)
    device = torch_device(scoring.device, worker)
    models, _, task = load_models(scoring.models, **check_models(scoring))
    for model in models:
        model.to(device=device, dtype=torch.float16 if scoring.fp16 else torch.float32).eval()
    return LoadedModels(models, task, device)


def token_ids(dictionary: Any, tokens: Sequence[str]) -> list[int]:
    """Return the ids of the symbols."""
    return [dictionary.index(token) for token in tokens]


def pad_rows(rows: Sequence[Sequence[int]], pad: int, left: bool = False) -> Any:
    """Return rows of ids as a tensor [rows, time], padded on the right or the left."""
    import numpy as np
    import torch

    lengths = np.array([len(row) for row in rows])
    places = np.arange(lengths.max())
    there = places >= lengths.max() - lengths[:, None] if left else places < lengths[:, None]
    block = np.full(there.shape, pad, np.int64)
    block[there] = np.concatenate([np.asarray(row, np.int64) for row in rows])
    return torch.from_numpy(block)


def padded_batches(
    sizes: Sequence[int], most: int, order: Iterable[int] | None = None
) -> list[list[int]]:
    """Return the places of sentences in batches of at most so many tokens, padding included.

    Args:
        sizes: the tokens of each sentence
        most: the tokens of a batch; a sentence of more is a batch of its own
        order: the places, one after another (default: longest first)
    """
    if order is None:
        order = sorted(range(len(sizes)), key=lambda place: -sizes[place])
    batches: list[list[int]] = []
    longest = 0
    for place in order:
        longest = max(longest, sizes[place])
        if not batches or longest * (len(batches[-1]) + 1) > most:
            batches.append([])
            longest = sizes[place]
        batches[-1].append(place)
    return batches
