"""Similarity of encoder states under shifted positions (thesis, figure 6.3)."""

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
from fairseq_ssl.analysis.results import AnalysisResult, Checkpoints, Table
from fairseq_ssl.analysis.trained_models import TrainedModels
from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.io.jobs import ProgressFactory, silent_progress
from fairseq_ssl.modules.positional_encoding import ShiftedSinusoidalPositions
from fairseq_ssl.signature import Signature


class ShiftSimilarity(AnalysisResult):
    """Cosine similarities of the states under each two offsets."""

    def tables(self) -> Iterator[Table]:
        """Yield a matrix for each model."""
        labels = [f"k={offset}" for offset in self.signature.parameters["offsets"]]
        for name, model in self.results["models"].items():
            rows = [
                [label, *(f"{cell:.3f}" for cell in row)]
                for label, row in zip(labels, model["similarity"], strict=True)
            ]
            yield [name, *labels], rows

    def draw(self, path: Path) -> None:
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
    data: Path,
    offsets: Sequence[int] = (0, 100, 250, 500),
    *,
    subset: str = "valid",
    max_tokens: int = 4000,
    device: str = "cpu",
    progress: ProgressFactory = silent_progress,
) -> ShiftSimilarity:
    """Compare the encoder states of sentences under shifted positions.

    Args:
        checkpoints: the checkpoints of each model
        data: a folder of fairseq-preprocess
        offsets: shifts of all positions, in tokens
        subset: split of the data
        max_tokens: source tokens of a batch, padding included
        device: ``cpu`` or ``cuda``
        progress: called with the number of sentences done
    """
    if len(offsets) < 2 or min(offsets) < 0:
        raise UsageError(f"`offsets` is {list(offsets)}. Expected two or more, none below 0.")
    models: dict[str, Any] = {}
    for name, paths in checkpoints.items():
        runs = []
        for path in paths:
            trained = TrainedModels.load(path, data, device)
            dataset = trained.split(subset)
            report = progress(str(path), "sentences", len(dataset))
            found = similarities(trained, dataset, offsets, max_tokens, report)
            runs.append({"checkpoint": str(path), "similarity": found.round(4).tolist()})
        size = range(len(offsets))
        mean = [[sum(r["similarity"][a][b] for r in runs) / len(runs) for b in size] for a in size]
        models[name] = {"similarity": mean, "least": min(map(min, mean)), "runs": runs}
    parameters = {"subset": subset, "offsets": list(offsets)}
    return ShiftSimilarity(Signature("shift-similarity", parameters), {"models": models})


def similarities(
    trained: TrainedModels,
    dataset: Any,
    offsets: Sequence[int],
    max_tokens: int,
    done: Callable[[int], object],
) -> NDArray[np.float64]:
    """Return the mean cosine similarity of the states under each two offsets [offsets, offsets].

    Eq. 6.3: the mean over the positions of a sentence, with </s>, then over sentences.
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
    """Shift the encoder's positions by `offset`. Relative positions do not change."""
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
