"""From the probabilities of edits to those that are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairseq_ssl.data.spans import Ids
from fairseq_ssl.edits.dictionary import DELETE_ID, KEEP_ID
from fairseq_ssl.errors import ConfigurationError, flag
from fairseq_ssl.generation.possible_edits import PossibleEdits

Numbers = NDArray[np.float32]


class Chosen(NamedTuple):
    """What was chosen for the start and each token of sentences, end to end, each [positions]."""

    labels: Ids
    probabilities: Numbers
    """Of the chosen edits, as the model gave them."""
    kept: Numbers
    """Of keeping the token."""
    errors: Numbers
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
