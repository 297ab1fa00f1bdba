"""Models with random weights, built by fairseq, and random sentences."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass
from typing import Any

import harness
import torch
from fairseq.data import Dictionary
from fairseq.models import (
    ARCH_CONFIG_REGISTRY,
    ARCH_MODEL_NAME_REGISTRY,
    ARCH_MODEL_REGISTRY,
    MODEL_DATACLASS_REGISTRY,
)
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor

import fairseq_ssl

fairseq_ssl.register()

VOCABULARY = 8000
"""Dictionary size of a model in training."""


@dataclass(frozen=True)
class Words:
    """A stand-in for a task, of which models use only the dictionaries."""

    source_dictionary: Dictionary
    target_dictionary: Dictionary


def words(size: int) -> Words:
    """Return a joined dictionary of `size` entries."""
    dictionary = Dictionary()
    for i in range(size - len(dictionary)):
        dictionary.add_symbol(f"w{i}")
    return Words(dictionary, dictionary)


def build(arch: str, task: Any, **options: Any) -> tuple[Any, Namespace]:
    """Return a model of `arch` with seeded random weights, and its options."""
    args = Namespace(arch=arch, _name=arch, share_all_embeddings=True, **options)
    ARCH_CONFIG_REGISTRY[arch](args)
    torch.manual_seed(1)
    options_of = MODEL_DATACLASS_REGISTRY.get(ARCH_MODEL_NAME_REGISTRY[arch])
    config = args if options_of is None else options_of.from_namespace(args)
    return ARCH_MODEL_REGISTRY[arch].build_model(config, task), args


def sentences(count: int, length: int, vocabulary: int) -> Tensor:
    """Return random sentences [count, length], each ended by </s>."""
    tokens = torch.randint(4, vocabulary, (count, length))
    tokens[:, -1] = 2
    return tokens


def known(tokens: Tensor, model: Any, vocabulary: int) -> Tensor:
    """Replace out-of-vocabulary words by <unk>, unless the model copies them."""
    return tokens if hasattr(model, "copy_vocabulary") else tokens.where(tokens < vocabulary, 3)


def trainer(arch: str, args: Any, vocabulary: int = VOCABULARY, **options: Any) -> harness.Run:
    """Return a run of `args.steps` training steps, which returns the number of target tokens.

    The loss is fairseq's cross_entropy. `args.unknown` is the approximate share of
    out-of-vocabulary words on both sides.
    """
    model, _ = build(arch, words(vocabulary), **options)
    model.to(args.device).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    count = args.tokens // args.length
    ids = int(vocabulary * (1 + getattr(args, "unknown", 0.0)))
    source, target = (
        known(sentences(count, args.length, ids), model, vocabulary).to(args.device)
        for _ in range(2)
    )
    lengths = torch.full((count,), args.length, device=args.device)

    def train() -> int:
        for _ in range(args.steps):
            with torch.autocast(args.device, torch.bfloat16, enabled=args.bf16):
                output = model(source, lengths, target)
            lprobs = model.get_normalized_probs(output, log_probs=True)
            aim = model.get_targets({"target": target}, output)
            loss = torch.nn.functional.nll_loss(lprobs.flatten(0, 1), aim.flatten())
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
        return int(args.steps * target.numel())

    return train


def searcher(
    arch: str, args: Any, vocabulary: int, kind: Any = SequenceGenerator, **options: Any
) -> harness.Run:
    """Return a run that decodes `args.sentences` sentences of `args.length` words by beam search.

    Outputs are as long as the inputs. A batch has `args.batch` sentences, or all of them.
    `args.unknown` is the approximate share of out-of-vocabulary words.
    """
    task = words(vocabulary)
    model, _ = build(arch, task, **options)
    model = model.to(args.device).eval()
    generation = Namespace(
        beam=args.beam, print_alignment=None, replace_unk=None, no_beamable_mm=False
    )
    model.prepare_for_inference_(Namespace(generation=generation))
    length = {"max_len_a": 0, "max_len_b": args.length, "min_len": args.length}
    search = kind([model], task.target_dictionary, beam_size=args.beam, **length)
    torch.manual_seed(1)
    ids = int(vocabulary * (1 + getattr(args, "unknown", 0.0)))
    rows = known(sentences(args.sentences, args.length + 1, ids), model, vocabulary)
    size = getattr(args, "batch", args.sentences)
    batches = [batch.to(args.device) for batch in rows.split(size)]  # type: ignore[no-untyped-call]

    def search_all() -> int:
        with torch.inference_mode():
            for batch in batches:
                lengths = torch.full((len(batch),), batch.size(1), device=args.device)
                search.generate([], {"net_input": {"src_tokens": batch, "src_lengths": lengths}})
        return len(rows)

    return search_all
