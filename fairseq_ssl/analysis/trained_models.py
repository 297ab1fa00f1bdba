"""A trained model with its data: splits, batches, translations and references."""

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

from fairseq_ssl.analysis.configs import TranslationConfig
from fairseq_ssl.checkpoints.ensembles import load_models
from fairseq_ssl.data.id_batches import padded_batches
from fairseq_ssl.errors import DataError, FairseqSslError, first_line
from fairseq_ssl.inference.loading import require_one_direction, torch_device
from fairseq_ssl.metrics.bleu import bleu_metric
from fairseq_ssl.text.tokenization import LineRewriter, moses_detokenizer

ReadError = Callable[[str], DataError]


class CheckedLines:
    """One side of a fairseq dataset. Access to an unreadable or invalid line raises DataError."""

    def __init__(self, lines: Any, dictionary: Any, read_error: ReadError) -> None:
        self.lines = lines
        self.dictionary = dictionary
        self.read_error = read_error

    def __getitem__(self, index: int) -> Tensor:
        """Return the ids of a sentence, [time]."""
        try:
            ids: Tensor = self.lines[index]
        except (IndexError, OSError, OverflowError, ValueError) as error:
            raise self.read_error(f"{first_line(error)}.") from error
        if not ids.numel():
            raise self.read_error("it contains a line without an end-of-sentence id.")
        oov_words = getattr(self.dictionary, "surfaces", ())
        min_id, max_id = map(int, ids.aminmax())
        if min_id < 0 or max_id >= (symbols := len(self.dictionary) + len(oov_words)):
            raise self.read_error(f"its ids are {min_id} to {max_id}, expected 0 to {symbols - 1}.")
        return ids

    def __len__(self) -> int:
        return len(self.lines)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.lines, name)


Sample = dict[str, Any]
"""A fairseq batch with the keys id, net_input and target."""


@dataclass(frozen=True)
class TrainedModels:
    """A model on a device, and its fairseq task with the data."""

    path: Path
    model: Any
    task: Any
    device: torch.device

    @classmethod
    def load(cls, path: Path, data: str | Path, device: str) -> TrainedModels:
        """Load a checkpoint with `data`, a data folder created by fairseq-preprocess."""
        if not Path(data).exists():
            raise DataError(f"{data} does not exist. Expected a fairseq-preprocess folder.")
        on_device = torch_device(device)
        models, _, task = load_models([path], data=str(data))
        require_one_direction(models[0], path)
        return cls(path, models[0].to(on_device).eval(), task, on_device)

    def split(self, name: str) -> Any:
        """Return the fairseq dataset of a split, such as ``valid``. Each split is loaded once."""
        if name not in self.task.datasets:
            self._load(name)
        return self.task.dataset(name)

    def pairs(self, name: str) -> Any:
        """Return the fairseq dataset of a split. Raise DataError if it has no targets."""
        dataset = self.split(name)
        if dataset.tgt is None:
            raise DataError(
                f"The split {name!r} of {self.task.cfg.data} has no targets. Choose a split that "
                "contains sentence pairs."
            )
        return dataset

    def _load(self, name: str) -> None:
        try:
            self.task.load_dataset(name)
        except FairseqSslError:
            raise
        except FileNotFoundError:
            raise DataError(
                f"{self.task.cfg.data} contains no split {name!r} for "
                f"{self.task.cfg.source_lang}-{self.task.cfg.target_lang}. Choose a different "
                "split, or binarize it with fairseq-preprocess."
            ) from None
        except Exception as error:  # fairseq raises many exception types for a damaged index
            raise self._read_error(name, f"{type(error).__name__}: {error}.") from error
        dataset = self.task.dataset(name)
        read_error = partial(self._read_error, name)
        sides = {"src": self.task.source_dictionary, "tgt": self.task.target_dictionary}
        for side, dictionary in sides.items():
            lines = getattr(dataset, side, None)
            if lines is not None:
                setattr(dataset, side, CheckedLines(lines, dictionary, read_error))

    def _read_error(self, split: str, problem: str) -> DataError:
        return DataError(
            f"The split {split} of {self.task.cfg.data} cannot be read: {problem} Run "
            "fairseq-preprocess again."
        )

    def batches(self, dataset: Any, max_tokens: int) -> Iterator[Sample]:
        """Yield batches of sentences of similar length, on the model's device.

        Raise DataError for an empty split or a sentence that is too long.
        """
        sizes = dataset.src_sizes
        max_length, max_target_length = utils.resolve_max_positions(
            self.task.max_positions(), self.model.max_positions()
        )
        if len(sizes) == 0:
            name = next((n for n, split in self.task.datasets.items() if split is dataset), "")
            raise DataError(
                f"The split {name!r} of {self.task.cfg.data} contains no sentences. Choose another."
            )
        if sizes.max() > min(max_length, max_tokens):
            raise DataError(
                f"A source sentence has {max(sizes)} tokens. The model {self.path.name} supports "
                f"at most {max_length}, and `max_tokens` is {max_tokens}. Remove longer sentences, "
                "or increase `max_tokens` up to the model's limit."
            )
        if dataset.tgt is not None and dataset.tgt_sizes.max() > max_target_length:
            raise DataError(
                f"A target sentence has {dataset.tgt_sizes.max()} tokens, but the model "
                f"{self.path.name} supports at most {max_target_length}. Remove longer sentences."
            )
        for batch in padded_batches(sizes.tolist(), max_tokens):
            sample = dataset.collater([dataset[index] for index in batch])
            yield utils.move_to_cuda(sample, self.device)

    def inputs(self, sources: Sequence[torch.Tensor]) -> Any:
        """Return an inference dataset for sources, which are id tensors [time] with </s>."""
        lengths = np.array([len(source) for source in sources])
        return self.task.build_dataset_for_inference(list(sources), lengths)


def line_detokenizer(config: TranslationConfig) -> LineRewriter:
    """Return a function that detokenizes a line. Raise UsageError for an unknown BLEU tokenizer."""
    bleu_metric(config.tokenize)
    return moses_detokenizer(config.subwords, config.moses)


def translate(
    trained: TrainedModels, dataset: Any, config: TranslationConfig, done: Callable[[int], object]
) -> list[str]:
    """Return the best translation of each source in `dataset`, in order.

    `done` is called with the number of sentences in each batch.
    """
    names = ("beam", "lenpen", "max_len_a", "max_len_b")
    options = Namespace(**{name: getattr(config, name) for name in names})
    generator = trained.task.build_generator([trained.model], options)
    lines = [""] * len(dataset)
    with torch.inference_mode():
        for sample in trained.batches(dataset, config.max_tokens):
            hypotheses = generator.generate([trained.model], sample)
            for line, candidates in zip(sample["id"].tolist(), hypotheses, strict=True):
                lines[line] = line_of(trained, candidates[0]["tokens"])
            done(len(hypotheses))
    return lines


def reference_lines(trained: TrainedModels, dataset: Any) -> list[str]:
    """Return the targets of `dataset` as lines of tokens, in order."""
    return [line_of(trained, dataset.tgt[i]) for i in range(len(dataset))]


def line_of(trained: TrainedModels, tokens: torch.Tensor) -> str:
    """Convert target ids to a line of tokens without </s>. Unknown tokens become <unk>.

    Targets and translations of right-to-left models are returned in reading order.
    """
    line: str = trained.task.target_dictionary.string(tokens.cpu())
    if getattr(trained.task.cfg, "right_to_left", False):
        return " ".join(reversed(line.split(" ")))
    return line
