"""Which edits a token can get at all."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairseq_ssl.data.spans import Ids
from fairseq_ssl.edits.dictionary import EditDictionary


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
