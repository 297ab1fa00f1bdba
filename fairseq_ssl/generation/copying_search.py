"""Beam search and sampling over the words of a vocabulary and of the source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from fairseq.sequence_generator import EnsembleModel, SequenceGenerator
from fairseq.sequence_scorer import SequenceScorer
from torch import Tensor

from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.generation.aggressive_decoding import AggressiveGenerator
from fairseq_ssl.modules.copying import SourceWords


def copies(model: Any) -> bool:
    """Tell whether a model has probabilities for the unknown words of its source."""
    return hasattr(model, "copy_vocabulary")


class CopyingEnsemble(EnsembleModel):
    """Models that write the same words; their probabilities are averaged at each step."""

    def __init__(self, models: Sequence[Any]) -> None:
        sizes = sorted({model.copy_vocabulary for model in models})
        if len(sizes) > 1:
            raise ConfigurationError(
                f"The models of an ensemble have vocabularies of {sizes} words. Expected the same "
                "--copy-vocabulary and dictionary for all."
            )
        super().__init__(models)
        self.vocabulary = sizes[0]

    def forward_decoder(
        self,
        tokens: Tensor,
        encoder_outs: Any,
        incremental_states: Any,
        temperature: float = 1.0,
    ) -> tuple[Tensor, Tensor | None]:
        """Return log p of the next word [rows, width]; a temperature is that of the mixture."""
        lprobs, attention = super().forward_decoder(tokens, encoder_outs, incremental_states)
        return _tempered(lprobs, temperature), attention


class CopyingGenerator(SequenceGenerator):
    """fairseq's search, in each batch over the vocabulary and what its sources can give.

    Sources come, and hypotheses leave, by the ids of the data.
    """

    def __init__(self, models: Sequence[Any], tgt_dict: Any, **options: Any) -> None:
        if options.get("lm_model") is not None:
            raise ConfigurationError(
                "--lm-path does not go with a model that copies: a language model has no "
                "probabilities for the words of the source."
            )
        super().__init__(CopyingEnsemble(models), tgt_dict, **options)

    def _generate(
        self,
        sample: dict[str, Any],
        prefix_tokens: Tensor | None = None,
        constraints: Tensor | None = None,
        bos_token: int | None = None,
    ) -> Any:
        """Search, with numbers for the unknown words of each source."""
        if constraints is not None:
            raise ConfigurationError("--constraints does not go with a model that copies.")
        source = sample["net_input"]
        words = SourceWords.from_ids(source["src_tokens"], self.model.vocabulary)
        self.vocab_size = words.width
        if prefix_tokens is not None:
            prefix_tokens = words.to_local(prefix_tokens, self.unk)
        numbered = {**sample, "net_input": {**source, "src_tokens": words.tokens}}
        found = super()._generate(numbered, prefix_tokens, constraints, bos_token)
        return _named(found, words)


class AggressiveCopyingGenerator(CopyingGenerator, AggressiveGenerator):
    """Aggressive search over the vocabulary and what the sources of a batch can give."""

    def _log_probabilities(
        self, tokens: Tensor, encoded: list[Any], begin: int, temperature: float
    ) -> Tensor:
        """Return log p of the words [rows, time, width]; a temperature is that of the mixture."""
        return _tempered(super()._log_probabilities(tokens, encoded, begin, 1.0), temperature)


class CopyingScorer(SequenceScorer):
    """fairseq's --score-reference, for references with unknown words of their sources."""

    def __init__(self, tgt_dict: Any, **options: Any) -> None:
        super().__init__(tgt_dict, **options)
        self.unk = tgt_dict.unk()

    def generate(self, models: Sequence[Any], sample: dict[str, Any], **options: Any) -> Any:
        """Score the targets of a batch."""
        vocabulary = CopyingEnsemble(models).vocabulary
        words = SourceWords.from_ids(sample["net_input"]["src_tokens"], vocabulary)
        target = words.to_local(sample["target"], self.unk)
        return _named(super().generate(models, {**sample, "target": target}, **options), words)


def _tempered(lprobs: Tensor, temperature: float) -> Tensor:
    return lprobs if temperature == 1 else torch.log_softmax(lprobs / temperature, dim=-1)


def _named(found: Any, words: SourceWords) -> Any:
    """Give the hypotheses of each sentence the ids of the data, in place."""
    for sentence, hypotheses in enumerate(found):
        for hypothesis in hypotheses:
            hypothesis["tokens"] = words.from_local(hypothesis["tokens"], sentence)
    return found
