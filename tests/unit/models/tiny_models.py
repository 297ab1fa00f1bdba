"""Tiny models of the encoder-decoders, and batches for them."""

from __future__ import annotations

from argparse import Namespace
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from torch import Tensor

import fairseq_ssl

fairseq_ssl.register()

PAD, EOS, UNK = 1, 2, 3
SENTENCES = [[4, 5, 6], [7, 8, 9, 10, 11, 12], [13], [6, 5, 4, 7, 8]]


def dictionary(symbols: int = 20) -> Dictionary:
    """Return a dictionary of this size, with the four special symbols."""
    words = Dictionary()
    for number in range(symbols - words.nspecial):
        words.add_symbol(f"w{number}")
    return words


def task(words: Dictionary | None = None, **cfg: Any) -> Any:
    """Return a task with a joint dictionary and two training pairs."""
    words = words or dictionary()
    pairs = SimpleNamespace(src_sizes=np.array([4, 6]), tgt_sizes=np.array([5, 9]))
    return SimpleNamespace(
        source_dictionary=words,
        target_dictionary=words,
        cfg=SimpleNamespace(**cfg),
        datasets={"train": pairs},
    )


def build(arch: str, words: Dictionary | None = None, seed: int = 1, **options: Any) -> Any:
    """Build a model as fairseq does: `options`, completed by the architecture's defaults."""
    args = Namespace(**options)
    ARCH_CONFIG_REGISTRY[arch](args)
    kind = ARCH_MODEL_REGISTRY[arch]
    config = getattr(kind, "__dataclass", None)
    torch.manual_seed(seed)
    return kind.build_model(config.from_namespace(args) if config else args, task(words))


def batch(sentences: list[list[int]], left: bool = False) -> Tensor:
    """Return a batch of sentences with EOS, padded on the left or right."""
    return padded([[*words, EOS] for words in sentences], left)


def previous(targets: list[list[int]], left: bool = False) -> Tensor:
    """Return the input of a decoder for targets."""
    return padded([[EOS, *words] for words in targets], left)


def padded(rows: list[list[int]], left: bool) -> Tensor:
    """Return a batch of rows, padded on the left or right."""
    length = max(map(len, rows))
    pads = [[PAD] * (length - len(row)) for row in rows]
    return torch.tensor(
        [[*pad, *row] if left else [*row, *pad] for pad, row in zip(pads, rows, strict=True)]
    )


def logits(model: Any, source: Tensor, target: Tensor) -> Tensor:
    """Return the scores of a batch."""
    scores: Tensor = model(source, source.ne(PAD).sum(1), target)[0]
    return scores
