"""A trained model with its data: splits, batches and translations."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq import utils
from torch import Tensor

from fairseq_ssl.errors import DataError, FairseqSslError
from fairseq_ssl.inference.loading import load_models, padded_batches

Unread = Callable[[str], DataError]


class CheckedLines:
    """One side of a dataset of fairseq. Ids that are not in the dictionary are an error."""

    def __init__(self, lines: Any, dictionary: Any, unread: Unread) -> None:
        self.lines = lines
        self.dictionary = dictionary
        self.unread = unread

    def __getitem__(self, place: int) -> Tensor:
        """Return a sentence [time]."""
        try:
            ids: Tensor = self.lines[place]
        except (IndexError, OSError, OverflowError, ValueError) as error:
            raise self.unread(str(error)) from error
        if not ids.numel():
            raise self.unread("a line without an end.")
        only_copied = getattr(self.dictionary, "surfaces", ())
        least, most = map(int, ids.aminmax())
        if least < 0 or most >= len(self.dictionary) + len(only_copied):
            raise self.unread("an id that is not in its dictionary.")
        return ids

    def __len__(self) -> int:
        return len(self.lines)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.lines, name)


Sample = dict[str, Any]
"""A batch as fairseq collates it: id, net_input, target."""


@dataclass(frozen=True)
class TrainedModels:
    """A model, and the task with its data."""

    path: Path
    model: Any
    task: Any
    device: torch.device

    @classmethod
    def load(cls, path: Path, data: Path, device: str) -> TrainedModels:
        """Load a checkpoint with `data`, a folder of fairseq-preprocess."""
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
        except Exception as error:  # fairseq raises many types for a damaged index
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
            f"{self.task.cfg.data} has {split} in files that cannot be read: {what} Run "
            "fairseq-preprocess again."
        )

    def batches(self, dataset: Any, max_tokens: int) -> Iterator[Sample]:
        """Yield batches of sentences of similar lengths, on the device."""
        sizes = dataset.src_sizes
        longest = utils.resolve_max_positions(
            self.task.max_positions(), self.model.max_positions()
        )[0]
        if len(sizes) == 0:
            raise DataError(f"{self.task.cfg.data} has no sentences in this split. Name another.")
        if sizes.max() > min(longest, max_tokens):
            raise DataError(
                f"A sentence has {max(sizes)} tokens. {self.path.name} reads up to {longest} and "
                f"`max_tokens` is {max_tokens}. Increase it, or remove longer sentences."
            )
        for batch in padded_batches(sizes.tolist(), max_tokens):
            sample = dataset.collater([dataset[place] for place in batch])
            yield utils.move_to_cuda(sample) if self.device.type == "cuda" else sample

    def inputs(self, sources: Sequence[torch.Tensor]) -> Any:
        """Return a dataset of sources [time], each with </s>."""
        lengths = np.array([len(source) for source in sources])
        return self.task.build_dataset_for_inference(list(sources), lengths)


@dataclass(frozen=True)
class SearchOptions:
    """Search options, in the names of fairseq-generate."""

    beam: int = 4
    lenpen: float = 1.0
    max_len_a: float = 1.5
    max_len_b: int = 20
    max_tokens: int = 4000


@dataclass(frozen=True)
class BleuOptions:
    """How outputs and references become the text that sacreBLEU scores."""

    subwords: str | None = None
    """Scheme of the subwords to join."""
    moses: str | None = None
    """Language of the Moses tokenization to undo."""
    tokenize: str = "13a"
    """Tokenizer of sacreBLEU."""
    separator: str = "<sep>"
    """Token between joined sentences."""


def translate(
    trained: TrainedModels, dataset: Any, search: SearchOptions, done: Callable[[int], object]
) -> list[str]:
    """Translate each source of `dataset`. `done` is called with the size of each batch."""
    options = Namespace(
        beam=search.beam,
        lenpen=search.lenpen,
        max_len_a=search.max_len_a,
        max_len_b=search.max_len_b,
    )
    generator = trained.task.build_generator([trained.model], options)
    lines = [""] * len(dataset)
    with torch.inference_mode():
        for sample in trained.batches(dataset, search.max_tokens):
            found = generator.generate([trained.model], sample)
            for line, candidates in zip(sample["id"].tolist(), found, strict=True):
                lines[line] = line_of(trained, candidates[0]["tokens"])
            done(len(found))
    return lines


def reference_lines(trained: TrainedModels, dataset: Any) -> list[str]:
    """Return the targets of `dataset` as lines."""
    return [line_of(trained, dataset.tgt[i]) for i in range(len(dataset))]


def line_of(trained: TrainedModels, tokens: torch.Tensor) -> str:
    """Return target tokens as a line, without </s>. Unknown tokens are <unk>."""
    line: str = trained.task.target_dictionary.string(tokens.cpu())
    return line
