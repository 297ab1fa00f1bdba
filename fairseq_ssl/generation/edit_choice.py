"""From edit probabilities to edits: which are possible, which are chosen, and their outcome."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairseq_ssl.data.spans import Ids, Spans
from fairseq_ssl.edits.dictionary import DELETE_ID, KEEP_ID, EditDictionary
from fairseq_ssl.errors import ConfigurationError, flag


class PossibleEdits:
    """Rules out edits that can not be made.

    The start of a sentence can only be kept or appended to, and a transform needs a word that it
    fits, known to the model or not. Each word is looked up once.
    """

    def __init__(self, edits: EditDictionary, dictionary: Any) -> None:
        """Make it for a dictionary of edits and one of tokens, whose own symbols have no form."""
        self.edits = edits
        self.dictionary = dictionary
        self.first = edits.first_transform
        self.not_at_start = torch.tensor([not label.kept for label in edits.labels])
        self.is_known = np.zeros(len(dictionary), np.bool_)
        self.is_known[: dictionary.nspecial] = True
        self.unfit = torch.ones(len(dictionary), len(edits.labels) - self.first, dtype=torch.bool)

    def rule_out(self, probabilities: Tensor, ids: Ids, starts: Ids) -> None:
        """Give impossible edits minus infinity, in place; the others are left as they are.

        Args:
            probabilities: [positions, labels]
            ids: of the tokens [positions]
            starts: which positions are the start of a sentence [sentences]
        """
        device = probabilities.device
        if self.unfit.size(1):
            self._look_up(ids, device)
            unfit = self.unfit[torch.from_numpy(ids).to(device)]
            probabilities[:, self.first :].masked_fill_(unfit, -torch.inf)
        self.not_at_start = self.not_at_start.to(device)
        at = torch.from_numpy(starts).to(device)
        probabilities[at] = probabilities[at].masked_fill(self.not_at_start, -torch.inf)

    def _look_up(self, ids: Ids, device: torch.device) -> None:
        """Fill in the rows of these tokens where they are missing."""
        self.unfit = self.unfit.to(device)
        missing = int(ids.max(initial=0)) + 1 - len(self.is_known)
        if missing > 0:
            missing = max(missing, len(self.is_known))  # so that few growths are enough
            self.is_known = np.pad(self.is_known, (0, missing))
            self.unfit = torch.cat([self.unfit, torch.ones_like(self.unfit[:1]).repeat(missing, 1)])
        new = np.unique(ids[~self.is_known[ids]])
        if not len(new):
            return
        rows = np.ones((len(new), self.unfit.size(1)), np.bool_)
        for row, token in zip(rows, new.tolist(), strict=True):
            row[np.subtract(self.edits.possible_transforms(self.dictionary[token]), self.first)] = 0
        self.unfit[torch.from_numpy(new).to(device)] = torch.from_numpy(rows).to(device)
        self.is_known[new] = True


class Edited(NamedTuple):
    """Sentences after their edits."""

    text: Spans
    """Each with its start first."""
    origins: Ids
    """For each of its ids, the position before whose edit kept or made it."""


class EditedIds:
    """Does with ids what `text.edits.application.edited` does with tokens."""

    def __init__(self, edits: EditDictionary, dictionary: Any) -> None:
        """Make it for a dictionary of edits and one of tokens, which gives new words ids."""
        self.edits = edits
        self.dictionary = dictionary
        self.first_transform = edits.first_transform
        labels = edits.labels
        self.own = np.array([label.kept or label.transform is not None for label in labels], int)
        self.put_in = np.array([len(label.gram) for label in labels])
        self.grams = np.zeros((len(labels), self.put_in.max(initial=0)), np.int64)
        for row, label in zip(self.grams, labels, strict=True):
            row[: len(label.gram)] = [dictionary.index(token) for token in label.gram]
        self.transformed: dict[tuple[int, int], int] = {}

    def __call__(self, text: Spans, labels: Ids) -> Edited:
        """Carry out the edits.

        Args:
            text: sentences, each with its start first
            labels: of all their positions; each fits its token
        """
        own = self.own[labels]
        counts = own + self.put_in[labels]
        ends = np.cumsum(counts)
        origins = np.repeat(np.arange(len(labels)), counts)
        ids = text.ids[origins]
        for at in np.flatnonzero(labels >= self.first_transform).tolist():
            ids[ends[at] - 1] = self._transformed(int(text.ids[at]), int(labels[at]))
        with_gram = np.flatnonzero(self.put_in[labels])
        for place in range(self.grams.shape[1]):
            some = with_gram[self.put_in[labels[with_gram]] > place]
            ids[ends[some] - counts[some] + own[some] + place] = self.grams[labels[some], place]
        return Edited(Spans(ids, np.add.reduceat(counts, text.starts)), origins)

    def _transformed(self, token: int, label: int) -> int:
        found = self.transformed.get((token, label))
        if found is None:
            (word,) = self.edits.labels[label].edited(self.dictionary[token])
            found = self.transformed[token, label] = int(self.dictionary.index(word))
        return found


EditScoreArray = NDArray[np.float32]


class Chosen(NamedTuple):
    """What was chosen for the start and each token of sentences, end to end, each [positions]."""

    labels: Ids
    probabilities: EditScoreArray
    """Of the chosen edits, as the model gave them."""
    kept: EditScoreArray
    """Of keeping the token."""
    errors: EditScoreArray
    """That the token is to get any edit."""


@dataclass(frozen=True)
class EditChoice:
    """Takes the likeliest edit of each token, unless another rule is asked for."""

    keep_bias: float = 0.0
    """What is added to the probability of keep before the likeliest is taken, -1 to 1."""
    delete_bias: float = 0.0
    """The same for delete."""
    min_confidence: float = 0.0
    """A less likely edit is not made; the token is kept instead."""
    min_sentence_confidence: float = 0.0
    """A sentence is left alone where no token has an error with this probability."""

    def __post_init__(self) -> None:
        for name, least in (
            *(("keep_bias", -1), ("delete_bias", -1)),
            *(("min_confidence", 0), ("min_sentence_confidence", 0)),
        ):
            value = getattr(self, name)
            if not least <= value <= 1:
                raise ConfigurationError(
                    f"{flag(f'edit_{name}')} is {value}; expected {least} to 1."
                )

    def choose(
        self,
        probabilities: Tensor,
        errors: Tensor,
        possible: PossibleEdits,
        ids: Ids,
        starts: Ids,
    ) -> Tensor:
        """Choose an edit for each position; what the sentences are is not yet looked at.

        The biases and the choice need no sum of 1: what is impossible is left out, and the others
        keep their probabilities.

        Args:
            probabilities: [positions, labels]; changed in place
            errors: [positions]
            possible: what rules out edits
            ids: of the tokens [positions]
            starts: which positions are the start of a sentence

        Returns:
            The columns of `Chosen`, all as numbers [4, positions].
        """
        plain = probabilities[:, : DELETE_ID + 1].clone()
        probabilities[:, KEEP_ID] += self.keep_bias
        probabilities[:, DELETE_ID] += self.delete_bias
        possible.rule_out(probabilities, ids, starts)
        labels = probabilities.argmax(-1, keepdim=True)
        probabilities[:, : DELETE_ID + 1] = plain
        found = probabilities.gather(1, labels)
        labels = labels.masked_fill(found < self.min_confidence, KEEP_ID)
        found = probabilities.gather(1, labels)
        columns = [labels.to(found.dtype), found, plain[:, :1], errors.unsqueeze(1)]
        return torch.cat(columns, dim=1).T

    def leave_alone(self, columns: NDArray[Any], starts: Ids) -> Chosen:
        """Keep all of the sentences in which an error is not likely enough.

        Args:
            columns: of all positions, what `choose` returned [4, positions]
            starts: where each sentence starts
        """
        labels, chosen = columns[0].astype(np.int64), columns[1]
        if self.min_sentence_confidence > 0:
            likeliest = np.maximum.reduceat(columns[3], starts)
            lengths = np.diff(starts, append=len(labels))
            alone = np.repeat(likeliest < self.min_sentence_confidence, lengths)
            labels[alone] = KEEP_ID
            chosen = np.where(alone, columns[2], chosen)
        return Chosen(labels, chosen, columns[2], columns[3])
