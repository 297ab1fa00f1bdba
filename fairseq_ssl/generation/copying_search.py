"""Aggressive decoding with the source as a draft (PBD), and search for pointer-generators."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from fairseq.models.transformer import TransformerDecoderBase
from fairseq.search import BeamSearch
from fairseq.sequence_generator import EnsembleModel, SequenceGenerator
from fairseq.sequence_scorer import SequenceScorer
from torch import Tensor

from fairseq_ssl.errors import ConfigurationError, reject_options
from fairseq_ssl.modules.copying import SourceWords
from fairseq_ssl.modules.functional import is_plain_softmax

REALIGN_DISTANCE = 4
"""Maximum distance in tokens at which `realign` looks for a token in the source."""


class DraftToken(NamedTuple):
    """A draft token and its alignment to the source."""

    token: int
    """Token id."""
    resume_at: int
    """Source position from which the draft continues after this token."""


class Draft:
    """A hypothesis and a draft of its continuation. The first draft is the source."""

    def __init__(self, source: list[int], first: int, eos: int) -> None:
        """Start with an empty hypothesis and the source as its draft.

        Args:
            source: ids of the source without padding and </s>.
            first: id of the decoder's start symbol.
            eos: id of </s>.
        """
        self.source = source
        self.first = first
        self.eos = eos
        self.written: list[int] = []
        self.scores: list[float] = []
        self.begin = 0
        self.plan = [DraftToken(token, index + 1) for index, token in enumerate(source)]

    @property
    def tokens(self) -> list[int]:
        """The decoder input: start symbol, hypothesis, draft."""
        return [self.first, *self.written, *(draft.token for draft in self.plan)]

    @property
    def is_done(self) -> bool:
        """True if the hypothesis ends with </s>."""
        return bool(self.written) and self.written[-1] == self.eos

    def accept(self, chosen: list[int], scores: list[float]) -> None:
        """Accept predictions up to and including the first one that differs from the draft.

        If the hypothesis is not finished, build a new draft.

        Args:
            chosen: the most probable token after the hypothesis and after each draft token.
            scores: the log-probabilities of these tokens.
        """
        expected = [*(draft.token for draft in self.plan), self.eos]
        same = 0
        while same < len(chosen) - 1 and chosen[same] == expected[same]:
            same += 1
        self.written += chosen[: same + 1]
        self.scores += scores[: same + 1]
        if not self.is_done:
            position = self.plan[same - 1].resume_at if same else self.begin
            begin = realign(self.source, position, chosen[same])
            self._build_draft(begin, chosen, same)

    def _build_draft(self, begin: int, chosen: list[int], same: int) -> None:
        """Build a draft from the rest of the source, with the changes that the decoder predicted.

        Predictions after the first difference depend on an outdated prefix, but the new prefix
        rarely changes them. Therefore, the draft includes these predictions.

        Args:
            begin: source position from which the draft continues.
            chosen: predicted tokens, as in `accept`.
            same: number of draft tokens that were accepted.
        """
        changes: dict[int, int] = {}
        for position, index in self._copied_positions(same, len(chosen)):
            changes[position] = chosen[index]
        plan: list[DraftToken] = []
        position = begin
        while position < len(self.source):
            token = self.source[position]
            choice = changes.get(position, token)
            if choice == self.eos:
                break
            resume_at = realign(self.source, position, choice)
            plan.append(DraftToken(choice, resume_at))
            if resume_at <= position:  # an insertion before the token
                plan.append(DraftToken(token, position + 1))
            position = max(resume_at, position + 1)
        self.begin, self.plan = begin, plan

    def _copied_positions(self, same: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield (source position, draft index) for draft tokens aligned to a single source token.

        Only draft tokens after index `same` and before index `end` are considered.
        """
        for index in range(same + 1, min(end, len(self.plan))):
            position = self.plan[index].resume_at - 1
            if self.plan[index - 1].resume_at == position:
                yield position, index


def realign(source: list[int], position: int, chosen: int) -> int:
    """Return the source position from which the draft continues after the token `chosen`.

    If the source contains `chosen` near `position`, the draft continues after its nearest
    occurrence. A later occurrence means that tokens were deleted, and an earlier one that tokens
    were inserted. If there is no occurrence, `chosen` replaces the token at `position`.
    """
    for distance in range(REALIGN_DISTANCE + 1):
        for near in (position + distance, position - distance):
            if 0 <= near < len(source) and source[near] == chosen:
                return near + 1
    return min(position + 1, len(source))


def _log_probabilities(
    model: Any, tokens: Tensor, source: Any, begin: int, temperature: float
) -> Tensor:
    """Return log-probabilities [rows, time - begin, vocabulary] at the positions from `begin` on.

    If the model supports it, the output layer is applied to these positions only.
    """
    decoder = model.decoder
    skipped = begin if is_plain_softmax(model) else 0
    stock = type(decoder).forward is TransformerDecoderBase.forward
    if stock or getattr(decoder, "scores_features_alone", False):
        features, *more = decoder(tokens, encoder_out=source, features_only=True)
        logits = decoder.output_layer(features[:, skipped:])
    else:
        logits, *more = decoder(tokens, encoder_out=source)
        logits = logits[:, skipped:]
    lprobs: Tensor = model.get_normalized_probs(
        (logits / temperature, *more), log_probs=True, sample=None
    )
    return lprobs[:, begin - skipped :]


