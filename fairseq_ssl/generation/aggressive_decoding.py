"""Greedy search that takes the source for a draft and checks all of it at once.

Where source and target differ in few places, most of what a greedy search writes is there to be
read already. The decoder is given what is written, and after it the rest of the source as if
that had been written too; up to the first place where its own choice is another one, this is
what greedy search would have written, and its choice there comes next. Then the source is
taken up again, behind the word that matches (Sun et al., 2021, aggressive decoding), with the
words that the decoder would have changed in it further on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from fairseq.models.transformer import TransformerDecoderBase
from fairseq.search import BeamSearch
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor

from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.modules.functional import is_plain_softmax

AGGRESSIVE = (
    "write what greedy search writes, up to rounding, in fewer steps: the source is the draft, "
    "and the decoder checks all of it at once; needs --beam 1 and a joined dictionary"
)
"""What --aggressive does."""

REACH = 4
"""How far from where a draft failed the source is searched for the word that was chosen."""


class Planned(NamedTuple):
    """A token that may come next."""

    token: int
    goes_on: int
    """Where the source goes on after it."""


class Draft:
    """A sentence that is being written, and what may come of it: at first all of the source."""

    def __init__(self, source: list[int], first: int, eos: int) -> None:
        """Begin with `first` alone, and a source without padding and end before one."""
        self.source = source
        self.first = first
        self.eos = eos
        self.written: list[int] = []
        self.scores: list[float] = []
        self.begin = 0
        self.plan = [Planned(token, place + 1) for place, token in enumerate(source)]

    @property
    def tokens(self) -> list[int]:
        """What the decoder is given: what is written, and what is planned."""
        return [self.first, *self.written, *(planned.token for planned in self.plan)]

    @property
    def is_done(self) -> bool:
        """Whether the end is written."""
        return bool(self.written) and self.written[-1] == self.eos

    def accept(self, chosen: list[int], scores: list[float]) -> None:
        """Take over the choices up to the first that is not what was planned, and plan anew.

        Args:
            chosen: what greedy search writes after the last token written, and after those
                that follow in the plan
            scores: their log-probabilities
        """
        planned = [*(planned.token for planned in self.plan), self.eos]
        same = 0
        while same < len(chosen) - 1 and chosen[same] == planned[same]:
            same += 1
        self.written += chosen[: same + 1]
        self.scores += scores[: same + 1]
        if not self.is_done:
            place = self.plan[same - 1].goes_on if same else self.begin
            self._plan(resumed(self.source, place, chosen[same]), chosen, same)

    def _plan(self, begin: int, chosen: list[int], same: int) -> None:
        """Plan the rest of the source, and the edits that the decoder would have made in it.

        Choices behind the first edit were made after words that now are others, and are most
        often the same: so all edits are tried at once, and not one after the other.
        """
        wanted: dict[int, int] = {}
        for place, number in self._copied(same, len(chosen)):
            wanted[place] = chosen[number]
        plan: list[Planned] = []
        place = begin
        while place < len(self.source):
            token = self.source[place]
            other = wanted.get(place, token)
            if other == self.eos:
                break
            goes_on = resumed(self.source, place, other)
            plan.append(Planned(other, goes_on))
            if goes_on <= place:  # it was put in before the token
                plan.append(Planned(token, place + 1))
            place = max(goes_on, place + 1)
        self.begin, self.plan = begin, plan

    def _copied(self, same: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the places of the source that stand in the plan after `same`, and where."""
        for number in range(same + 1, min(end, len(self.plan))):
            place = self.plan[number].goes_on - 1
            if self.plan[number - 1].goes_on == place:
                yield place, number


def resumed(source: list[int], place: int, chosen: int) -> int:
    """Return where the source goes on after `chosen` was written in the place of one token.

    If the token is there, or near, the source goes on behind it, nearest first: a token that
    is further on was reached by leaving some out, one before by putting some in. Otherwise it
    stands for the token of the source.
    """
    for distance in range(REACH + 1):
        for near in (place + distance, place - distance):
            if 0 <= near < len(source) and source[near] == chosen:
                return near + 1
    return min(place + 1, len(source))


