"""Sentence correction in rounds of edits (PIE), with any `TaggerEngine`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.edits.application import ChosenEdits, EditApplier, Floats, TopEdits, choose_edits
from fairseq_ssl.edits.decoding import DEFAULT, CorrectionSearch
from fairseq_ssl.edits.dictionary import KEEP_ID, EditDictionary
from fairseq_ssl.edits.engine import TaggerEngine
from fairseq_ssl.text.spans import Ids, Spans

MAX_UNKNOWN_WORDS = 500_000
"""Maximum number of cached out-of-vocabulary words. Their tables take about 100 MB."""


class AppliedEdit(NamedTuple):
    """An edit applied to a sentence in one of the rounds."""

    round: int
    """Number of the round, starting at 1."""
    position: int
    """Position in the input of the round. Position 0 is <s>, and 1 is the first token."""
    label: str
    """Name of the edit in the edit dictionary."""
    probability: float
    """Model probability of the edit."""
    origin: int
    """Position, in the first round's input, of the token from which the edited token originates."""
    is_inserted: bool
    """True if the edit inserts tokens after `origin`, or changes an inserted token."""
    next_origin: int | None = None
    """Origin of the next token if the edit is a merge, otherwise None."""

    @property
    def last(self) -> int:
        """Index of the last gap between input tokens that the edit can change.

        Gap 0 precedes token 1. An insertion can change the gap after `origin`, a merge the gap
        after the next token, and any other edit the gap before `origin`.
        """
        if self.next_origin is not None:
            return self.next_origin
        return self.origin - (not self.is_inserted)


@dataclass
class SentenceState:
    """State of a sentence between correction rounds."""

    ids: Ids
    """Current ids, beginning with <s>."""
    scores: Floats
    """For each id, the log-probability of the edit that kept or inserted it."""
    origins: Ids
    """For each id, the input position of its token, or of the token that it was inserted after."""
    inserted: NDArray[np.bool_]
    """True for each id that was inserted after its origin."""
    earlier: set[bytes]
    """Versions of the sentence, as bytes of the ids. If one recurs, correction ends."""
    score: float = 0.0
    """Mean log-probability of the edits in the last round, including keep."""
    rounds: int = 0
    """Number of rounds so far."""
    edits: list[AppliedEdit] = field(default_factory=list)
    """The edits of all rounds."""
    history: list[Ids] = field(default_factory=list)
    """The ids after each round."""


@dataclass(frozen=True)
class CorrectedTokens:
    """A corrected sentence as tokens, with its edits."""

    tokens: tuple[str, ...]
    edits: tuple[AppliedEdit, ...]
    """The edits of all rounds."""


