"""Choice of edits from model scores, and application of edits to sentences (PIE)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.edits.decoding import CorrectionSearch
from fairseq_ssl.edits.dictionary import KEEP_ID, EditDictionary
from fairseq_ssl.text.spans import Ids, Spans

Floats = NDArray[np.float32]


class TopEdits(NamedTuple):
    """Model scores at each position. The positions of a sentence are <s> and its tokens."""

    kept: Floats
    """Probability of keep, [positions]."""
    errors: Floats
    """Probability of an error at the position, [positions]."""
    labels: Ids
    """Ids of the most probable edits besides keep, most probable first, [positions, k]."""
    probabilities: Floats
    """Probabilities of the edits in `labels`, [positions, k]."""


class EditCandidates(NamedTuple):
    """The most probable possible edit at each position. All fields have the shape [positions]."""

    kept: Floats
    """Probability of keep."""
    errors: Floats
    """Probability of an error at the position."""
    labels: Ids
    """Id of the most probable possible edit, or `KEEP_ID` if no edit is possible."""
    probabilities: Floats
    """Probability of the edit in `labels`, or 0 if no edit is possible."""


class ChosenEdits(NamedTuple):
    """Chosen edits of concatenated sentences. Both fields have the shape [positions]."""

    labels: Ids
    """Id of the chosen edit, or `KEEP_ID`."""
    probabilities: Floats
    """Model probability of the chosen edit."""


class EditedText(NamedTuple):
    """Sentences after a correction round."""

    text: Spans
    """The sentences, each beginning with <s>."""
    origins: Ids
    """For each id, the position in the input whose edit kept or inserted it, [ids]."""


def choose_edits(candidates: EditCandidates, starts: Ids, search: CorrectionSearch) -> ChosenEdits:
    """Choose between keep and the candidate at each position, by default the more probable one.

    Args:
        candidates: most probable possible edit at each position, with model scores.
        starts: index of the first position of each sentence, [sentences].
        search: keep bias and minimum probabilities.
    """
    probabilities = candidates.probabilities
    is_edit = probabilities > candidates.kept + (search.keep_bias or 0)
    is_edit &= (candidates.labels != KEEP_ID) & (probabilities >= (search.min_confidence or 0))
    if search.min_sentence_confidence:
        highest = np.maximum.reduceat(candidates.errors, starts)
        is_likely = highest >= search.min_sentence_confidence
        is_edit &= np.repeat(is_likely, np.diff(starts, append=len(is_edit)))
    labels = np.where(is_edit, candidates.labels, KEEP_ID)
    return ChosenEdits(labels, np.where(is_edit, probabilities, candidates.kept))


class EditApplier:
    """Callable that applies edits from an edit dictionary to sentences of word ids."""

    def __init__(self, edits: EditDictionary, words: Any) -> None:
        """Build lookup tables for an edit dictionary.

        Args:
            edits: dictionary that defines the edit ids.
            words: dictionary to which new words are added, a `WordIds` or an `OovDictionary`.
        """
        self.edits = edits
        self.words = words
        labels = edits.labels
        self.own = np.array([label.kept or label.transform is not None for label in labels], int)
        self.inserted = np.array([len(label.gram) for label in labels])
        self.is_append = np.array([label.kept and bool(label.gram) for label in labels])
        self.is_merge = np.array([label.merge is not None for label in labels])
        self.is_transform = np.arange(len(labels)) >= edits.first_transform
        self.grams = np.zeros((len(labels), self.inserted.max(initial=0)), np.int64)
        for row, label in zip(self.grams, labels, strict=True):
            row[: len(label.gram)] = [words.index(token) for token in label.gram]
        self._transformed: dict[tuple[int, int], list[int] | None] = {}

    def candidates(self, top: TopEdits, text: Spans, min_bias: float) -> EditCandidates:
        """Return the most probable possible edit at each position.

        A transform is possible if it changes the word. A merge is possible except at the last word
        of a sentence. At <s>, only insertions are possible. With a greedy edit dictionary, only the
        most probable edit is considered.

        Args:
            top: model scores of the most probable edits.
            text: sentences, each beginning with <s>.
            min_bias: minimum keep bias; a position has no candidate unless its most probable edit
                is more probable than keep by more than this bias.
        """
        labels, probabilities = np.zeros_like(text.ids), np.zeros_like(top.kept)
        is_start, is_end = np.zeros((2, len(labels)), np.bool_)
        is_start[text.starts], is_end[text.ends - 1] = True, True
        rows = np.flatnonzero(top.probabilities[:, 0] > top.kept + min_bias)
        for column in range(1 if self.edits.greedy else top.labels.shape[1]):
            label = top.labels[rows, column]
            is_possible = self.is_append[label] | ~is_start[rows]
            is_possible &= ~(self.is_merge[label] & is_end[rows])
            for at in np.flatnonzero(self.is_transform[label] & is_possible).tolist():
                transformed = self._transform(int(label[at]), int(text.ids[rows[at]]))
                is_possible[at] = transformed is not None
            chosen = rows[is_possible]
            labels[chosen] = label[is_possible]
            probabilities[chosen] = top.probabilities[chosen, column]
            rows = rows[~is_possible]
        return EditCandidates(top.kept, top.errors, labels, probabilities)

    def __call__(self, text: Spans, labels: Ids) -> EditedText:
        """Apply one edit at each position.

        Args:
            text: sentences, each beginning with <s>.
            labels: ids of possible edits, [positions].
        """
        own = self.own[labels]
        counts = own + self.inserted[labels]
        transformed = np.flatnonzero(self.is_transform[labels])
        pairs = zip(labels[transformed].tolist(), text.ids[transformed].tolist(), strict=True)
        results = [self._transform(*pair) or [] for pair in pairs]
        counts[transformed] = [len(result) for result in results]
        ends = np.cumsum(counts)
        origins = np.repeat(np.arange(len(labels)), counts)
        ids = text.ids[origins]
        for end, result in zip(ends[transformed].tolist(), results, strict=True):
            ids[end - len(result) : end] = result
        with_gram = np.flatnonzero(self.inserted[labels])
        for index in range(self.grams.shape[1]):
            longer = with_gram[self.inserted[labels[with_gram]] > index]
            ids[ends[longer] - counts[longer] + own[longer] + index] = self.grams[
                labels[longer], index
            ]
        edited = EditedText(Spans(ids, np.add.reduceat(counts, text.starts)), origins)
        merges = np.flatnonzero(self.is_merge[labels])
        return self._merge(edited, labels[merges], ends[merges]) if len(merges) else edited

    def _merge(self, edited: EditedText, labels: Ids, positions: Ids) -> EditedText:
        """Merge or swap each token at `positions` with the token before it.

        Args:
            edited: sentences after all edits except merges.
            labels: ids of the merges, [merges].
            positions: index in `edited` of the second token of each merge, [merges]. An index
                at the end of a sentence is skipped.
        """
        ids, lengths = edited.text.ids.copy(), edited.text.lengths.copy()
        is_kept = np.ones(len(ids), np.bool_)
        sentences = np.searchsorted(edited.text.ends, positions - 1, "right")
        places = zip(labels.tolist(), positions.tolist(), sentences.tolist(), strict=True)
        for label, position, sentence in places:
            if position == edited.text.ends[sentence]:
                continue
            previous = int(np.flatnonzero(is_kept[:position])[-1])
            merge = self.edits.labels[label].merge
            assert merge is not None
            merged = merge.merged(*(self.words[int(ids[at])] for at in (previous, position)))
            ids[[previous, position][: len(merged)]] = [self.words.index(word) for word in merged]
            is_kept[position] = len(merged) == 2
            lengths[sentence] -= len(merged) == 1
        return EditedText(Spans(ids[is_kept], lengths), edited.origins[is_kept])

    def _transform(self, label: int, word: int) -> list[int] | None:
        """Return the ids of the changed word or of its parts, or None if it cannot be changed."""
        key = label, word
        if key not in self._transformed:
            number = label - self.edits.first_transform
            changed = self.edits.transforms.apply(number, self.words[word])
            self._transformed[key] = (
                None if changed is None else [self.words.index(part) for part in changed.split(" ")]
            )
        return self._transformed[key]
