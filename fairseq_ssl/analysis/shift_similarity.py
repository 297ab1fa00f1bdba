"""How alike encoder states stay when all positions are shifted (thesis, figure 6.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from fairseq.modules import SinusoidalPositionalEmbedding
from numpy.typing import NDArray
from torch import Tensor

from fairseq_ssl.analysis.trained_models import TrainedModels
from fairseq_ssl.errors import DataError
from fairseq_ssl.modules.positional_encoding import ShiftedSinusoidalPositions


def similarities(
    trained: TrainedModels,
    dataset: Any,
    offsets: Sequence[int],
    max_tokens: int,
    done: Callable[[int], object],
) -> NDArray[np.float64]:
    """Return the mean cosine similarity of states under each two offsets, [offsets, offsets].

    Eq. 6.3: the mean over the positions of a sentence, </s> among them; then over sentences.
    """
    total, sentences = np.zeros((len(offsets), len(offsets))), 0
    with torch.inference_mode():
        for sample in trained.batches(dataset, max_tokens):
            tokens = sample["net_input"]["src_tokens"]
            lengths = sample["net_input"]["src_lengths"]
            states = torch.stack(
                [_states(trained.model.encoder, tokens, lengths, k) for k in offsets]
            )
            real = tokens.ne(trained.task.source_dictionary.pad())
            for a, one in enumerate(states):
                alike = torch.cosine_similarity(one[None], states, dim=-1) * real
                total[a] += (alike.sum(-1) / real.sum(-1)).sum(-1).double().cpu().numpy()
            sentences += len(tokens)
            done(len(tokens))
    return total / sentences


def _states(encoder: Any, tokens: Tensor, lengths: Tensor, offset: int) -> Tensor:
    """Return the encoder's last states [batch, time, dim], positions shifted by `offset`."""
    with _shifted(encoder, offset):
        states: Tensor = encoder(tokens, lengths)["encoder_out"][0]
    return states.transpose(0, 1).float()


@contextmanager
def _shifted(encoder: Any, offset: int) -> Iterator[None]:
    """Let the encoder's positions start `offset` later; relative ones have no start."""
    kept = encoder.embed_positions
    if kept is None:
        yield
        return
    if not isinstance(kept, SinusoidalPositionalEmbedding):
        raise DataError(
            f"The encoder's positions are a {type(kept).__name__}, which has no rows for shifted "
            "ones; expected sinusoidal or relative positions."
        )
    before = getattr(kept, "eval_offset", 0)
    shifted = ShiftedSinusoidalPositions.from_stock(kept, 0, before + offset)
    encoder.embed_positions = shifted.to(next(encoder.parameters()).device).eval()
    try:
        yield
    finally:
        encoder.embed_positions = kept
