"""Hypotheses less fluent than what they were made of: fluency boost (Ge, Wei and Zhou, 2018).

A model that makes errors may also leave a sentence as it is, or mend it. Of its n best those alone
are kept to which the sentence given is a correction: it is at least so many times as fluent.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.inference.loading import load_models
from fairseq_ssl.text.batches import padded_batches

logger = logging.getLogger(__name__)

MAX_CANDIDATES = 4000
"""Tokens scored at a time, padding included."""


class Fluency:
    """How a language model finds sentences: 1 / (1 + H), H its cross-entropy per token in nats.

    The end of a sentence is a token of it.
    """

    def __init__(self, model: Any, dictionary: Any) -> None:
        self.model = model.eval()
        self.dictionary = dictionary

    @classmethod
    def load(cls, path: Path, folder: Path | None) -> Fluency:
        """Load a model of fairseq's task language_modeling; `folder` holds its dict.txt."""
        if folder is None:
            raise ConfigurationError(
                f"Pass --fluency-boost-data with the folder of the dict.txt of {path}."
            )
        models, _, task = load_models([path], data=str(folder))
        dictionary = getattr(task, "dictionary", None)
        if dictionary is None or hasattr(models[0], "encoder"):
            raise ConfigurationError(
                f"{path} is no language model; expected one of fairseq's --task language_modeling."
            )
        return cls(models[0], dictionary)

    def numbers_of(self, dictionary: Any) -> Tensor:
        """Return this model's number of each symbol of another dictionary [symbols]."""
        numbers = [self.dictionary.index(symbol) for symbol in dictionary.symbols]
        unknown = numbers.count(self.dictionary.unk()) - 1
        if unknown > len(numbers) // 2:
            raise ConfigurationError(
                f"The language model knows {len(numbers) - unknown} of the {len(numbers)} symbols "
                "of the translation model. Train it on text with the same subwords."
            )
        return torch.tensor(numbers)

    def of(self, sentences: Sequence[Tensor]) -> Tensor:
        """Return the fluency of each sentence [sentences], of this model's numbers and ended."""
        found = torch.zeros(len(sentences))
        for places in padded_batches(list(map(len, sentences)), MAX_CANDIDATES):
            entropy = self._entropy([sentences[place] for place in places])
            found[torch.tensor(places)] = 1 / (1 + entropy.cpu())
        return found

    @torch.no_grad()
    def _entropy(self, sentences: list[Tensor]) -> Tensor:
        pad = self.dictionary.pad()
        rows = torch.nn.utils.rnn.pad_sequence(sentences, True, pad)
        self.model.to(rows.device)
        begun = rows.roll(1, 1)
        begun[:, 0] = self.dictionary.eos()
        lengths = torch.tensor([len(sentence) for sentence in sentences], device=rows.device)
        scores = self.model(begun, src_lengths=lengths)[0]
        each = functional.cross_entropy(
            scores.float().flatten(0, 1), rows.flatten(), ignore_index=pad, reduction="none"
        )
        return each.view_as(rows).sum(1) / lengths


class FluencyBoost:
    """A generator whose hypotheses are fewer; where none is left, an empty one of score -inf."""

    def __init__(
        self, generator: Any, fluency: Fluency, source: Any, target: Any, ratio: float
    ) -> None:
        """Wrap a generator.

        Args:
            generator: one of fairseq's
            fluency: what judges
            source: dictionary of the sentences given
            target: dictionary of the hypotheses
            ratio: how many times as fluent the sentence given must be, sigma
        """
        if ratio <= 0:
            raise ConfigurationError(f"--fluency-boost-ratio is {ratio}; expected above 0.")
        self.generator = generator
        self.fluency = fluency
        self.source, self.target = fluency.numbers_of(source), fluency.numbers_of(target)
        self.pad = source.pad()
        self.ratio = ratio

    def __getattr__(self, name: str) -> Any:
        """Be the generator in all else."""
        return getattr(self.generator, name)

    def generate(self, models: Any, sample: dict[str, Any], **options: Any) -> Any:
        """Search, and keep what is less fluent than its source."""
        found = self.generator.generate(models, sample, **options)
        given = self._fluency(
            [row[row != self.pad] for row in sample["net_input"]["src_tokens"]], self.source
        )
        words = [hypothesis["tokens"] for hypotheses in found for hypothesis in hypotheses]
        made = iter(self._fluency(words, self.target).tolist())
        kept = []
        for fluent, hypotheses in zip(given.tolist(), found, strict=True):
            good = [one for one in hypotheses if fluent >= self.ratio * next(made)]
            kept.append(good or [_nothing(hypotheses[0])])
        return kept

    def _fluency(self, sentences: list[Tensor], numbers: Tensor) -> Tensor:
        numbers = numbers.to(sentences[0].device) if sentences else numbers
        return self.fluency.of([numbers[sentence] for sentence in sentences])


def _nothing(hypothesis: dict[str, Any]) -> dict[str, Any]:
    """Return what stands for no hypothesis; fairseq-generate can not do without one."""
    lost = hypothesis["tokens"].new_full((1,), float("-inf"), dtype=torch.float)
    empty = {"tokens": hypothesis["tokens"][-1:], "score": lost[0], "positional_scores": lost}
    return {**hypothesis, **empty, "attention": None, "alignment": torch.empty(0)}