class AggressiveGenerator(SequenceGenerator):
    """Aggressive decoding: greedy search that verifies a draft in each step (PBD)."""

    def __init__(self, models: Any, dictionary: Any, **options: Any) -> None:
        super().__init__(models, dictionary, **options)
        if self.beam_size != 1:
            raise ConfigurationError(
                f"--beam is {self.beam_size}, but --aggressive is a greedy search. Set --beam 1."
            )
        if type(self.search) is not BeamSearch or self.repeat_ngram_blocker is not None:
            raise ConfigurationError(
                "--aggressive cannot be used with other search options. Remove --sampling, "
                "--constraints, --diverse-beam-groups, --diversity-rate, --match-source-len and "
                "--no-repeat-ngram-size."
            )
        reject_options("--aggressive", {"lm_path": self.lm_model is not None})

    def _generate(
        self,
        sample: dict[str, Any],
        prefix_tokens: Tensor | None = None,
        constraints: Tensor | None = None,
        bos_token: int | None = None,
    ) -> list[list[dict[str, Any]]]:
        """Return a list with one hypothesis for each sentence in a batch."""
        options = {
            "prefix_size": prefix_tokens is not None,
            "constraints": constraints is not None,
        }
        reject_options("--aggressive", options)
        source = sample["net_input"]["src_tokens"]
        max_length = int(self.max_len_a * source.size(1) + self.max_len_b)
        max_length = min(max_length, self.max_len - 1)
        if self.min_len > max_length:
            raise ConfigurationError(
                f"--min-len is {self.min_len}, but --max-len-a, --max-len-b and the model's "
                f"maximum length limit the targets in this batch to {max_length} tokens. Set a "
                "lower --min-len or a higher --max-len-b."
            )
        first = self.eos if bos_token is None else bos_token
        drafts = [
            Draft([token for token in row if token not in (self.pad, self.eos)], first, self.eos)
            for row in source.tolist()
        ]
        encoded = self.model.forward_encoder(sample["net_input"])
        active = drafts
        while active:
            self._extend(active, encoded, max_length, source.device)
            unfinished = [row for row, draft in enumerate(active) if not draft.is_done]
            if unfinished and len(unfinished) < len(active):
                rows = torch.tensor(unfinished, device=source.device)
                encoded = self.model.reorder_encoder_out(encoded, rows)
            active = [active[row] for row in unfinished]
        return [[self._hypothesis(draft, source)] for draft in drafts]

    def _extend(
        self, drafts: list[Draft], encoded: list[Any], max_length: int, device: torch.device
    ) -> None:
        """Verify all drafts in one decoder step. Extend the hypotheses with accepted tokens."""
        inputs = [draft.tokens[: max_length + 1] for draft in drafts]
        width = max(map(len, inputs))
        padded = [tokens + [self.pad] * (width - len(tokens)) for tokens in inputs]
        begin = min(len(draft.written) for draft in drafts)
        scores = self._scores(torch.tensor(padded, device=device), encoded, begin, max_length)
        best, chosen = scores.max(-1)
        for draft, tokens, choices, choice_scores in zip(
            drafts, inputs, chosen.tolist(), best.tolist(), strict=True
        ):
            new = slice(len(draft.written) - begin, len(tokens) - begin)
            draft.accept(choices[new], choice_scores[new])

    def _scores(self, tokens: Tensor, encoded: list[Any], begin: int, max_length: int) -> Tensor:
        """Return log-probabilities [rows, time - begin, vocabulary] for the search.

        Suppressed tokens, padding and tokens that violate a length limit get minus infinity. The
        penalty --unkpen is subtracted from the score of <unk>.

        Args:
            tokens: decoder input [rows, time], padded on the right.
            encoded: encoder output of each model.
            begin: length of the shortest hypothesis.
            max_length: maximum target length in tokens, excluding </s>.
        """
        scores = self._log_probabilities(tokens, encoded, begin, self.temperature)
        scores = scores.masked_fill(scores.isnan(), -math.inf)
        scores[..., self.pad] = -math.inf
        scores[..., self.unk] -= self.unk_penalty
        end = max(max_length - begin, 0)
        ending = scores[:, end:, self.eos].clone()
        scores[:, end:] = -math.inf
        scores[:, end:, self.eos] = ending
        scores[:, : max(self.min_len - begin, 0), self.eos] = -math.inf
        if self.token_indices_to_suppress is not None:
            scores[..., self.token_indices_to_suppress] = -math.inf
        return scores

    def _log_probabilities(
        self, tokens: Tensor, encoded: list[Any], begin: int, temperature: float
    ) -> Tensor:
        """Return the log of the models' mean probabilities [rows, time - begin, vocabulary]."""
        parts = [
            _log_probabilities(model, tokens, source, begin, temperature)
            for model, source in zip(self.model.models, encoded, strict=True)
        ]
        if len(parts) == 1:
            return parts[0]
        return torch.stack(parts).logsumexp(0) - math.log(len(parts))

    def _hypothesis(self, draft: Draft, source: Tensor) -> dict[str, Any]:
        scores = torch.tensor(draft.scores, device=source.device)
        score = scores.sum()
        if self.normalize_scores:
            score = score / len(draft.scores) ** self.len_penalty
        return {
            "tokens": torch.tensor(draft.written, device=source.device),
            "score": score,
            "attention": None,
            "alignment": torch.empty(0),
            "positional_scores": scores,
        }


