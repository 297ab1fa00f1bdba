"""Generators for models that copy: search over the vocabulary and the words of the source."""

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


def is_copying_model(model: Any) -> bool:
    """Return True if a model has probabilities of the unknown words in its source."""
    return hasattr(model, "copy_vocabulary")


class CopyingEnsemble(EnsembleModel):
    """An ensemble of copying models with the same vocabulary."""

    def __init__(self, models: Sequence[Any]) -> None:
        sizes = sorted({model.copy_vocabulary for model in models})
        if len(sizes) > 1:
            raise ConfigurationError(
                f"The models of the ensemble have vocabularies of {sizes} words. They must have "
                "the same --copy-vocabulary and dictionary."
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
        """Return log p of the next word [rows, width]. The temperature applies to the mixture."""
        lprobs, attention = super().forward_decoder(tokens, encoder_outs, incremental_states)
        return _apply_temperature(lprobs, temperature), attention


class CopyingGenerator(SequenceGenerator):
    """fairseq's search over the vocabulary and the unknown words of each source.

    Sources and hypotheses have the ids of the data. The search uses local ids.
    """

    def __init__(self, models: Sequence[Any], tgt_dict: Any, **options: Any) -> None:
        if options.get("lm_model") is not None:
            raise ConfigurationError(
                "--lm-path cannot be used with a model that copies, since a language model has no "
                "probabilities of unknown source words."
            )
        super().__init__(CopyingEnsemble(models), tgt_dict, **options)

    def _generate(
        self,
        sample: dict[str, Any],
        prefix_tokens: Tensor | None = None,
        constraints: Tensor | None = None,
        bos_token: int | None = None,
    ) -> Any:
        """Search with local ids of unknown words."""
        if constraints is not None:
            raise ConfigurationError("--constraints cannot be used with a model that copies.")
        source = sample["net_input"]
        words = SourceWords.from_ids(source["src_tokens"], self.model.vocabulary)
        self.vocab_size = words.width
        if prefix_tokens is not None:
            prefix_tokens = words.to_local(prefix_tokens, self.unk)
        local = {**sample, "net_input": {**source, "src_tokens": words.tokens}}
        hypotheses = super()._generate(local, prefix_tokens, constraints, bos_token)
        return _from_local(hypotheses, words)


class AggressiveCopyingGenerator(CopyingGenerator, AggressiveGenerator):
    """Aggressive decoding over the vocabulary and the unknown words of each source."""

    def _log_probabilities(
        self, tokens: Tensor, encoded: list[Any], begin: int, temperature: float
    ) -> Tensor:
        """Return log p [rows, time, width]. The temperature applies to the mixture."""
        return _apply_temperature(
            super()._log_probabilities(tokens, encoded, begin, 1.0), temperature
        )


class CopyingScorer(SequenceScorer):
    """fairseq's scorer (--score-reference) for references with unknown source words."""

    def __init__(self, tgt_dict: Any, **options: Any) -> None:
        super().__init__(tgt_dict, **options)
        self.unk = tgt_dict.unk()

    def generate(self, models: Sequence[Any], sample: dict[str, Any], **options: Any) -> Any:
        """Score the targets of a batch."""
        vocabulary = CopyingEnsemble(models).vocabulary
        words = SourceWords.from_ids(sample["net_input"]["src_tokens"], vocabulary)
        target = words.to_local(sample["target"], self.unk)
        hypotheses = super().generate(models, {**sample, "target": target}, **options)
        return _from_local(hypotheses, words)


def _apply_temperature(lprobs: Tensor, temperature: float) -> Tensor:
    return lprobs if temperature == 1 else torch.log_softmax(lprobs / temperature, dim=-1)


def _from_local(results: Any, words: SourceWords) -> Any:
    """Convert the hypotheses of each sentence to the ids of the data, in place."""
    for sentence, hypotheses in enumerate(results):
        for hypothesis in hypotheses:
            hypothesis["tokens"] = words.from_local(hypothesis["tokens"], sentence)
    return results
