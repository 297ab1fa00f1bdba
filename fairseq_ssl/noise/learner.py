"""Noise that imitates the errors of English learners (PIE, appendix A.3, figure 4)."""

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
from fairseq_ssl.noise.byte_words import WordTable
from fairseq_ssl.noise.default_learner_errors import DEFAULT_ERRORS
from fairseq_ssl.noise.learner_errors import ERROR_KINDS, LearnerErrors, verb_forms
from fairseq_ssl.noise.tokens import Unigrams
from fairseq_ssl.options import option

APPEND, VERB, REPLACE, DELETE, NONE = range(5)
INSTEAD = ((APPEND, NONE), (VERB, REPLACE), (REPLACE, VERB), (VERB, NONE))
"""Pairs of an error kind and its fallback for lines without a suitable word, tried in order."""


@dataclass(frozen=True)
class LearnerNoise:
    """Omit, insert and replace words, and change verb forms, like English learners.

    The number of errors per line and the kind of each error are drawn from the distributions in the
    PIE paper, or from `learner_errors` if `measured` is True. Errors are applied one after another.
    Kinds are named after the correction, as in PIE:

    - append: delete the word at a random position, unless it is the only word in the line
    - delete: insert a word that learners often add, at a random position
    - replace: replace the word at a random position with a word that learners often add
    - verb: replace a random verb with another form of the verb. A line without a verb gets a
      replace error, as in the authors' code.

    The new word of a replace error can be the same as the old word.

    If `listed` is True, positions are restricted as in the authors' code. Append errors then delete
    only words that learners often omit. Replace errors change only words that learners often
    replace, into words that learners write instead. If no word of a line is suitable, an append
    error is skipped, and a replace error becomes a verb error.
    """

    learner_errors: LearnerErrors = DEFAULT_ERRORS
    listed: bool = option(
        False, "omit and replace only words from the learner error counts, as in the PIE code"
    )
    measured: bool = option(
        False, "draw the number and kinds of errors from the learner error counts"
    )
    table: WordTable = field(default_factory=WordTable)

    def __post_init__(self) -> None:
        is_counted = self.learner_errors is not DEFAULT_ERRORS and any(self._counted.errors)
        if self.measured and not (is_counted and any(self._shares)):
            raise UsageError(
                "measured=true needs a file of learner errors that contains at least one error. "
                "Create it with: fairseq-ssl learner-errors"
            )

    def __call__(self, clean: TokenBatch, draws: Random) -> NoisedBatch:
        """Draw the number of errors in each line, then add the errors one after another."""
        errors = self._counted.errors
        number = _sample(errors, draws.lines())
        words = np.array(self.table.strings(clean.tokens), dtype=object)
        noisy = unchanged(TokenBatch(words, clean.lengths))
        for before in range(len(errors) - 1):
            noisy = noisy.then(partial(self._add_error, number > before), draws)
        written, origin = noisy.block.tokens, noisy.origin
        is_new = (origin < 0) | (written != words[origin])
        tokens = clean.tokens[origin]
        tokens[is_new] = self.table.add(written[is_new].tolist())
        return NoisedBatch(TokenBatch(tokens, noisy.block.lengths), origin)

    @property
    def _counted(self) -> LearnerErrors:
        """Learner errors whose counts determine the number and kinds of errors."""
        return self.learner_errors if self.measured else DEFAULT_ERRORS

    @property
    def _shares(self) -> tuple[int, ...]:
        """Counts of the error kinds, in the order of `ERROR_KINDS`."""
        return tuple(self._counted.kinds.get(kind, 0) for kind in ERROR_KINDS)

    @cached_property
    def _spurious(self) -> tuple[NDArray[np.object_], Unigrams]:
        """Words that learners often add, and their unigram distribution."""
        words, unigrams = Unigrams.of(self.learner_errors.deleted)
        return np.array(words, dtype=object), unigrams

    @cached_property
    def _written(self) -> dict[str, tuple[list[str], list[int]]]:
        """Words that learners write instead of each correct word, and their cumulative counts."""
        return {
            word: (list(others), list(accumulate(others.values())))
            for word, others in self.learner_errors.replaced.items()
        }

    @cached_property
    def _fits(self) -> Mapping[int, Callable[[str], Any]]:
        """Predicates that select the words to which an error kind applies.

        Kinds without a predicate apply to all words.
        """
        fits: dict[int, Callable[[str], Any]] = {VERB: verb_forms}
        if self.listed:
            fits[APPEND] = self.learner_errors.missing.__contains__
            fits[REPLACE] = self._written.__contains__
        return fits

    def _add_error(
        self, selected: NDArray[np.bool_], block: TokenBatch, draws: Random
    ) -> NoisedBatch:
        """Add one error to each selected line (loop body in figure 4). Tokens are strings."""
        kind = _sample(self._shares, draws.lines())
        share_of_line, share_of_words = draws.lines(), draws.lines()
        kind[~selected | (block.lengths == 0) | ((kind == APPEND) & (block.lengths == 1))] = NONE
        place = self._choose_positions(block, kind, share_of_line)
        tokens = block.tokens.copy()
        self._rewrite(tokens, place, kind, share_of_words)
        inserted = self._spurious_words(share_of_words[kind == DELETE])
        origin = np.insert(np.arange(len(tokens)), place[kind == DELETE], -1)
        left = np.ones(len(tokens) + 1, dtype=np.bool_)  # the last entry is for origin -1
        left[place[kind == APPEND]] = False
        origin = origin[left[origin]]
        tokens = tokens[origin]
        tokens[origin < 0] = inserted
        lengths = block.lengths + (kind == DELETE) - (kind == APPEND)
        return NoisedBatch(TokenBatch(tokens, lengths), origin)

    def _spurious_words(self, share: NDArray[np.float64]) -> NDArray[np.object_]:
        words, unigrams = self._spurious
        return words[unigrams.at(share)]

    def _choose_positions(
        self, block: TokenBatch, kind: NDArray[np.int64], share: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        """Return the index of the token at which each line gets its error.

        If no token of a line is suitable, the line's entry in `kind` is set to the fallback.
        """
        room = block.lengths + (kind == DELETE)
        place: NDArray[np.int64] = block.ends - block.lengths + (share * room).astype(np.int64)
        settled = kind == DELETE
        for error, instead in INSTEAD:
            lines = (kind == error) & ~settled
            if error not in self._fits:
                settled |= lines
                continue
            chosen = _choose_fitting_token(block, lines, self._fits[error], share)
            has_token = chosen >= 0
            place[has_token] = chosen[has_token]
            settled |= has_token
            kind[lines & ~has_token] = instead
        return place

    def _rewrite(
        self,
        tokens: NDArray[np.object_],
        place: NDArray[np.int64],
        kind: NDArray[np.int64],
        share: NDArray[np.float64],
    ) -> None:
        """Apply verb and replace errors to `tokens` in place."""
        verbs, replaced = kind == VERB, kind == REPLACE
        for at, part in zip(place[verbs].tolist(), share[verbs].tolist(), strict=True):
            forms = verb_forms(tokens[at])
            tokens[at] = forms[int(part * len(forms))]
        if not self.listed:
            tokens[place[replaced]] = self._spurious_words(share[replaced])
            return
        for at, part in zip(place[replaced].tolist(), share[replaced].tolist(), strict=True):
            words, up_to = self._written[tokens[at]]
            tokens[at] = words[bisect_right(up_to, part * up_to[-1], hi=len(words) - 1)]


def _sample(weights: Sequence[float], uniform: NDArray[np.float64]) -> NDArray[np.int64]:
    """Sample indices in proportion to `weights`, one for each uniform number in [0, 1)."""
    up_to = np.cumsum(weights)
    drawn: NDArray[np.int64] = np.searchsorted(up_to[:-1], uniform * up_to[-1], side="right")
    return drawn


def _choose_fitting_token(
    block: TokenBatch,
    lines: NDArray[np.bool_],
    fits: Callable[[str], Any],
    share: NDArray[np.float64],
) -> NDArray[np.int64]:
    """For each line, return the index of a random token among those for which `fits` is true.

    The index is -1 for a line without such a token, and for a line not selected by `lines`.
    """
    at = np.flatnonzero(np.repeat(lines, block.lengths))
    fit = np.fromiter(map(bool, map(fits, block.tokens[at].tolist())), np.bool_, len(at))
    line = np.repeat(np.flatnonzero(lines), block.lengths[lines])
    at, counts = at[fit], np.bincount(line[fit], minlength=len(lines))
    which = np.cumsum(counts) - counts + (share * counts).astype(np.int64)
    chosen = np.full(len(lines), -1)
    chosen[counts > 0] = at[which[counts > 0]]
    return chosen