def is_copying_model(model: Any) -> bool:
    """Return True if a model can copy out-of-vocabulary words from its source."""
    return hasattr(model, "copy_vocabulary")


class CopyingEnsemble(EnsembleModel):
    """An ensemble of models that copy source words. The models must have the same vocabulary."""

    def __init__(self, models: Sequence[Any]) -> None:
        sizes = sorted({model.copy_vocabulary for model in models})
        if len(sizes) > 1:
            raise ConfigurationError(
                "The models of the ensemble have the vocabulary sizes "
                f"{' and '.join(map(str, sizes))}. Expected models with the same --copy-vocabulary "
                "and dictionary."
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
        """Return the log-probabilities of the next word [rows, width], and the attention.

        The temperature applies to the mixture of generation and copy distributions, not to logits.
        """
        lprobs, attention = super().forward_decoder(tokens, encoder_outs, incremental_states)
        return _apply_temperature(lprobs, temperature), attention


class CopyingGenerator(SequenceGenerator):
    """fairseq's search over the vocabulary and the out-of-vocabulary words of each source.

    Sources and hypotheses contain dictionary ids. The search uses local ids (see `SourceWords`).
    """

    def __init__(self, models: Sequence[Any], tgt_dict: Any, **options: Any) -> None:
        has_language_model = options.get("lm_model") is not None
        reject_options("a model that copies source words", {"lm_path": has_language_model})
        super().__init__(CopyingEnsemble(models), tgt_dict, **options)

    def _generate(
        self,
        sample: dict[str, Any],
        prefix_tokens: Tensor | None = None,
        constraints: Tensor | None = None,
        bos_token: int | None = None,
    ) -> Any:
        """Search with local ids. Return hypotheses with dictionary ids."""
        reject_options("a model that copies source words", {"constraints": constraints is not None})
        source = sample["net_input"]
        words = SourceWords.from_ids(source["src_tokens"], self.model.vocabulary)
        self.vocab_size = words.width
        if prefix_tokens is not None:
            prefix_tokens = words.to_local(prefix_tokens, self.unk)
        local = {**sample, "net_input": {**source, "src_tokens": words.tokens}}
        hypotheses = super()._generate(local, prefix_tokens, constraints, bos_token)
        return _from_local(hypotheses, words)


class AggressiveCopyingGenerator(CopyingGenerator, AggressiveGenerator):
    """Aggressive decoding over the vocabulary and the out-of-vocabulary words of each source."""

    def _log_probabilities(
        self, tokens: Tensor, encoded: list[Any], begin: int, temperature: float
    ) -> Tensor:
        """Return log-probabilities [rows, time - begin, width].

        The temperature applies to the mixture of generation and copy distributions, not to logits.
        """
        return _apply_temperature(
            super()._log_probabilities(tokens, encoded, begin, 1.0), temperature
        )


class CopyingScorer(SequenceScorer):
    """fairseq's scorer (--score-reference), with probabilities for out-of-vocabulary words."""

    def __init__(self, tgt_dict: Any, **options: Any) -> None:
        super().__init__(tgt_dict, **options)
        self.unk = tgt_dict.unk()

    def generate(self, models: Sequence[Any], sample: dict[str, Any], **options: Any) -> Any:
        """Return the targets in a batch as hypotheses with scores."""
        vocabulary = CopyingEnsemble(models).vocabulary
        words = SourceWords.from_ids(sample["net_input"]["src_tokens"], vocabulary)
        target = words.to_local(sample["target"], self.unk)
        hypotheses = super().generate(models, {**sample, "target": target}, **options)
        return _from_local(hypotheses, words)


def _apply_temperature(lprobs: Tensor, temperature: float) -> Tensor:
    return lprobs if temperature == 1 else torch.log_softmax(lprobs / temperature, dim=-1)


def _from_local(results: Any, words: SourceWords) -> Any:
    """Convert the local ids in the hypotheses of each sentence to dictionary ids, in place."""
    for sentence, hypotheses in enumerate(results):
        for hypothesis in hypotheses:
            hypothesis["tokens"] = words.from_local(hypothesis["tokens"], sentence)
    return results
