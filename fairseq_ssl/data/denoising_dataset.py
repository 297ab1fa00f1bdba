"""A text of ids whose noisy side is made when a batch is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from fairseq.data import LanguagePairDataset
from numpy.typing import NDArray

from fairseq_ssl.data.id_noise import IdNoise, NoisyIds
from fairseq_ssl.data.spans import Ids, Spans
from fairseq_ssl.errors import DataError
from fairseq_ssl.noise.batch import Random

FIXED = 0
"""The epoch of data whose noise stays the same; that of training counts from 1."""


class OnlineDenoisingDataset(LanguagePairDataset):
    """Pairs of noisy and clean text, with noise that is another one in each epoch.

    What a sentence becomes depends on the seed, the epoch and its number alone: not on its
    batch, the process that makes it, or where a training was resumed. Batches are counted by
    the clean text; some noises (direct) can make a source a little longer than its target.
    """

    def __init__(
        self,
        text: Any,
        sizes: NDArray[Any],
        dictionary: Any,
        noise: IdNoise,
        seed: int,
        anew: bool,
        **options: Any,
    ) -> None:
        """Put noise on a text.

        Args:
            text: sentences of ids, each ended by that of </s>
            sizes: how long each is
            dictionary: of both sides
            noise: what is put on
            seed: of the noise
            anew: whether noise changes from epoch to epoch, as it should in training alone
            options: of LanguagePairDataset, about padding and order
        """
        super().__init__(text, sizes, dictionary, text, sizes, dictionary, **options)
        self.noise = noise
        self.seed = seed
        self.anew = anew
        # fairseq's workers live on from epoch to epoch: they are to see when it changes
        self._epoch: torch.Tensor = torch.tensor(FIXED)
        self._epoch.share_memory_()  # type: ignore[no-untyped-call]

    def set_epoch(self, epoch: int) -> None:
        """Go on to the noise of this epoch, here and in every worker."""
        if self.anew:
            self._epoch.fill_(epoch)

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Return the clean sentence; its noise is made with that of its batch."""
        return {"id": index, "target": self.tgt[index]}

    def collater(
        self, samples: Sequence[dict[str, Any]], pad_to_length: dict[str, int] | None = None
    ) -> dict[str, Any]:
        """Make the noise, and lay the batch out as LanguagePairDataset would.

        Its own collater goes through the sentences one by one: two thirds of the time that a
        batch would take.

        Returns:
            a batch of fairseq's, longest sources first, with `changed` [batch, target time]:
            whether noise has hit the word there. False where a sentence ends and on padding.
        """
        if not samples:
            return {}
        numbers = np.array([sample["id"] for sample in samples])
        clean = Spans.of([sample["target"].numpy() for sample in samples])
        noisy = self._noised(clean, numbers)
        order = np.argsort(-noisy.lines.lengths, kind="stable")
        source = noisy.lines.taken(order).with_last(self.eos)
        target = clean.taken(order)
        changed = noisy.changed.taken(order).with_last(False)
        # each sentence ends with eos, so that the one before it, or the last, gives the first id
        before = Spans(np.roll(target.ids, 1), target.lengths)
        lengths = pad_to_length or {"source": 0, "target": 0}
        pad, left = self.tgt_dict.pad(), self.left_pad_target
        to_target = left, lengths["target"], self.pad_to_multiple
        to_source = self.left_pad_source, lengths["source"], self.pad_to_multiple
        return {
            "id": torch.from_numpy(numbers[order]),
            "nsentences": len(samples),
            "ntokens": len(target.ids),
            "net_input": {
                "src_tokens": torch.from_numpy(source.padded(pad, *to_source)),
                "src_lengths": torch.from_numpy(source.lengths),
                "prev_output_tokens": torch.from_numpy(before.padded(pad, *to_target)),
            },
            "target": torch.from_numpy(target.padded(pad, *to_target)),
            "changed": torch.from_numpy(changed.padded(False, *to_target)),
        }

    def _noised(self, clean: Spans, numbers: Ids) -> NoisyIds:
        """Put noise on sentences that end with eos; the noisy ones come without."""
        unended = clean.ids[clean.ends - 1] != self.eos
        if unended.any():
            raise DataError(
                f"Sentence {numbers[np.argmax(unended)]} of the data does not end with the "
                f"end-of-sentence id {self.eos}. Expected what fairseq-preprocess writes."
            )
        draws = Random.of((self.seed, int(self._epoch)), numbers)
        return self.noise(clean.without_last(), draws)