def _log_probabilities(
    model: Any, tokens: Tensor, source: Any, begin: int, temperature: float
) -> Tensor:
    """Return log p [rows, time - begin, words] of what comes after `begin` tokens or more.

    Where each position goes through a softmax of its own, those before are not put through it.
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
    """Writes what greedy search writes, in fewer steps of the decoder.

    The models need an encoder, and a decoder that can be given a whole target.
    """

    def __init__(self, models: Any, dictionary: Any, **options: Any) -> None:
        super().__init__(models, dictionary, **options)
        if self.beam_size != 1:
            raise ConfigurationError(
                f"--aggressive writes what greedy search does, and --beam is {self.beam_size}. "
                "Give --beam 1."
            )
        if type(self.search) is not BeamSearch or self.repeat_ngram_blocker is not None:
            raise ConfigurationError(
                "--aggressive is a search of its own: leave out --sampling, --constraints, "
                "--diverse-beam-groups, --diversity-rate, --match-source-len and "
                "--no-repeat-ngram-size."
            )
        if self.lm_model is not None:
            raise ConfigurationError("--aggressive does not go with --lm-path.")

    def _generate(
        self,
        sample: dict[str, Any],
        prefix_tokens: Tensor | None = None,
        constraints: Tensor | None = None,
        bos_token: int | None = None,
    ) -> list[list[dict[str, Any]]]:
        """Return a hypothesis for each sentence of the batch, as fairseq does."""
        if prefix_tokens is not None or constraints is not None:
            raise ConfigurationError(
                "--aggressive goes neither with --prefix-size nor with --constraints."
            )
        source = sample["net_input"]["src_tokens"]
        longest = int(self.max_len_a * source.size(1) + self.max_len_b)
        longest = min(longest, self.max_len - 1)
        if self.min_len > longest:
            raise ConfigurationError(
                f"--min-len is {self.min_len}, and --max-len-a, --max-len-b and the positions of "
                f"the model end targets of this batch after {longest} tokens. Give a lower "
                "--min-len or a higher --max-len-b."
            )
        first = self.eos if bos_token is None else bos_token
        drafts = [
            Draft([token for token in row if token not in (self.pad, self.eos)], first, self.eos)
            for row in source.tolist()
        ]
        encoded = self.model.forward_encoder(sample["net_input"])
        active = drafts
        while active:
            self._extend(active, encoded, longest, source.device)
            left = [row for row, draft in enumerate(active) if not draft.is_done]
            if left and len(left) < len(active):
                rows = torch.tensor(left, device=source.device)
                encoded = self.model.reorder_encoder_out(encoded, rows)
            active = [active[row] for row in left]
        return [[self._hypothesis(draft, source)] for draft in drafts]

    def _extend(
        self, drafts: list[Draft], encoded: list[Any], longest: int, device: torch.device
    ) -> None:
        """Let the decoder read all drafts at once, and each draft go on as far as it is right."""
        given = [draft.tokens[: longest + 1] for draft in drafts]
        width = max(map(len, given))
        padded = [tokens + [self.pad] * (width - len(tokens)) for tokens in given]
        begin = min(len(draft.written) for draft in drafts)
        scores = self._scores(torch.tensor(padded, device=device), encoded, begin, longest)
        best, chosen = scores.max(-1)
        for draft, tokens, *found in zip(
            drafts, given, chosen.tolist(), best.tolist(), strict=True
        ):
            new = slice(len(draft.written) - begin, len(tokens) - begin)
            draft.accept(*(part[new] for part in found))

    def _scores(self, tokens: Tensor, encoded: list[Any], begin: int, longest: int) -> Tensor:
        """Return what is searched for the highest [rows, time - begin, words].

        Args:
            tokens: what the decoder is given [rows, time], padded on the right
            encoded: what each model's encoder made of the sources
            begin: tokens that all rows have written already
            longest: the place where a target must end
        """
        scores = self._log_probabilities(tokens, encoded, begin, self.temperature)
        scores = scores.masked_fill(scores.isnan(), -math.inf)
        scores[..., self.pad] = -math.inf
        scores[..., self.unk] -= self.unk_penalty
        end = max(longest - begin, 0)
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
        """Return the logarithm of the mean of what the models give to each word."""
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
