"""Noisy beam search for back-translation (Xie et al., 2018; Kiyono, 2022, section 4.3.1)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from fairseq.search import BeamSearch
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor

from fairseq_ssl.modules.functional import logical_right_shift, mix_bits

_ODD = 0x9E3779B97F4A7C15 - (1 << 64)
"""Increment of SplitMix64, as a signed integer."""
_ROUNDING = 0.01
"""Margin for rounding errors in sums of scores."""

CANDIDATE, HYPOTHESIS = "candidate", "hypothesis"
GRANULARITIES = (CANDIDATE, HYPOTHESIS)
"""Units for which noisy beam search draws a random number."""


@dataclass(frozen=True)
class BeamNoise:
    """Noise for beam search, with hashes as random numbers r (Kiyono, 2022, section 4.3.1).

    The noise of a hypothesis depends only on the seed, the sentence and the words of the
    hypothesis, not on the batch, the rank in the beam or the machine.
    """

    beta: float
    """Noise strength, beta_random, 0 or more."""
    granularity: str = CANDIDATE
    """Unit for which r is drawn, one of `GRANULARITIES`. A candidate is a hypothesis with one of
    its possible next words."""
    seed: int = 1

    def for_next_words(
        self, sentences: Tensor, prefixes: Tensor, rows: Tensor, words: Tensor
    ) -> Tensor:
        """Return the noise beta * r for candidate next words [candidates].

        Args:
            sentences: sentence id of each hypothesis [hypotheses].
            prefixes: the hypotheses so far, with the start symbol [hypotheses, time].
            rows: index of the hypothesis that each word extends [candidates].
            words: ids of the next words [candidates].
        """
        keys = _hash(self._base(sentences) + _hash_words(prefixes).sum(1))[rows]
        if self.granularity == CANDIDATE:
            keys = _hash(keys + words)
        return self.beta * _uniform(keys)

    def for_hypothesis(self, sentence: Tensor, words: Tensor) -> Tensor:
        """Return the noise beta * r for each word of a finished hypothesis [time].

        Args:
            sentence: id of the sentence, a scalar tensor.
            words: the hypothesis with the start symbol [1 + time].
        """
        prefixes = _hash_words(words.unsqueeze(0)).squeeze(0).cumsum(0)[:-1]
        keys = _hash(self._base(sentence) + prefixes)
        if self.granularity == CANDIDATE:
            keys = _hash(keys + words[1:])
        return self.beta * _uniform(keys)

    def _base(self, sentences: Tensor) -> Tensor:
        return _hash(_hash(torch.full_like(sentences, self.seed)) + sentences)


class NoisyBeamSearch(BeamSearch):
    """fairseq's beam search, with noise added to the scores at each step."""

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
        candidate_multiple: int = 2,
    ) -> Any:
        """Choose candidates by noisy scores. The returned scores include the noise."""
        assert prev_output_tokens is not None
        assert original_batch_idxs is not None
        _, beam, vocabulary = lprobs.shape
        sentences = original_batch_idxs.to(lprobs.device).repeat_interleave(beam)
        rows, words = self._reachable(step, lprobs, scores, candidate_multiple * beam)
        noise = self.noise.for_next_words(sentences, prev_output_tokens, rows, words)
        noisy = lprobs.clone()
        noisy.view(-1)[rows * vocabulary + words] += noise.to(noisy)
        multiple = () if candidate_multiple == 2 else (candidate_multiple,)  # not in fairseq 0.12.2
        return super().step(step, noisy, scores, prev_output_tokens, original_batch_idxs, *multiple)

    def _reachable(
        self, step: int, lprobs: Tensor, scores: Tensor | None, count: int
    ) -> tuple[Tensor, Tensor]:
        """Return the rows and words [candidates] of candidates that can be among the `count` best.

        Noise is between 0 and beta. A candidate whose score is more than beta below the scores of
        `count` other candidates cannot be among the `count` best candidates.
        """
        beam, vocabulary = lprobs.shape[1:]
        if step == 0:  # the search reads only the first hypothesis
            totals = lprobs[:, :1].flatten(1)
        else:
            assert scores is not None
            totals = (lprobs + scores[:, :, step - 1 : step]).flatten(1)
        worst = totals.topk(min(count, totals.size(1) - 1)).values[:, -1:]
        reachable = (totals >= worst - self.noise.beta - _ROUNDING) & (totals > -math.inf)
        sentence, candidate = reachable.nonzero(as_tuple=True)
        hypothesis = candidate.div(vocabulary, rounding_mode="floor")
        return sentence * beam + hypothesis, candidate % vocabulary


class NoisyGenerator(SequenceGenerator):
    """A generator with noisy beam search. The scores of hypotheses do not include the noise."""

    def __init__(
        self, models: Sequence[Any], tgt_dict: Any, noise: BeamNoise, **options: Any
    ) -> None:
        super().__init__(
            models, tgt_dict, **{**options, "search_strategy": NoisyBeamSearch(tgt_dict, noise)}
        )
        self.noise = noise

    def generate(self, models: Any, sample: dict[str, Any], **options: Any) -> Any:
        """Return hypotheses sorted by noisy score. Their scores do not include the noise."""
        ids = sample.get("id")
        if ids is None:  # interactive input: use a hash of the source
            ids = _hash_sources(sample["net_input"]["src_tokens"], self.pad)
        results = super().generate(models, {**sample, "id": ids}, **options)
        if not self.noise.beta:
            return results
        bos = options.get("bos_token")
        start = self.eos if bos is None else bos
        for sentence, hypotheses in zip(ids, results, strict=True):
            for hypothesis in hypotheses:
                self._subtract_noise(hypothesis, sentence, start)
        return results

    def _subtract_noise(self, hypothesis: dict[str, Any], sentence: Tensor, start: int) -> None:
        words = hypothesis["tokens"]
        noise = self.noise.for_hypothesis(sentence, torch.cat([words.new_tensor([start]), words]))
        clean = hypothesis["positional_scores"] - noise.to(hypothesis["positional_scores"])
        hypothesis["positional_scores"] = clean
        hypothesis["score"] = clean.sum()
        if self.normalize_scores:
            hypothesis["score"] /= len(words) ** self.len_penalty


def _hash_sources(source: Tensor, pad: int) -> Tensor:
    """Return a hash of each source [batch] that does not depend on padding."""
    real = source != pad
    return (_hash_words(source, real.cumsum(1)) * real).sum(1)


def _hash_words(words: Tensor, positions: Tensor | None = None) -> Tensor:
    """Return a hash of each word and its position [rows, time]. The sum is the row's hash."""
    if positions is None:
        positions = torch.arange(words.size(1), device=words.device)
    return _hash(_hash(positions) + words)


def _hash(numbers: Tensor) -> Tensor:
    """Return the output of SplitMix64 for each state in `numbers`."""
    return mix_bits(numbers + _ODD)


def _uniform(numbers: Tensor) -> Tensor:
    """Convert the upper 24 bits of 64-bit integers to floats in [0, 1)."""
    return logical_right_shift(numbers, 40).float() * 2.0**-24
