"""Choice of edits from their probabilities, and their application to ids (PIE)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairseq_ssl.data.spans import Ids, Spans
from fairseq_ssl.edits.decoding import CorrectionSearch
from fairseq_ssl.edits.dictionary import DELETE_ID, KEEP_ID, EditDictionary


class PossibleEdits:
    """A mask of the edits that cannot be applied to a token.

    At the start of a sentence, tokens can only be appended. A transform applies to some words only,
    which may be out of vocabulary. The possible transforms of each word are cached.
    """

    def __init__(self, edits: EditDictionary, dictionary: Any) -> None:
        """Build the mask of an edit dictionary for a token dictionary."""
        self.edits = edits
        self.dictionary = dictionary
        self.first = edits.first_transform
        self.not_at_start = torch.tensor([not label.kept for label in edits.labels])
        self.is_known = np.zeros(len(dictionary), np.bool_)
        self.is_known[: dictionary.nspecial] = True
        self.impossible = torch.ones(
            len(dictionary), len(edits.labels) - self.first, dtype=torch.bool
        )

    def mask_impossible(self, probabilities: Tensor, ids: Ids, starts: Ids) -> None:
        """Set the probabilities of impossible edits to minus infinity, in place.

        Args:
            probabilities: [positions, labels].
            ids: [positions], token ids.
            starts: [sentences], positions of sentence starts.
        """
        device = probabilities.device
        if self.impossible.size(1):
            self._add_tokens(ids, device)
            impossible = self.impossible[torch.from_numpy(ids).to(device)]
            probabilities[:, self.first :].masked_fill_(impossible, -torch.inf)
        self.not_at_start = self.not_at_start.to(device)
        at = torch.from_numpy(starts).to(device)
        probabilities[at] = probabilities[at].masked_fill(self.not_at_start, -torch.inf)

    def _add_tokens(self, ids: Ids, device: torch.device) -> None:
        """Compute the possible transforms of tokens that are not cached yet."""
        self.impossible = self.impossible.to(device)
        missing = int(ids.max(initial=0)) + 1 - len(self.is_known)
        if missing > 0:
            missing = max(missing, len(self.is_known))  # at least double the size
            self.is_known = np.pad(self.is_known, (0, missing))
            rows = torch.ones_like(self.impossible[:1]).repeat(missing, 1)
            self.impossible = torch.cat([self.impossible, rows])
        new = np.unique(ids[~self.is_known[ids]])
        if not len(new):
            return
        mask = np.ones((len(new), self.impossible.size(1)), np.bool_)
        for row, token in zip(mask, new.tolist(), strict=True):
            labels = self.edits.possible_transforms(self.dictionary[token])
            row[np.array(labels, np.int64) - self.first] = 0
        self.impossible[torch.from_numpy(new).to(device)] = torch.from_numpy(mask).to(device)
        self.is_known[new] = True


EditScoreArray = NDArray[np.float32]


class ChosenEdits(NamedTuple):
    """Chosen edits of sentences, concatenated, each [positions]. Positions are <s> and tokens."""

    labels: Ids
    probabilities: EditScoreArray
    """The model's probability of the chosen edit."""


class Edited(NamedTuple):
    """Sentences after a round of edits."""

    text: Spans
    """The sentences, each with <s>."""
    origins: Ids
    """For each id, the position in the input whose edit kept or inserted it."""


