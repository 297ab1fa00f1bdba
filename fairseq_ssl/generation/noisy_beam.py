"""Beam search that noise makes err: noisy back-translation (Xie et al., 2018; thesis, 4.3.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from fairseq.search import BeamSearch
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor

from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.modules.functional import logical_right_shift, mix_bits

CANDIDATE, HYPOTHESIS = "candidate", "hypothesis"
PER = (CANDIDATE, HYPOTHESIS)

_ODD = 0x9E3779B97F4A7C15 - (1 << 64)


class BeamNoise:
    """The numbers r of 4.3.1, each a function of what it is added to.

    What a hypothesis gets depends on the seed, its sentence and its words alone: not on the batch,
    its place in the beam, or the machine.
    """

    def __init__(self, beta: float, per: str = CANDIDATE, seed: int = 1) -> None:
        """Set the noise.

        Args:
            beta: how much of it, beta_random; 0 for none
            per: candidate, a number for each word that may follow a hypothesis; hypothesis, one
                for all that may follow it
            seed: of the numbers
        """
        if beta < 0:
            raise ConfigurationError(f"--noisy-beam-beta is {beta}; expected 0 or more.")
        if per not in PER:
            raise ConfigurationError(
                f"--noisy-beam-granularity is {per!r}; expected {', '.join(PER)}."
            )
        self.beta = beta
        self.per = per
        self.seed = seed

    def on_all(self, sentences: Tensor, written: Tensor, vocabulary: int) -> Tensor:
        """Return beta r for each word after each hypothesis [rows, vocabulary or 1].

        Args:
            sentences: [rows], the ids of the sentences of the hypotheses
            written: [rows, time], what they are so far
            vocabulary: how many words may follow
        """
        keys = _mixed(self._base(sentences) + _parts(written).sum(1)).unsqueeze(1)
        if self.per == CANDIDATE:
            keys = _mixed(keys + torch.arange(vocabulary, device=keys.device))
        return self.beta * _uniform(keys)

    def along(self, sentence: Tensor, written: Tensor) -> Tensor:
        """Return beta r of each word of a hypothesis [time], but for the symbol that starts it.

        Args:
            sentence: [], the id of its sentence
            written: [1 + time], a start symbol and its words
        """
        begun = _parts(written.unsqueeze(0)).squeeze(0).cumsum(0)[:-1]
        keys = _mixed(self._base(sentence) + begun)
        if self.per == CANDIDATE:
            keys = _mixed(keys + written[1:])
        return self.beta * _uniform(keys)

    def _base(self, sentences: Tensor) -> Tensor:
        return _mixed(_mixed(torch.full_like(sentences, self.seed)) + sentences)


class NoisyBeamSearch(BeamSearch):
    """fairseq's beam search, which chooses with noise added to the scores at every step."""

    def __init__(self, tgt_dict: Any, noise: BeamNoise) -> None:
        super().__init__(tgt_dict)
        self.noise = noise

    def step(
        self,
        step: int,
        lprobs: Tensor,
        scores: Tensor | None,
        prev_output_tokens: Tensor | None = None,
        original_batch_idxs: Tensor | None = None,
        **options: Any,
    ) -> Any:
        """Choose among what may follow; the scores returned have the noise in them."""
        assert prev_output_tokens is not None
        assert original_batch_idxs is not None
        batch, beam, vocabulary = lprobs.shape
        sentences = original_batch_idxs.to(lprobs.device).repeat_interleave(beam)
        noise = self.noise.on_all(sentences, prev_output_tokens, vocabulary)
        noisy = lprobs + noise.view(batch, beam, -1)
        return super().step(step, noisy, scores, prev_output_tokens, original_batch_idxs, **options)


class NoisyGenerator(SequenceGenerator):
    """Chooses with noise and tells scores without: they are the model's own of what was chosen."""

    def __init__(
        self, models: Sequence[Any], tgt_dict: Any, noise: BeamNoise, **options: Any
    ) -> None:
        super().__init__(
            models, tgt_dict, **{**options, "search_strategy": NoisyBeamSearch(tgt_dict, noise)}
        )
        self.noise = noise

    def _generate(
        self,
        sample: dict[str, Any],
        prefix_tokens: Tensor | None = None,
        constraints: Tensor | None = None,
        bos_token: int | None = None,
    ) -> Any:
        """Search, and take the noise out of the scores; the order stays that with noise."""
        ids = sample.get("id")
        if ids is None:
            # lines typed in have no number: a sentence is known by its words
            ids = _content(sample["net_input"]["src_tokens"], self.pad)
        found = super()._generate({**sample, "id": ids}, prefix_tokens, constraints, bos_token)
        if not self.noise.beta:
            return found
        start = self.eos if bos_token is None else bos_token
        for sentence, hypotheses in zip(ids, found, strict=True):
            for hypothesis in hypotheses:
                self._take_out(hypothesis, sentence, start)
        return found

    def _take_out(self, hypothesis: dict[str, Any], sentence: Tensor, start: int) -> None:
        words = hypothesis["tokens"]
        noise = self.noise.along(sentence, torch.cat([words.new_tensor([start]), words]))
        clean = hypothesis["positional_scores"] - noise.to(hypothesis["positional_scores"])
        hypothesis["positional_scores"] = clean
        hypothesis["score"] = clean.sum()
        if self.normalize_scores:
            hypothesis["score"] /= len(words) ** self.len_penalty


def _content(source: Tensor, pad: int) -> Tensor:
    """Return a number for each source [batch] that does not depend on its padding."""
    real = source != pad
    return (_parts(source, real.cumsum(1)) * real).sum(1)


def _parts(written: Tensor, places: Tensor | None = None) -> Tensor:
    """Return a number for each word at its place [rows, time]; their sum stands for all of them."""
    if places is None:
        places = torch.arange(written.size(1), device=written.device)
    return _mixed(_mixed(places) + written)


def _mixed(numbers: Tensor) -> Tensor:
    """Return SplitMix64's next number after each, in integers that wrap around."""
    return mix_bits(numbers + _ODD)


def _uniform(numbers: Tensor) -> Tensor:
    """Return numbers of [0, 1) from the upper bits."""
    return logical_right_shift(numbers, 40).float() * 2.0**-24