class EditRounds:
    """Callable that corrects sentences in rounds of edits.

    A sentence is finished when a round does not change it or restores an earlier version. With a
    greedy edit dictionary, rounds continue after an earlier version recurs.
    """

    def __init__(
        self,
        engine: TaggerEngine,
        edits: EditDictionary,
        words: Any,
        search: CorrectionSearch,
    ) -> None:
        """Create a corrector from an engine and its dictionaries.

        Args:
            engine: callable that returns the scores of edits.
            edits: dictionary of the edits that the engine scores.
            words: dictionary of the tokens, a `WordIds` or an `OovDictionary`.
            search: options for choosing edits and the number of rounds.
        """
        self.engine = engine
        self.score: Callable[[Spans], TopEdits] = engine
        self.edits = edits
        self.words = words
        self.search = search.or_else(DEFAULT)
        self.applier = EditApplier(edits, words)

    def __call__(self, text: Spans) -> list[SentenceState]:
        """Correct sentences of word ids, each beginning with <s>. Return their final states."""
        states = [_initial_state(ids) for ids in text.split(text.ids)]
        active = np.arange(len(text))
        for index in range(1, 1 + (self.search.iterations or 0)):
            text, changed = self._apply(index, text, [states[row] for row in active])
            if not len(changed):
                break
            active, text = active[changed], text.select(changed)
        return states

    def correct(
        self, sentences: Sequence[Sequence[str]], batch_size: int = 64
    ) -> list[CorrectedTokens]:
        """Correct tokenized sentences in batches of similar length. Keep the input order."""
        ids = self.encode(sentences)
        order = np.argsort(-ids.lengths, kind="stable")
        states: list[Any] = [None] * len(ids)
        for begin in range(0, len(order), batch_size):
            batch = order[begin : begin + batch_size]
            for row, state in zip(batch, self(ids.select(batch)), strict=True):
                states[row] = state
        return [
            CorrectedTokens(tuple(map(self.words.__getitem__, state.ids[1:])), tuple(state.edits))
            for state in states
        ]

    def encode(self, sentences: Sequence[Sequence[str]]) -> Spans:
        """Return the ids of tokenized sentences. Each sentence begins with <s>."""
        index = self.words.index
        rows = [np.array([self.words.bos(), *map(index, tokens)]) for tokens in sentences]
        return Spans.of(rows)

    def forget_unknown(self) -> None:
        """Discard all out-of-vocabulary words if there are more than `MAX_UNKNOWN_WORDS`."""
        if len(self.words.surfaces) > MAX_UNKNOWN_WORDS:
            self.words.forget_unknown()
            self.engine.forget_unknown()
            self.applier = EditApplier(self.edits, self.words)

    def choose(self, text: Spans) -> ChosenEdits:
        """Return the chosen edit at each position. Each sentence in `text` begins with <s>."""
        bias = self.search.keep_bias or 0.0
        candidates = self.applier.candidates(self.score(text), text, bias)
        return choose_edits(candidates, text.starts, self.search)

    def _apply(self, index: int, text: Spans, states: Sequence[SentenceState]) -> tuple[Spans, Ids]:
        """Apply a round to `states`. Return edited sentences and the indices of unfinished ones."""
        chosen = self.choose(text)
        logs = np.log(np.maximum(chosen.probabilities, np.finfo(np.float32).tiny))
        means = np.add.reduceat(logs, text.starts) / text.lengths
        after, origins = self.applier(text, chosen.labels)
        ids, scores = after.split(after.ids), after.split(logs[origins])
        before = [state.origins for state in states]
        is_append = self.applier.is_append[chosen.labels]
        was_inserted = np.concatenate([state.inserted for state in states])
        is_second = np.diff(origins, prepend=-1) == 0
        inserted = after.split(was_inserted[origins] | (is_append[origins] & is_second))
        within = after.split(origins - np.repeat(text.starts, after.lengths))
        for at, state in enumerate(states):
            state.origins, state.inserted = state.origins[within[at]], inserted[at]
            state.ids, state.scores, state.score = ids[at], scores[at], float(means[at])
            state.rounds = index
            state.history.append(state.ids)
        sentence = np.repeat(np.arange(len(text)), text.lengths)
        changes = np.flatnonzero(chosen.labels != KEEP_ID)
        for at in changes.tolist():
            row = int(sentence[at])
            label, probability = self.edits.names[chosen.labels[at]], chosen.probabilities[at]
            position = at - int(text.starts[row])
            where = position, label, float(probability), int(before[row][position])
            is_inserted = bool(is_append[at] | was_inserted[at])
            is_merge = self.applier.is_merge[chosen.labels[at]]
            following = int(before[row][position + 1]) if is_merge else None
            states[row].edits.append(AppliedEdit(index, *where, is_inserted, following))
        unfinished = []
        for row in np.unique(sentence[changes]).tolist():
            version = states[row].ids.tobytes()
            if version not in states[row].earlier:
                states[row].earlier = {version} | (
                    set() if self.edits.greedy else states[row].earlier
                )
                unfinished.append(row)
        return after, np.array(unfinished, np.int64)


def _initial_state(ids: Ids) -> SentenceState:
    scores, inserted = np.zeros(len(ids), np.float32), np.zeros(len(ids), np.bool_)
    return SentenceState(ids, scores, np.arange(len(ids)), inserted, {ids.tobytes()})
