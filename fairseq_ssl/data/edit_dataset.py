"""Sentences of ids with the edits of each token."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from fairseq.data import LanguagePairDataset
from numpy.typing import NDArray

from fairseq_ssl.data.spans import Ids, Spans
from fairseq_ssl.errors import DataError
from fairseq_ssl.noise.batch import Random
from fairseq_ssl.text.vocabulary import RESERVED

SPECIAL = len(RESERVED)
"""fairseq's own symbols, before the labels in their dictionary."""


class EditDataset(LanguagePairDataset):
    """Sentences between <s> and </s>, with labels to train on or without.

    A pair that was left out when it was labeled has none, and comes in no batch.
    """

    def __init__(
        self,
        text: Any,
        sizes: NDArray[Any],
        dictionary: Any,
        labels: Any = None,
        label_sizes: NDArray[Any] | None = None,
        target: Any = None,
        seed: int = 1,
        unchanged_share: float = 1.0,
        shuffle: bool = True,
        pad_to_multiple: int = 1,
    ) -> None:
        """Put text and labels side by side.

        Args:
            text: sentences of ids, each ended by that of </s>
            sizes: how long each is
            dictionary: of the text
            labels: what fairseq-preprocess made of the lines that `edits label` wrote: a label
                for the start and for each token, then </s>; if any
            label_sizes: how long each of these is
            target: the text as it should be, for who wants to print it
            seed: of which sentences without an edit come in an epoch
            unchanged_share: with which probability one of those comes
            shuffle: whether to change the order
            pad_to_multiple: what the time of a batch is to be a multiple of
        """
        options = {"left_pad_source": False, "shuffle": shuffle, "pad_to_multiple": pad_to_multiple}
        super().__init__(text, np.asarray(sizes) + 1, dictionary, **options)
        self.labels = labels
        self.texts_wanted = target
        self.seed = seed
        self.unchanged_share = unchanged_share
        self.epoch = 1
        self.labeled = self._labeled(label_sizes)

    @property
    def can_reuse_epoch_itr_across_epochs(self) -> bool:
        """Whether each epoch has the same sentences."""
        return self.unchanged_share == 1

    def set_epoch(self, epoch: int) -> None:
        """Go on to the sentences of this epoch."""
        self.epoch = epoch

    def ordered_indices(self) -> Ids:
        """Return the sentences that come, shorter ones first."""
        order: Ids = super().ordered_indices()
        keep = self.labeled.copy()
        if self.unchanged_share < 1:
            drawn = Random.of((self.seed, self.epoch), len(self)).lines()
            keep &= self.changed | (drawn < self.unchanged_share)
        return order[keep[order]]

    @cached_property
    def changed(self) -> NDArray[np.bool_]:
        """Which sentences have an edit; found out once."""
        found = ((one[:-1] != SPECIAL).any() for one in self.labels)
        return np.fromiter(found, np.bool_, len(self))

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Return a sentence and what is known of it."""
        item = {"id": index, "source": self.src[index]}
        if self.labels is not None:
            item["labels"] = self.labels[index]
        if self.texts_wanted is not None:
            item["target"] = self.texts_wanted[index]
        return item

    def collater(
        self, samples: Sequence[dict[str, Any]], pad_to_length: dict[str, int] | None = None
    ) -> dict[str, Any]:
        """Make a batch of fairseq's, longest sources first.

        Its `labels` [positions] are those of the start and the tokens of all its sentences,
        end to end, by their ids in the edit dictionary.
        """
        if not samples:
            return {}
        source = Spans.of([sample["source"].numpy() for sample in samples])
        order = np.argsort(-source.lengths, kind="stable")
        source = self._between_start_and_end(source.taken(order).without_last())
        least = (pad_to_length or {}).get("source", 0)
        pad = self.src_dict.pad(), False, least, self.pad_to_multiple
        batch = {
            "id": torch.tensor([samples[place]["id"] for place in order]),
            "nsentences": len(samples),
            "ntokens": len(source.ids) - len(samples),
            "net_input": {
                "src_tokens": torch.from_numpy(source.padded(*pad)).long(),
                "src_lengths": torch.from_numpy(source.lengths),
            },
            "target": None,
        }
        if "labels" in samples[0]:
            found = Spans.of([samples[place]["labels"].numpy() for place in order]).without_last()
            batch["labels"] = torch.from_numpy(_known(found.ids, batch["id"])).long()
        if "target" in samples[0]:
            target = Spans.of([samples[place]["target"].numpy() for place in order])
            batch["target"] = torch.from_numpy(target.padded(pad[0], False, 0, 1)).long()
        return batch

    def _between_start_and_end(self, text: Spans) -> Spans:
        """Add both; where there are labels, so that each token has its own, all are tokens.

        A symbol of the end or of padding that stands in the text is <unk> then.
        """
        words = self.src_dict
        if self.labels is not None:
            symbols = np.isin(text.ids, (words.eos(), words.pad()))
            text = Spans(np.where(symbols, words.unk(), text.ids), text.lengths)
        return text.with_first(words.bos()).with_last(words.eos())

    def _labeled(self, sizes: NDArray[Any] | None) -> NDArray[np.bool_]:
        """Tell which sentences have labels; raise DataError where they are not as many as tokens.

        Without labels all may come.
        """
        if sizes is None:
            return np.ones(len(self), np.bool_)
        if len(sizes) != len(self):
            raise DataError(
                f"There are labels of {len(sizes)} sentences for {len(self)} sentences of text. "
                "Label the lines that the text was binarized from: fairseq-ssl edits label."
            )
        labeled = np.asarray(sizes) > 1
        wrong = np.flatnonzero(labeled & (np.asarray(sizes) != self.src_sizes))
        if len(wrong):
            one = wrong[0]
            raise DataError(
                f"Line {one + 1} of the data has {self.src_sizes[one] - 2} tokens and "
                f"{sizes[one] - 1} labels; expected one for the start and one for each token. "
                "Label the lines that the text was binarized from, cut into the same tokens."
            )
        return labeled


def _known(labels: NDArray[Any], sentences: Any) -> NDArray[Any]:
    if labels.min(initial=SPECIAL) < SPECIAL:
        raise DataError(
            f"Labels among those of the lines {sorted(sentences.tolist())} (from 0) are not in "
            "the edit dictionary. Binarize the labels with the dictionary they were made with."
        )
    return labels - SPECIAL
