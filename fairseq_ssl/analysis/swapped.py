"""The first of several joined sentences, translated there and at the end (thesis, table 6.3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fairseq_ssl.analysis.trained_models import SearchOptions, TrainedModels, text, translate
from fairseq_ssl.data.binarized import IdSeparator
from fairseq_ssl.errors import DataError
from fairseq_ssl.text.parallel_folder import first_to_end, split_sentences


@dataclass(frozen=True)
class FirstSentences:
    """Y'_1 of lines in one order, and how many had a number of sentences not their source's."""

    lines: list[str]
    miscounted: int


def first_sentences(
    trained: TrainedModels,
    dataset: Any,
    chosen: Sequence[int],
    separator: str,
    search: SearchOptions,
    done: Callable[[int], object],
    *,
    swapped: bool,
) -> FirstSentences:
    """Translate the chosen lines and cut out what stands where X_1 stands in the source.

    Swapped, the source is X_2, ..., X_n, X_1 and the last sentence of the output counts.
    """
    mark = trained.task.source_dictionary.index(separator)
    if mark == trained.task.source_dictionary.unk():
        raise DataError(
            f"The dictionary of {trained.task.cfg.data} has no {separator!r}. Expected joined "
            "sentences, as fairseq-ssl position-data interpolate makes them."
        )
    sources = [dataset.src[i] for i in chosen]
    if swapped:
        sources = [swap(source, mark) for source in sources]
    lines = translate(trained, trained.inputs(sources), search, done)
    sentences = [split_sentences(line, separator) for line in lines]
    wanted = [int(source.eq(mark).sum()) + 1 for source in sources]
    miscounted = sum(len(found) != n for found, n in zip(sentences, wanted, strict=True))
    return FirstSentences([found[-1 if swapped else 0] for found in sentences], miscounted)


def swap(tokens: Tensor, mark: int) -> Tensor:
    """Move what stands before the first `mark` to the end, before </s>: X_2, ..., X_n, X_1."""
    between = IdSeparator("", mark)
    sentences = between.split(tokens[:-1].numpy())
    swapped = torch.from_numpy(between.join(first_to_end(sentences)))
    return torch.cat([swapped, tokens[-1:]])


def first_references(
    trained: TrainedModels, dataset: Any, chosen: Sequence[int], separator: str
) -> list[str]:
    """Return the first sentence of each chosen target."""
    return [split_sentences(text(trained, dataset.tgt[i]), separator)[0] for i in chosen]
