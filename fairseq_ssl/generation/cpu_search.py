"""Beam search of fairseq's Transformers on a CPU, with the results of fairseq up to rounding.

`SequenceGenerator._generate` runs unchanged, on a copy of the generator whose model is a
`CpuEnsemble`.

- A hypothesis keeps its row in the buffers of keys and values while it is continued. Only those of
  hypotheses with several continuations are copied. fairseq copies all of them twice in each step.
- If only the best words of each hypothesis matter, logits are computed for a block of the
  vocabulary at a time and not stored: the search reads a `Shortlist` in place of a distribution.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from fairseq.models.fairseq_decoder import FairseqDecoder
from fairseq.models.transformer import TransformerModelBase
from fairseq.search import BeamSearch
from fairseq.sequence_generator import EnsembleModel, SequenceGenerator
from torch import Tensor

from fairseq_ssl.generation.decoder_step import (
    BeamState,
    DecoderStep,
    Product,
    decoder_step,
)

GROUP = 64
"""Number of neighboring words whose maxima are compared first."""
MAX_SPECIALS = 16
"""Upper bound of the ids of special symbols in a `Shortlist`."""


class CpuEnsemble(EnsembleModel):
    """fairseq's ensemble for the search in one batch, with hypotheses in fixed rows.

    A hypothesis takes the row of its predecessor, or if that is taken, the row of a hypothesis of
    its sentence that is not continued.
    """

    def __init__(self, models: Sequence[Any], steps: Sequence[DecoderStep], beam: int) -> None:
        super().__init__(models)
        self.steps = steps
        self.states = [BeamState(beam) for _ in models]
        self.rows: Tensor | None = None
        """[hypotheses], the row of each hypothesis. None before the encoder ran."""
        self.shortlist: Shortlist | None = None

    def forward_decoder(
        self, tokens: Tensor, encoder_outs: Any, incremental_states: Any, temperature: float = 1.0
    ) -> Any:
        """Return the log-probabilities and attention of the next words."""
        rows = self.rows
        assert rows is not None
        in_rows = tokens.index_select(0, rows.argsort())
        outputs = [
            step.features(model.decoder, in_rows, encoder_outs[i] if encoder_outs else None, state)
            for i, (step, model, state) in enumerate(
                zip(self.steps, self.models, self.states, strict=True)
            )
        ]
        features = [each.index_select(0, rows) for each, _ in outputs]
        weights = [each for _, each in outputs if each is not None]
        attention = torch.stack(weights).mean(0).index_select(0, rows) if weights else None
        if self.shortlist is not None:
            return self.shortlist.best_words(features[0], temperature), attention
        lprobs = [
            self._distribution(model, step, each, temperature)
            for model, step, each in zip(self.models, self.steps, features, strict=True)
        ]
        if len(lprobs) == 1:
            return lprobs[0], attention
        return torch.logsumexp(torch.stack(lprobs), 0) - math.log(len(lprobs)), attention

    def _distribution(
        self, model: Any, step: DecoderStep, features: Tensor, temperature: float
    ) -> Tensor:
        """Return the log-probabilities of all words [rows, vocabulary]."""
        if step.blocks:
            logits = torch.cat([block(features) for block in step.blocks], 1)[:, None]
        else:
            logits = model.decoder.output_layer(features[:, None])
        output = (logits.div_(temperature), None)
        lprobs: Tensor = model.get_normalized_probs(output, log_probs=True, sample=None)
        return lprobs[:, -1]

    def reorder_encoder_out(self, encoder_outs: Any, new_order: Tensor) -> Any:
        """Repeat the output of the encoder for each hypothesis. Later calls have no effect."""
        if self.rows is not None:
            return encoder_outs  # `BeamState` has the keys and values
        self.rows = torch.arange(len(new_order))
        return super().reorder_encoder_out(encoder_outs, new_order)

    def reorder_incremental_state(self, incremental_states: Any, new_order: Tensor) -> None:
        """Continue the hypotheses `new_order`."""
        assert self.rows is not None
        parents = self.rows[new_order]
        if len(parents) == len(self.rows):
            self.rows, sources, targets = assign_rows(parents)
            for state in self.states:
                state.copy_rows(sources, targets)
        else:  # sentences are finished
            self.rows = torch.arange(len(parents))
            for state in self.states:
                state.select(parents)


def assign_rows(parents: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Choose the rows of hypotheses whose predecessors are in the rows `parents`.

    Returns:
        the row of each hypothesis, and the rows to copy from and to
    """
    count = len(parents)
    indices = torch.arange(count)
    first = torch.full_like(parents, count).scatter_reduce_(0, parents, indices, "amin")
    # Rows of a sentence are neighbors: sorted, free rows and moves of a sentence match.
    targets = (first == count).nonzero()[:, 0]
    moving = (first[parents] != indices).nonzero()[:, 0]
    moving = moving[parents[moving].argsort()]
    sources = parents[moving]
    rows = parents.index_copy(0, moving, targets)
    return rows, sources, targets


