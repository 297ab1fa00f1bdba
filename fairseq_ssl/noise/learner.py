"""LearnerNoise: errors as learners of English make them (PIE, appendix A.3, figure 4)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.errors import UsageError
from fairseq_ssl.noise.batch import NoisedBatch, Random, TokenBatch, unchanged
from fairseq_ssl.noise.default_learner_errors import DEFAULT_ERRORS
from fairseq_ssl.noise.learner_errors import ERROR_KINDS, LearnerErrors, VerbForms
from fairseq_ssl.noise.tokens import Unigrams
from fairseq_ssl.text.specs import option

APPEND, VERB, REPLACE, DELETE, NONE = range(5)
INSTEAD = ((APPEND, NONE), (VERB, REPLACE), (REPLACE, VERB), (VERB, NONE))
"""What a line gets that has no word for an error, in the order in which they are tried."""


@dataclass(frozen=True)
class LearnerNoise:
    """A few errors in each line: words left out, put in or replaced, verbs in another form.

    How many is drawn from `errors`, the kind of each from `shares`; the second error befalls
    what the first has left. An append error (what is left out has to be appended) drops the
    word at a random place, but not the last that a line has. A delete error puts a word
    that learners often write too much before, between or after the words. A replace error
    does both: such a word stands for the one at a random place. A verb error gives another
    form to one of the words that can be a verb, each as likely; a line without any gets a
    replace error in its place, as in the code of the paper's authors. That a word is drawn
    which the line has there anyway is not prevented.

    `listed` is what that code does where the paper speaks of random places: only words that
    learners often leave out are dropped, and only words that they often replace are, by
    what they wrote. A line without the first loses nothing; one without the second gets a
    verb error, once.
    """

    learner_errors: LearnerErrors = DEFAULT_ERRORS
    listed: bool = option(
        False, "errors only in words of the learner word list, not in any; true or false"
    )
    measured: bool = option(
        False, "number and kinds of errors as in the learner word list, not the paper's"
    )
    errors: tuple[float, ...] = (0.05, 0.07, 0.25, 0.35, 0.28)
    """The chance that a line has 0, 1, 2, ... errors."""
    shares: tuple[float, ...] = (0.30, 0.25, 0.25, 0.20)
    """How often each is one of append, verb, replace and delete."""
    forms: VerbForms = field(init=False, repr=False, compare=False, default_factory=VerbForms)

    def __post_init__(self) -> None:
        _check("numbers of errors", self.errors, None)
        _check("kinds of errors", self.shares, 4)
        if self.measured and not (any(self.learner_errors.errors) and self._kinds_measured):
            raise UsageError(
                "The learner words hold no number or no kind of errors to go by. Count them in "
                "a corpus with errors: fairseq-ssl learner-errors"
            )

    def __call__(self, clean: TokenBatch, draws: Random) -> NoisedBatch:
        """Give each line its errors, one after another."""
        errors = self.learner_errors.errors if self.measured else self.errors
        shares = self._kinds_measured if self.measured else self.shares
        number = _drawn(errors, draws.lines())
        noisy = unchanged(clean)
        for before in range(len(errors) - 1):
            noisy = noisy.then(partial(self._one_more, number > before, shares), draws)
        return noisy

    @property
    def _kinds_measured(self) -> tuple[int, ...]:
        return tuple(self.learner_errors.kinds[kind] for kind in ERROR_KINDS)

    @cached_property
    def _spurious(self) -> Unigrams:
        return Unigrams.of(self.learner_errors.deleted)

    @cached_property
    def _written(self) -> dict[str, tuple[list[str], list[int]]]:
        """What is written for a word, and the sums of how often."""
        return {
            word: (list(others), list(accumulate(others.values())))
            for word, others in self.learner_errors.replaced.items()
        }

    @cached_property
    def _fits(self) -> Mapping[int, Callable[[str], Any]]:
        """Tell which words an error can befall; for what is not here, all."""
        fits: dict[int, Callable[[str], Any]] = {VERB: self.forms.__getitem__}
        if self.listed:
            fits[APPEND] = self.learner_errors.missing.__contains__
            fits[REPLACE] = self._written.__contains__
        return fits

    def _one_more(
        self, erring: NDArray[np.bool_], shares: Sequence[float], block: TokenBatch, draws: Random
    ) -> NoisedBatch:
        """Introduce an error into each line that errs (figure 4, inside the loop)."""
        kind = _drawn(shares, draws.lines())
        share_of_line, share_of_words = draws.lines(), draws.lines()
        kind[~erring | (block.lengths == 0) | ((kind == APPEND) & (block.lengths == 1))] = NONE
        place = self._places(block, kind, share_of_line)
        tokens = block.tokens.copy()
        self._rewrite(tokens, place, kind, share_of_words)
        put_in = self._spurious.at(share_of_words[kind == DELETE])
        origin = np.insert(np.arange(len(tokens)), place[kind == DELETE], -1)
        left = np.ones(len(tokens) + 1, dtype=np.bool_)  # its last stands for what is put in
        left[place[kind == APPEND]] = False
        origin = origin[left[origin]]
        tokens = tokens[origin]
        tokens[origin < 0] = put_in
        lengths = block.lengths + (kind == DELETE) - (kind == APPEND)
        return NoisedBatch(TokenBatch(tokens, lengths), origin)

    def _places(
        self, block: TokenBatch, kind: NDArray[np.int64], share: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        """Choose the token of each line's error; changes `kind` where the line has none for it."""
        room = block.lengths + (kind == DELETE)
        place: NDArray[np.int64] = block.ends - block.lengths + (share * room).astype(np.int64)
        settled = kind == DELETE
        for error, instead in INSTEAD:
            lines = (kind == error) & ~settled
            if error not in self._fits:
                settled |= lines
                continue
            found = _one_that_fits(block, lines, self._fits[error], share)
            here = found >= 0
            place[here] = found[here]
            settled |= here
            kind[lines & ~here] = instead
        return place

    def _rewrite(
        self,
        tokens: NDArray[np.object_],
        place: NDArray[np.int64],
        kind: NDArray[np.int64],
        share: NDArray[np.float64],
    ) -> None:
        """Put other words in the places of verb and replace errors."""
        verbs, replaced = kind == VERB, kind == REPLACE
        for at, part in zip(place[verbs].tolist(), share[verbs].tolist(), strict=True):
            forms = self.forms[tokens[at]]
            tokens[at] = forms[int(part * len(forms))]
        if not self.listed:
            tokens[place[replaced]] = self._spurious.at(share[replaced])
            return
        for at, part in zip(place[replaced].tolist(), share[replaced].tolist(), strict=True):
            words, up_to = self._written[tokens[at]]
            tokens[at] = words[bisect_right(up_to, part * up_to[-1], hi=len(words) - 1)]