class EditedIds:
    """Application of edits to token ids."""

    def __init__(self, edits: EditDictionary, dictionary: Any) -> None:
        """Build the tables of an edit dictionary. `dictionary` must assign ids to new words."""
        self.edits = edits
        self.dictionary = dictionary
        self.first_transform = edits.first_transform
        labels = edits.labels
        self.own = np.array([label.kept or label.transform is not None for label in labels], int)
        self.inserted = np.array([len(label.gram) for label in labels])
        self.is_append = np.array([label.kept and bool(label.gram) for label in labels])
        self.grams = np.zeros((len(labels), self.inserted.max(initial=0)), np.int64)
        for row, label in zip(self.grams, labels, strict=True):
            row[: len(label.gram)] = [dictionary.index(token) for token in label.gram]
        self.is_merge = np.array([label.merge is not None for label in labels])
        self.transformed: dict[tuple[int, ...], list[int]] = {}

    def resolve_merges(self, chosen: ChosenEdits, kept: EditScoreArray, text: Spans) -> ChosenEdits:
        """Keep the tokens whose merge is impossible, and the tokens merged with the token before.

        A merge is impossible at the end of a sentence, and after a token that is itself a merge.

        Args:
            chosen: the edits.
            kept: [positions], probabilities of keep.
            text: the sentences, each with <s>.
        """
        merges = np.flatnonzero(self.is_merge[chosen.labels])
        if not len(merges):
            return chosen
        labels, probabilities = chosen.labels.copy(), chosen.probabilities.copy()
        last = np.isin(merges, text.ends - 1)
        previous = -2
        for at, is_last in zip(merges.tolist(), last.tolist(), strict=True):
            is_possible = not is_last and at != previous + 1
            unchanged = at + 1 if is_possible else at
            labels[unchanged], probabilities[unchanged] = KEEP_ID, kept[unchanged]
            previous = at if is_possible else -2
        return chosen._replace(labels=labels, probabilities=probabilities)

    def __call__(self, text: Spans, labels: Ids) -> Edited:
        """Return the sentences after one edit at each position.

        Args:
            text: sentences, each with <s>.
            labels: [positions], indices of edits that can be applied, after `resolve_merges`.
        """
        own = self.own[labels]
        counts = own + self.inserted[labels]
        transformed = np.flatnonzero(labels >= self.first_transform)
        after = np.append(text.ids, self.dictionary.eos())[transformed + 1]
        results = [
            self._transform(label, *words)
            for label, *words in zip(
                *(array.tolist() for array in (labels[transformed], text.ids[transformed], after)),
                strict=True,
            )
        ]
        counts[transformed] = [len(result) for result in results]
        counts[transformed[self.is_merge[labels[transformed]]] + 1] = 0
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
        return Edited(Spans(ids, np.add.reduceat(counts, text.starts)), origins)

    def _transform(self, label: int, token: int, following: int) -> list[int]:
        """Return the ids that replace a token, and for a merge the next token. Cache the result."""
        merge = self.edits.labels[label].merge
        key = (label, token) if merge is None else (label, token, following)
        result = self.transformed.get(key)
        if result is None:
            word = self.dictionary[token]
            words = (
                self.edits.labels[label].edited(word)
                if merge is None
                else merge.merged(word, self.dictionary[following])
            )
            result = self.transformed[key] = [int(self.dictionary.index(word)) for word in words]
        return result


class BestEdits(NamedTuple):
    """The best edits without keep, [positions] each."""

    labels: Ids
    probabilities: EditScoreArray
    is_preferred: NDArray[np.bool_]
    """True for edits that are better than keep."""


class EditCandidates(NamedTuple):
    """The probabilities on which the choice of edits depends, [positions] each.

    Positions are <s> and tokens.
    """

    kept: EditScoreArray
    """Probability of keep."""
    deleted: EditScoreArray
    """Probability of delete, or minus infinity at the start of a sentence."""
    other: EditScoreArray
    """Highest probability of the other possible edits, or minus infinity."""
    other_labels: Ids
    """The edit with the probability `other`."""
    errors: EditScoreArray
    """Probability that there is an edit."""

    def best_edits(self, keep_bias: float, delete_bias: float) -> BestEdits:
        """Return the best edit of each position, and whether it is better than keep.

        The biases are added to the probabilities of keep and delete. The returned probabilities
        are those without bias. Of equal ones, keep precedes delete, and delete the other edits.
        """
        deleted = self.deleted + delete_bias
        is_delete = deleted >= self.other
        return BestEdits(
            np.where(is_delete, DELETE_ID, self.other_labels),
            np.where(is_delete, self.deleted, self.other),
            np.where(is_delete, deleted, self.other) > self.kept + keep_bias,
        )


def best_candidates(
    probabilities: Tensor, errors: Tensor, possible: PossibleEdits, ids: Ids, starts: Ids
) -> Tensor:
    """Return the probabilities of keep, of delete, and of the most probable other edit.

    Impossible edits are excluded. The other probabilities are not renormalized.

    Args:
        probabilities: [positions, labels], changed in place.
        errors: [positions], probabilities that there is an edit.
        possible: sets the probabilities of impossible edits to minus infinity.
        ids: [positions], token ids.
        starts: [sentences], positions of sentence starts.

    Returns:
        the fields of `EditCandidates` as one tensor [5, positions], for one transfer to the CPU
    """
    possible.mask_impossible(probabilities, ids, starts)
    own = probabilities[:, : DELETE_ID + 1].T.clone()
    probabilities[:, : DELETE_ID + 1] = -torch.inf
    other, labels = probabilities.max(-1)
    return torch.stack([*own, other, labels.to(other.dtype), errors])


def choose_edits(candidates: EditCandidates, starts: Ids, search: CorrectionSearch) -> ChosenEdits:
    """Choose an edit for each position, by default the most probable one.

    Args:
        candidates: the probabilities.
        starts: [sentences], positions of sentence starts.
        search: biases and minimum probabilities.
    """
    best = candidates.best_edits(search.keep_bias, search.delete_bias)
    is_edit = best.is_preferred & (best.probabilities >= search.min_confidence)
    if search.min_sentence_confidence > 0:
        highest = np.maximum.reduceat(candidates.errors, starts)
        is_likely = highest >= search.min_sentence_confidence
        is_edit &= np.repeat(is_likely, np.diff(starts, append=len(is_edit)))
    labels = np.where(is_edit, best.labels, KEEP_ID)
    return ChosenEdits(labels, np.where(is_edit, best.probabilities, candidates.kept))
