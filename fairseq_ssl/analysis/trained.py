"""Trained models on a data folder, ready to be asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq import utils

from fairseq_ssl.analysis.checked_lines import CheckedLines
from fairseq_ssl.errors import DataError, FairseqSslError
from fairseq_ssl.inference.loading import load_models
from fairseq_ssl.text.batches import padded_batches

Sample = dict[str, Any]
"""A batch as fairseq collates it: id, net_input, target."""


@dataclass(frozen=True)
class Trained:
    """A model of a checkpoint, and the task that knows its data."""

    path: Path
    model: Any
    task: Any
    device: torch.device

    @classmethod
    def load(cls, path: Path, data: Path, device: str) -> Trained:
        """Read a checkpoint to be used on the binarised corpus `data`."""
        if not data.exists():
            raise DataError(f"{data} does not exist.")
        models, _, task = load_models([path], data=str(data))
        model = models[0].to(device).eval()
        return cls(path, model, task, torch.device(device))

    def split(self, name: str) -> Any:
        """Return a split of the data, such as ``valid``."""
        if name not in self.task.datasets:
            self._load(name)
        return self.task.dataset(name)

    def pairs(self, name: str) -> Any:
        """Return a split that must have targets."""
        dataset = self.split(name)
        if dataset.tgt is None:
            raise DataError(f"{self.task.cfg.data} has no targets of {name!r}. Name another split.")
        return dataset

    def _load(self, name: str) -> None:
        try:
            self.task.load_dataset(name)
        except FairseqSslError:
            raise
        except FileNotFoundError:
            raise DataError(
                f"{self.task.cfg.data} has no split {name!r} for "
                f"{self.task.cfg.source_lang}-{self.task.cfg.target_lang}."
            ) from None
        except Exception as error:  # whatever fairseq stumbles over in an index
            raise self._unread(name, f"{error!r}.") from error
        dataset = self.task.dataset(name)
        unread = partial(self._unread, name)
        sides = {"src": self.task.source_dictionary, "tgt": self.task.target_dictionary}
        for side, dictionary in sides.items():
            lines = getattr(dataset, side, None)
            if lines is not None:
                setattr(dataset, side, CheckedLines(lines, dictionary, unread))

    def _unread(self, split: str, what: str) -> DataError:
        return DataError(
            f"{self.task.cfg.data} has {split} in files that can not be read: {what} Run "
            "fairseq-preprocess again."
        )

    def batches(self, dataset: Any, max_tokens: int) -> Iterator[Sample]:
        """Collate `dataset` in batches of like lengths, in some order, on the device."""
        sizes = dataset.src_sizes
        longest = utils.resolve_max_positions(
            self.task.max_positions(), self.model.max_positions()
        )[0]
        if len(sizes) == 0:
            raise DataError(f"{self.task.cfg.data} has no sentences in this split. Name another.")
        if sizes.max() > min(longest, max_tokens):
            raise DataError(
                f"A sentence has {max(sizes)} tokens; {self.path.name} takes {longest} and "
                f"--max-tokens is {max_tokens}. Raise that, or leave longer sentences out."
            )
        for batch in padded_batches(sizes.tolist(), max_tokens):
            sample = dataset.collater([dataset[place] for place in batch])
            yield utils.move_to_cuda(sample) if self.device.type == "cuda" else sample

    def inputs(self, sources: Sequence[torch.Tensor]) -> Any:
        """Make a data set of sources [time] alone, each ended by </s>."""
        lengths = np.array([len(source) for source in sources])
        return self.task.build_dataset_for_inference(list(sources), lengths)
