"""Similarity of encoder states under shifted positions (Kiyono, 2022, figure 6.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq.modules import SinusoidalPositionalEmbedding
from numpy.typing import NDArray
from torch import Tensor

from fairseq_ssl.analysis import figures
from fairseq_ssl.analysis.configs import ShiftSimilarityConfig
from fairseq_ssl.analysis.results import (
    AnalysisResult,
    Checkpoints,
    Table,
    checkpoint_digest,
    checkpoint_paths,
)
from fairseq_ssl.analysis.trained_models import TrainedModels
from fairseq_ssl.errors import DataError
from fairseq_ssl.io.jobs import ProgressFactory, silent_progress
from fairseq_ssl.modules.positional_encoding import ShiftedSinusoidalPositions
from fairseq_ssl.signature import Signature


class ShiftSimilarity(AnalysisResult):
    """Cosine similarity of encoder states for each pair of position offsets."""

    def tables(self) -> Iterator[Table]:
        """Yield a similarity matrix for each model."""
        labels = [f"k={offset}" for offset in self.signature.parameters["offsets"]]
        for name, model in self.results["models"].items():
            rows = [
                [label, *(f"{cell:.3f}" for cell in row)]
                for label, row in zip(labels, model["similarity"], strict=True)
            ]
            yield [name, *labels], rows

    def draw(self, path: str | Path) -> None:
        """Draw a heat map for each model."""
        models = self.results["models"]
        labels = list(map(str, self.signature.parameters["offsets"]))
        with figures.figure(path, columns=len(models), width=3.6, height=3.4) as axes:
            for ax, (name, model) in zip(axes, models.items(), strict=True):
                figures.heat_map(ax, model["similarity"], labels, labels, (0.0, 1.0))
                ax.set_title(name)
                ax.set_xlabel("offset k")
            axes[0].set_ylabel("offset k")


def compare_shifted_states(
    checkpoints: Checkpoints,
    data: str | Path,
    config: ShiftSimilarityConfig | None = None,
    *,
    device: str = "cpu",
    progress: ProgressFactory = silent_progress,
) -> ShiftSimilarity:
    """Compare the encoder states of sentences whose positions are shifted by different offsets.

    Args:
        checkpoints: checkpoint paths by model name.
        data: data folder created by fairseq-preprocess.
        config: analysis options (default: `ShiftSimilarityConfig()`).
        device: ``cpu`` or ``cuda``.
        progress: creates the progress report, which receives the number of encoded sentences.
    """
    config = config or ShiftSimilarityConfig()
    offsets = config.offsets
    models: dict[str, Any] = {}
    for name, paths in checkpoint_paths(checkpoints).items():
        runs = []
        for path in paths:
            trained = TrainedModels.load(path, data, device)
            dataset = trained.split(config.subset)
            report = progress(str(path), "sentences", len(dataset))
            matrix = similarities(trained, dataset, offsets, config.max_tokens, report)
            runs.append({"checkpoint": str(path), "similarity": matrix.round(4).tolist()})
        size = range(len(offsets))
        mean = [[sum(r["similarity"][a][b] for r in runs) / len(runs) for b in size] for a in size]
        models[name] = {"similarity": mean, "least": min(map(min, mean)), "runs": runs}
    parameters = {"subset": config.subset, "offsets": list(offsets)}
    parameters["checkpoint_digest"] = checkpoint_digest(checkpoints)
    return ShiftSimilarity(Signature("shift-similarity", parameters), {"models": models})


def similarities(
    trained: TrainedModels,
    dataset: Any,
    offsets: Sequence[int],
    max_tokens: int,
    done: Callable[[int], object],
) -> NDArray[np.float64]:
    """Return the mean cosine similarity of encoder states for each pair of offsets.

    The result is [offsets, offsets]. Similarities are averaged over the positions of each
    sentence, including </s>, and then over sentences (Kiyono, 2022, eq. 6.3).

    `done` is called with the number of sentences in each batch.
    """
    total, sentences = np.zeros((len(offsets), len(offsets))), 0
    with torch.inference_mode():
        for sample in trained.batches(dataset, max_tokens):
            tokens = sample["net_input"]["src_tokens"]
            lengths = sample["net_input"]["src_lengths"]
            states = torch.stack(
                [_states(trained.model.encoder, tokens, lengths, k) for k in offsets]
            )
            is_token = tokens.ne(trained.task.source_dictionary.pad())
            for a, shifted in enumerate(states):
                cosines = torch.cosine_similarity(shifted[None], states, dim=-1) * is_token
                total[a] += (cosines.sum(-1) / is_token.sum(-1)).sum(-1).double().cpu().numpy()
            sentences += len(tokens)
            done(len(tokens))
    return total / sentences


def _states(encoder: Any, tokens: Tensor, lengths: Tensor, offset: int) -> Tensor:
    """Return the encoder output with positions shifted by `offset`, [batch, time, dim]."""
    with _shift_positions(encoder, offset):
        states: Tensor = encoder(tokens, lengths)["encoder_out"][0]
    return states.transpose(0, 1).float()


@contextmanager
def _shift_positions(encoder: Any, offset: int) -> Iterator[None]:
    """Shift the encoder's positions by `offset` within the context.

    An encoder with only relative positions is not changed. Raise DataError for learned positions
    and for encoders that are not Transformers.
    """
    if not hasattr(encoder, "embed_positions"):
        raise DataError(
            f"The encoder is a {type(encoder).__name__}, which has no positions to shift. Expected "
            "a Transformer with sinusoidal or relative positions."
        )
    original = encoder.embed_positions
    if original is None:
        yield
        return
    if not isinstance(original, SinusoidalPositionalEmbedding):
        raise DataError(
            f"The encoder uses a {type(original).__name__}, whose positions cannot be shifted. "
            "Expected sinusoidal or relative positions."
        )
    before = getattr(original, "eval_offset", 0)
    shifted = ShiftedSinusoidalPositions.from_stock(original, 0, before + offset)
    encoder.embed_positions = shifted.to(next(encoder.parameters()).device).eval()
    try:
        yield
    finally:
        encoder.embed_positions = original
