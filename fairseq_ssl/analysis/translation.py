"""Translations of a trained model, as lines in the order of the data."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from fairseq_ssl.analysis.trained import Trained


@dataclass(frozen=True)
class Search:
    """How to search for a translation; the names are those of fairseq-generate."""

    beam: int = 4
    lenpen: float = 1.0
    max_len_a: float = 1.5
    max_len_b: int = 20
    max_tokens: int = 4000


def translate(
    trained: Trained, dataset: Any, search: Search, done: Callable[[int], object]
) -> list[str]:
    """Translate each source of `dataset`; `done` is told how many more there are."""
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
                lines[line] = text(trained, candidates[0]["tokens"])
            done(len(found))
    return lines


def references(trained: Trained, dataset: Any) -> list[str]:
    """Return the targets of `dataset` as lines."""
    return [text(trained, dataset.tgt[i]) for i in range(len(dataset))]


def text(trained: Trained, tokens: torch.Tensor) -> str:
    """Spell out target tokens, without </s>; what is unknown shows as <unk>."""
    line: str = trained.task.target_dictionary.string(tokens.cpu())
    return line
