"""Sentences as the mean of a masked language model's last states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairseq_ssl.engines.masked_models import masked_models
from fairseq_ssl.engines.scoring import Scoring
from fairseq_ssl.engines.scoring_models import padded
from fairseq_ssl.text.batches import padded_batches


class MaskedStates:
    """A masked language model, asked for its states."""

    def __init__(self, scoring: Scoring, worker: int) -> None:
        self.scoring = scoring
        self.masked = masked_models(scoring, worker)

    def means(self, sentences: Sequence[list[str]]) -> Any:
        """Return the mean state of each sentence's tokens, [sentences, dim], without the ends'.

        An empty sentence has 0, and a long one counts by its beginning.
        """
        most = self.masked.longest() - 2
        rows = [row[:most] for row in self.masked.rows(sentences)]
        sizes = [len(row) + 2 for row in rows]
        found: Any = None
        for batch in padded_batches(sizes, self.scoring.batch_tokens):
            means = self._batch([rows[place] for place in batch])
            if found is None:
                found = np.zeros((len(rows), means.shape[1]))
            found[batch] = means
        return found

    def _batch(self, rows: list[list[int]]) -> Any:
        import torch

        special, device = self.masked.special, self.masked.loaded.device
        whole = [[special.start, *row, special.end] for row in rows]
        block = padded(whole, special.pad).to(device)
        lengths = torch.tensor(list(map(len, rows)), device=device)[:, None]
        places = torch.arange(block.shape[1], device=device)
        words = (places > 0) & (places <= lengths)
        with torch.inference_mode():
            states = self.masked.states(block).double()
        sums = (states * words[..., None]).sum(1)
        return (sums / lengths.clamp(min=1)).cpu().numpy()
