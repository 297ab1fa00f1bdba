"""A dataset that adds noise to its sources when a batch is built."""

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

FIXED_EPOCH = 0
"""The epoch that seeds noise outside training. Training epochs start at 1."""


class OnlineDenoisingDataset(LanguagePairDataset):
    """Pairs of noisy source and clean target, with new noise in each epoch.

    The noise of a sentence depends only on the seed, the epoch and the sentence's index, not on
    its batch, the worker process or resumption. Batch sizes are computed from the clean text.
    Some noises (direct) can make a source slightly longer than its target.
    """

    def __init__(
        self,
        text: Any,
        sizes: NDArray[Any],
        dictionary: Any,
        noise: IdNoise,
        seed: int,
        renew: bool,
        **options: Any,
    ) -> None:
        """Add noise to a text.

        Args:
            text: sentences of ids with </s> at the end.
            sizes: the length of each sentence.
            dictionary: the dictionary of both sides.
            noise: the noise to add.
            seed: seed of the noise.
            renew: whether the noise changes with the epoch. Set it for training only.
            options: padding and order options of LanguagePairDataset.
        """
        super().__init__(text, sizes, dictionary, text, sizes, dictionary, **options)
        self.noise = noise
        self.seed = seed
        self.renew = renew
        # fairseq keeps its workers over epochs. Shared memory lets them see a new epoch.
        self._epoch: torch.Tensor = torch.tensor(FIXED_EPOCH)
        self._epoch.share_memory_()  # type: ignore[no-untyped-call]

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the noise, in this process and in all workers."""
        if self.renew:
            self._epoch.fill_(epoch)

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Return the clean sentence. `collater` adds noise to the whole batch."""
        return {"id": index, "target": self.tgt[index]}

    def collater(
        self, samples: Sequence[dict[str, Any]], pad_to_length: dict[str, int] | None = None
    ) -> dict[str, Any]:
        """Add noise and return a batch in the format of LanguagePairDataset.

        The collater of LanguagePairDataset would process sentences one by one and take two thirds
        of the time of a batch.

        Returns:
            a batch of fairseq, longest sources first, with `changed` [batch, target time], True
            for words changed by noise, False for end symbols and padding
        """
        if not samples:
            return {}
        indices = np.array([sample["id"] for sample in samples])
        clean = Spans.of([sample["target"].numpy() for sample in samples])
        noisy = self._add_noise(clean, indices)
        order = np.argsort(-noisy.lines.lengths, kind="stable")
        source = noisy.lines.select(order).with_last(self.eos)
        target = clean.select(order)
        changed = noisy.changed.select(order).with_last(False)
        # Rolling moves the eos of each sentence to the start of the next one.
        previous = Spans(np.roll(target.ids, 1), target.lengths)
        lengths = pad_to_length or {"source": 0, "target": 0}
        pad, left = self.tgt_dict.pad(), self.left_pad_target
        to_target = left, lengths["target"], self.pad_to_multiple
        to_source = self.left_pad_source, lengths["source"], self.pad_to_multiple
        return {
            "id": torch.from_numpy(indices[order]),
            "nsentences": len(samples),
            "ntokens": len(target.ids),
            "net_input": {
                "src_tokens": torch.from_numpy(source.pad(pad, *to_source)),
                "src_lengths": torch.from_numpy(source.lengths),
                "prev_output_tokens": torch.from_numpy(previous.pad(pad, *to_target)),
            },
            "target": torch.from_numpy(target.pad(pad, *to_target)),
            "changed": torch.from_numpy(changed.pad(False, *to_target)),
        }

    def _add_noise(self, clean: Spans, indices: Ids) -> NoisyIds:
        """Add noise to sentences that end with eos. Noisy lines have no eos."""
        lacks_eos = clean.ids[clean.ends - 1] != self.eos
        if lacks_eos.any():
            raise DataError(
                f"Sentence {indices[np.argmax(lacks_eos)]} of the data does not end with the "
                f"end-of-sentence id {self.eos}. Expected output of fairseq-preprocess."
            )
        draws = Random.of((self.seed, int(self._epoch)), indices)
        return self.noise(clean.without_last(), draws)