class Shortlist:
    """The best words of each hypothesis, as columns after the special symbols.

    fairseq's search takes the best 2 * beam continuations of a sentence, so it needs no more words
    of a hypothesis.
    """

    def __init__(self, blocks: Sequence[Product], specials: int, count: int) -> None:
        """Prepare the search in a batch.

        Args:
            blocks: products that return the logits of consecutive words.
            specials: number of first words of the vocabulary that keep their column.
            count: number of columns after them.
        """
        self.blocks = blocks
        self.specials = specials
        self.count = count
        self.words = torch.empty(0)
        """[rows, count], the words of the columns."""

    def best_words(self, features: Tensor, temperature: float) -> Tensor:
        """Set `words` and return the log-probabilities [rows, specials + count]."""
        scores, words, maxima, sums, specials = [], [], [], [], []
        start = 0
        for block in self.blocks:
            logits = block(features)
            if temperature != 1.0:
                logits.div_(temperature)
            maxima.append(logits.amax(1, keepdim=True))
            special = logits[:, : 0 if start else self.specials].clone()
            logits[:, : special.size(1)] = -math.inf
            best, index = top_words(logits, min(self.count, logits.size(1)))
            scores.append(best)
            words.append(index + start)
            logits[:, : special.size(1)] = special
            sums.append(logits.sub_(maxima[-1]).exp_().sum(1, keepdim=True))
            specials.append(special)
            start += logits.size(1)
        best, index = torch.cat(scores, 1).topk(self.count, 1)
        self.words = torch.cat(words, 1).gather(1, index)
        block_maxima = torch.cat(maxima, 1)
        maximum = block_maxima.amax(1, keepdim=True)
        total = (torch.cat(sums, 1) * (block_maxima - maximum).exp_()).sum(1, keepdim=True)
        return torch.cat([*specials, best], 1).sub_(maximum).sub_(total.log_())


def top_words(logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the values and indices of the `count` largest logits of each row, in two levels.

    The largest values are in the groups with the largest maxima.
    """
    rows, words = logits.shape
    if words % GROUP or words // GROUP <= count:
        return logits.topk(count, 1)
    groups = logits.view(rows, -1, GROUP)
    chosen = groups.amax(2).topk(count, 1, sorted=False)[1]
    members = groups.gather(1, chosen[:, :, None].expand(-1, -1, GROUP)).view(rows, -1)
    values, index = members.topk(count, 1)
    group = chosen.gather(1, index // GROUP)
    return values, group * GROUP + index % GROUP


class ShortlistSearch(BeamSearch):
    """fairseq's beam search over the columns of a `Shortlist`, which returns words."""

    def __init__(self, tgt_dict: Any, shortlist: Shortlist) -> None:
        super().__init__(tgt_dict)
        self.shortlist = shortlist

    def step(self, step: int, lprobs: Tensor, scores: Any, *more: Any, **options: Any) -> Any:
        """Return scores, words and beams of the candidates."""
        best, columns, beams = super().step(step, lprobs, scores, *more, **options)
        specials, count = self.shortlist.specials, self.shortlist.count
        words = self.shortlist.words.view(len(lprobs), -1)
        chosen = words.gather(1, beams * count + (columns - specials).clamp_(min=0))
        return best, torch.where(columns < specials, columns, chosen), beams


def in_fixed_rows(generator: Any, options: Mapping[str, Any]) -> Any:
    """Return a copy of `generator` with a `CpuEnsemble`, or `generator` if it does not apply.

    Args:
        generator: a `SequenceGenerator`.
        options: the keyword arguments of its `generate`.
    """
    if (
        type(generator)._generate is not SequenceGenerator._generate
        or type(generator.model) is not EnsembleModel
        or torch.is_grad_enabled()
        or torch.is_autocast_enabled("cpu")
    ):
        return generator
    models = generator.model.models
    steps = [step for step in map(decoder_step, models) if step is not None]
    if len(steps) < len(models):
        return generator
    clone = copy.copy(generator)
    ensemble = CpuEnsemble(models, steps, generator.beam_size)
    clone._modules = {**generator._modules, "model": ensemble}
    if needs_best_words(generator, options) and has_softmax(models[0], steps[0]):
        specials = max(generator.pad, generator.unk, generator.eos) + 1
        ensemble.shortlist = Shortlist(steps[0].blocks, specials, 2 * generator.beam_size)
        clone._modules["search"] = ShortlistSearch(generator.tgt_dict, ensemble.shortlist)
        clone.vocab_size = specials + 2 * generator.beam_size
    return clone


def needs_best_words(generator: Any, options: Mapping[str, Any]) -> bool:
    """Return True if the search reads only the best words of each hypothesis."""
    decoder = generator.model.models[0].decoder
    return (
        type(generator.search) is BeamSearch
        and len(generator.model.models) == 1
        and generator.lm_model is None
        and generator.repeat_ngram_blocker is None
        and generator.token_indices_to_suppress is None
        and options.get("prefix_tokens") is None
        and options.get("constraints") is None
        and max(generator.pad, generator.unk, generator.eos) < MAX_SPECIALS
        and generator.vocab_size > MAX_SPECIALS + 2 * generator.beam_size
        and generator.vocab_size == getattr(decoder.output_projection, "out_features", 0)
    )


def has_softmax(model: Any, step: DecoderStep) -> bool:
    """Return True if `model` ends with fairseq's linear layer and softmax."""
    return (
        bool(step.blocks)
        and isinstance(model, TransformerModelBase)
        and type(model).get_normalized_probs is TransformerModelBase.get_normalized_probs
        and type(model.decoder).get_normalized_probs is FairseqDecoder.get_normalized_probs
    )
