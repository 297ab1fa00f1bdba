"""Models and sentences at random, built as fairseq builds them."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass
from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from torch import Tensor

import fairseq_ssl

fairseq_ssl.register()


@dataclass(frozen=True)
class Words:
    """Stands for a task: all that a model asks of one is its dictionaries."""

    source_dictionary: Dictionary
    target_dictionary: Dictionary


def words(size: int) -> Words:
    """Return one dictionary of `size` entries for both sides."""
    dictionary = Dictionary()
    for i in range(size - len(dictionary)):
        dictionary.add_symbol(f"w{i}")
    return Words(dictionary, dictionary)


def build(arch: str, task: Any, **options: Any) -> tuple[Any, Namespace]:
    """Return a model of `arch` with seeded random weights, and its options."""
    args = Namespace(arch=arch, _name=arch, share_all_embeddings=True, **options)
    ARCH_CONFIG_REGISTRY[arch](args)
    torch.manual_seed(1)
    return ARCH_MODEL_REGISTRY[arch].build_model(args, task), args


def sentences(count: int, length: int, vocabulary: int) -> Tensor:
    """Return random sentences [count, length], each ended by </s>."""
    tokens = torch.randint(4, vocabulary, (count, length))
    tokens[:, -1] = 2
    return tokens