def _check(what: str, chances: Sequence[float], length: int | None) -> None:
    wanted = length or "one or more"
    if (
        len(chances) != (length or max(1, len(chances)))
        or not all(0 <= chance <= 1 for chance in chances)
        or abs(sum(chances) - 1) > 1e-6
    ):
        raise UsageError(
            f"The chances of {what} are {list(chances)}; expected {wanted} from 0 to 1 with a sum "
            "of 1."
        )


def _drawn(weights: Sequence[float], uniform: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return for each number in [0, 1) one of 0, 1, ..., as often as it weighs."""
    up_to = np.cumsum(weights)
    drawn: NDArray[np.int64] = np.searchsorted(up_to[:-1], uniform * up_to[-1], side="right")
    return drawn


def _one_that_fits(
    block: TokenBatch,
    lines: NDArray[np.bool_],
    fits: Callable[[str], Any],
    share: NDArray[np.float64],
) -> NDArray[np.int64]:
    """Choose of each of these lines one of the tokens that fit; -1 elsewhere."""
    at = np.flatnonzero(np.repeat(lines, block.lengths))
    fit = np.fromiter(map(bool, map(fits, block.tokens[at].tolist())), np.bool_, len(at))
    line = np.repeat(np.flatnonzero(lines), block.lengths[lines])
    at, counts = at[fit], np.bincount(line[fit], minlength=len(lines))
    chosen = np.cumsum(counts) - counts + (share * counts).astype(np.int64)
    found = np.full(len(lines), -1)
    found[counts > 0] = at[chosen[counts > 0]]
    return found
