"""Scoring of translations by forced decoding with translation models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairseq_ssl.data.id_batches import count_unknown, pad_rows, padded_batches, token_ids
from fairseq_ssl.inference.language_models import by_length
from fairseq_ssl.inference.loading import (
    forget_unknown_words,
    load_scoring_models,
    require_one_direction,
    writes_right_to_left,
)
from fairseq_ssl.inference.scoring import Scored, ScoringConfig, TokenPair


class TranslationScorer:
    """Scorer based on forced decoding with a translation model, or with an ensemble."""

    def __init__(self, scoring: ScoringConfig, worker: int) -> None:
        self.scoring = scoring
        self.right_to_left = writes_right_to_left(scoring)
        self.loaded = load_scoring_models(scoring, worker)
        for path, model in zip(scoring.models, self.loaded.models, strict=True):
            require_one_direction(model, path)
        task = self.loaded.task
        self.source, self.target = task.source_dictionary, task.target_dictionary

    def score(self, pairs: Sequence[TokenPair]) -> Scored:
        """Return log P / length ** lenpen of each translation, or of each source with `reverse`.

        log P and the length include the end symbol.
        """
        if self.scoring.reverse:
            pairs = [(target, source) for source, target in pairs]
        source_ids = [token_ids(self.source, source) for source, _ in pairs]
        target_ids = [token_ids(self.target, target) for _, target in pairs]
        unknown = count_unknown(self.source, source_ids) + count_unknown(self.target, target_ids)
        tokens = sum(map(len, source_ids)) + sum(map(len, target_ids))
        max_lengths = self.loaded.longest(0) - 1, self.loaded.longest(1) - 1
        cut = sum(
            len(source) > max_lengths[0] or len(target) > max_lengths[1]
            for source, target in zip(source_ids, target_ids, strict=True)
        )
        sources = [[*row[: max_lengths[0]], self.source.eos()] for row in source_ids]
        step = -1 if self.right_to_left else 1
        targets = [[*row[: max_lengths[1]][::step], self.target.eos()] for row in target_ids]
        sums = self._log_probabilities(sources, targets)
        forget_unknown_words(self.loaded.task)
        lengths = np.array([len(row) for row in targets], np.float64)
        values = by_length(sums, lengths, self.scoring.lenpen)
        return Scored([(value,) for value in values.tolist()], tokens, unknown, cut)

    def _log_probabilities(self, sources: list[list[int]], targets: list[list[int]]) -> Any:
        """Return log P of each target given its source [pairs]."""
        sizes = [max(map(len, pair)) for pair in zip(sources, targets, strict=True)]
        order = sorted(
            range(len(sources)),
            key=lambda index: (-len(sources[index]), sources[index], -len(targets[index])),
        )
        log_probabilities = np.zeros(len(sources))
        for batch in padded_batches(sizes, self.scoring.max_tokens, order):
            log_probabilities[batch] = self._batch(
                [sources[index] for index in batch], [targets[index] for index in batch]
            )
        return log_probabilities

    def _batch(self, sources: list[list[int]], targets: list[list[int]]) -> Any:
        """Return log P of each target [pairs]. Split batches that do not fit into GPU memory."""
        import torch

        try:
            return self._force_decode(sources, targets)
        except torch.cuda.OutOfMemoryError:
            if len(sources) == 1:
                raise
            torch.cuda.empty_cache()
        half = len(sources) // 2
        parts = slice(half), slice(half, None)
        return np.concatenate([self._batch(sources[part], targets[part]) for part in parts])

    def _force_decode(self, sources: list[list[int]], targets: list[list[int]]) -> Any:
        """Return log P of each target [pairs]. Each distinct source is encoded only once."""
        import torch

        device, pad = self.loaded.device, self.target.pad()
        distinct = dict.fromkeys(map(tuple, sources))
        rows = {source: row for row, source in enumerate(distinct)}
        source_rows = torch.tensor([rows[tuple(source)] for source in sources], device=device)
        left = bool(getattr(self.loaded.task.cfg, "left_pad_source", True))
        tokens = pad_rows(list(rows), self.source.pad(), left).to(device)
        lengths = torch.tensor(list(map(len, rows)), device=device)
        target = pad_rows(targets, pad).to(device)
        ends = torch.tensor(list(map(len, targets)), device=device)
        is_padding = torch.arange(target.size(1), device=device) >= ends[:, None]
        previous = target.roll(1, 1)
        previous[:, 0] = self.target.eos()
        by_model = []
        with torch.inference_mode():
            for model in self.loaded.models:
                encoded = model.encoder(tokens, src_lengths=lengths)
                if len(rows) < len(sources):
                    encoded = model.encoder.reorder_encoder_out(encoded, source_rows)
                output = model.decoder(previous, encoder_out=encoded)
                scores = model.get_normalized_probs(output, True, {"target": target})
                # The output columns of a copying model are not the ids of the data.
                columns = model.get_targets({"target": target}, output)
                by_model.append(scores.gather(-1, columns[..., None])[..., 0].float())
            tokens = self.loaded.average(by_model)
            return tokens.masked_fill(is_padding, 0.0).double().sum(1).cpu().numpy()
