"""How probable translations are to models, which are made to write them: forced decoding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairseq_ssl.inference.loading import (
    load_scoring_models,
    pad_rows,
    padded_batches,
    token_ids,
    writes_right_to_left,
)
from fairseq_ssl.inference.scoring import Scored, ScoringConfig, TokenPair, by_length


class TranslationScorer:
    """Scores translations, or with `reverse` sources, by models of one direction."""

    def __init__(self, scoring: ScoringConfig, worker: int) -> None:
        self.scoring = scoring
        self.right_to_left = writes_right_to_left(scoring)
        self.loaded = load_scoring_models(scoring, worker)
        task = self.loaded.task
        self.source, self.target = task.source_dictionary, task.target_dictionary

    def score(self, pairs: Sequence[TokenPair]) -> Scored:
        """Return log P of each pair's translation, divided by length ** penalty.

        The end of a sentence is a token of it.
        """
        if self.scoring.reverse:
            pairs = [(target, source) for source, target in pairs]
        given = [token_ids(self.source, source) for source, _ in pairs]
        made = [token_ids(self.target, target) for _, target in pairs]
        unknown = sum(row.count(self.source.unk()) for row in given)
        unknown += sum(row.count(self.target.unk()) for row in made)
        tokens = sum(map(len, given)) + sum(map(len, made))
        most = self.loaded.longest(0) - 1, self.loaded.longest(1) - 1
        cut = sum(
            len(source) > most[0] or len(target) > most[1]
            for source, target in zip(given, made, strict=True)
        )
        sources = [[*row[: most[0]], self.source.eos()] for row in given]
        step = -1 if self.right_to_left else 1
        targets = [[*row[: most[1]][::step], self.target.eos()] for row in made]
        sums = self._log_probabilities(sources, targets)
        lengths = np.array([len(row) for row in targets], np.float64)
        values = by_length(sums, lengths, self.scoring.lenpen)
        return Scored([(value,) for value in values.tolist()], tokens, unknown, cut)

    def _log_probabilities(self, sources: list[list[int]], targets: list[list[int]]) -> Any:
        """Return log P of each target, [pairs]."""
        sizes = [max(map(len, pair)) for pair in zip(sources, targets, strict=True)]
        order = sorted(
            range(len(sources)),
            key=lambda place: (-len(sources[place]), sources[place], -len(targets[place])),
        )
        found = np.zeros(len(sources))
        for batch in padded_batches(sizes, self.scoring.max_tokens, order):
            found[batch] = self._batch(
                [sources[place] for place in batch], [targets[place] for place in batch]
            )
        return found

    def _batch(self, sources: list[list[int]], targets: list[list[int]]) -> Any:
        """Score a batch; one that is too large for the GPU in halves."""
        import torch

        try:
            return self._scored(sources, targets)
        except torch.cuda.OutOfMemoryError:
            if len(sources) == 1:
                raise
            torch.cuda.empty_cache()
        half = len(sources) // 2
        parts = slice(half), slice(half, None)
        return np.concatenate([self._batch(sources[part], targets[part]) for part in parts])

    def _scored(self, sources: list[list[int]], targets: list[list[int]]) -> Any:
        """Encode each different source once, and let the decoder read each target."""
        import torch

        device, pad = self.loaded.device, self.target.pad()
        different = dict.fromkeys(map(tuple, sources))
        rows = {source: row for row, source in enumerate(different)}
        places = torch.tensor([rows[tuple(source)] for source in sources], device=device)
        left = bool(getattr(self.loaded.task.cfg, "left_pad_source", True))
        tokens = pad_rows(list(rows), self.source.pad(), left).to(device)
        lengths = torch.tensor(list(map(len, rows)), device=device)
        target = pad_rows(targets, pad).to(device)
        begun = target.roll(1, 1)
        begun[:, 0] = self.target.eos()
        each = []
        with torch.inference_mode():
            for model in self.loaded.models:
                encoded = model.encoder(tokens, src_lengths=lengths)
                if len(rows) < len(sources):
                    encoded = model.encoder.reorder_encoder_out(encoded, places)
                written = model.decoder(begun, encoder_out=encoded)
                scores = model.get_normalized_probs(written, True, {"target": target})
                each.append(scores.gather(-1, target[..., None])[..., 0].float())
            whole = self.loaded.average(each)
            return whole.masked_fill(target == pad, 0.0).double().sum(1).cpu().numpy()


def load_translation_scorer(scoring: ScoringConfig, worker: int) -> TranslationScorer:
    """Return a scorer of translations."""
    return TranslationScorer(scoring, worker)
