"""A dataset of sentences with an edit label for each token."""

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
"""Number of fairseq's symbols before the labels in the label dictionary."""


class EditDataset(LanguagePairDataset):
    """Sentences between <s> and </s>, with or without labels.

    Sentences that `edits label` skipped have no labels and are in no batch.
    """

    def __init__(
        self,
        text: Any,
        sizes: NDArray[Any],
        dictionary: Any,
        labels: Any = None,
        label_sizes: NDArray[Any] | None = None,
        corrected: Any = None,
        seed: int = 1,
        unchanged_share: float = 1.0,
        shuffle: bool = True,
        pad_to_multiple: int = 1,
    ) -> None:
        """Combine text and labels.

        Args:
            text: sentences of ids with </s> at the end.
            sizes: the length of each sentence.
            dictionary: the dictionary of the text.
            labels: output of `edits label`, binarized: a label for the start and for each token,
                then </s>.
            label_sizes: the length of each sequence of labels.
            corrected: the corrected text, for printing.
            seed: seed of the sample of sentences without an edit.
            unchanged_share: share of sentences without an edit in an epoch.
            shuffle: whether to shuffle.
            pad_to_multiple: the length of a batch is rounded up to a multiple of this number.
        """
        options = {"left_pad_source": False, "shuffle": shuffle, "pad_to_multiple": pad_to_multiple}
        super().__init__(text, np.asarray(sizes) + 1, dictionary, **options)
        self.labels = labels
        self.corrected = corrected
        self.seed = seed
        self.unchanged_share = unchanged_share
        self.epoch = 1
        self.has_labels = self._find_labeled(label_sizes)

    @property
    def can_reuse_epoch_itr_across_epochs(self) -> bool:
        """Whether all epochs have the same sentences."""
        return self.unchanged_share == 1

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, which selects the sentences."""
        self.epoch = epoch

    def ordered_indices(self) -> Ids:
        """Return the sentences of the epoch, ordered by length."""
        order: Ids = super().ordered_indices()
        keep = self.has_labels.copy()
        if self.unchanged_share < 1:
            random = Random.of((self.seed, self.epoch), len(self)).lines()
            keep &= self.has_edits | (random < self.unchanged_share)
        return order[keep[order]]

    @cached_property
    def has_edits(self) -> NDArray[np.bool_]:
        """Whether each sentence has an edit."""
        values = ((one[:-1] != SPECIAL).any() for one in self.labels)
        return np.fromiter(values, np.bool_, len(self))

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Return a sentence with its labels and its correction, if any."""
        item = {"id": index, "source": self.src[index]}
        if self.labels is not None:
            item["labels"] = self.labels[index]
        if self.corrected is not None:
            item["target"] = self.corrected[index]
        return item

    def collater(
        self, samples: Sequence[dict[str, Any]], pad_to_length: dict[str, int] | None = None
    ) -> dict[str, Any]:
        """Return a batch of fairseq, longest sources first.

        Its `labels` [positions] are the ids, in the edit dictionary, of the start and the tokens
        of all sentences, concatenated.
        """
        if not samples:
            return {}
        source = Spans.of([sample["source"].numpy() for sample in samples])
        order = np.argsort(-source.lengths, kind="stable")
        source = self._add_start_and_end(source.select(order).without_last())
        min_length = (pad_to_length or {}).get("source", 0)
        pad = self.src_dict.pad(), False, min_length, self.pad_to_multiple
        batch = {
            "id": torch.tensor([samples[index]["id"] for index in order]),
            "nsentences": len(samples),
            "ntokens": len(source.ids) - len(samples),
            "net_input": {
                "src_tokens": torch.from_numpy(source.pad(*pad)).long(),
                "src_lengths": torch.from_numpy(source.lengths),
            },
            "target": None,
        }
        if "labels" in samples[0]:
            labels = Spans.of([samples[index]["labels"].numpy() for index in order]).without_last()
            batch["labels"] = torch.from_numpy(_to_edit_ids(labels.ids, batch["id"])).long()
        if "target" in samples[0]:
            target = Spans.of([samples[index]["target"].numpy() for index in order])
            batch["target"] = torch.from_numpy(target.pad(pad[0], False, 0, 1)).long()
        return batch

    def _add_start_and_end(self, text: Spans) -> Spans:
        """Add <s> and </s>.

        With labels, end symbols and padding within the text become <unk>, since each token needs a
        label.
        """
        words = self.src_dict
        if self.labels is not None:
            symbols = np.isin(text.ids, (words.eos(), words.pad()))
            text = Spans(np.where(symbols, words.unk(), text.ids), text.lengths)
        return text.with_first(words.bos()).with_last(words.eos())

    def _find_labeled(self, sizes: NDArray[Any] | None) -> NDArray[np.bool_]:
        """Return a mask of the sentences with labels, or of all sentences without any labels.

        Raise DataError if a sentence has more or fewer labels than tokens.
        """
        if sizes is None:
            return np.ones(len(self), np.bool_)
        if len(sizes) != len(self):
            raise DataError(
                f"There are labels of {len(sizes)} sentences but {len(self)} sentences of text. "
                "Run `fairseq-ssl edits label` on the lines from which the text was binarized."
            )
        labeled = np.asarray(sizes) > 1
        wrong = np.flatnonzero(labeled & (np.asarray(sizes) != self.src_sizes))
        if len(wrong):
            one = wrong[0]
            raise DataError(
                f"Line {one + 1} of the data has {self.src_sizes[one] - 2} tokens and "
                f"{sizes[one] - 1} labels; expected one for the start and one for each token. "
                "Label the lines from which the text was binarized, with the same tokenization."
            )
        return labeled


def _to_edit_ids(labels: NDArray[Any], sentences: Any) -> NDArray[Any]:
    """Convert label ids of fairseq's dictionary to ids of the edit dictionary."""
    if labels.min(initial=SPECIAL) < SPECIAL:
        raise DataError(
            f"The lines {sorted(sentences.tolist())} (from 0) have labels that are not in the edit "
            "dictionary. Binarize the labels with the dictionary that was used to label."
        )
    return labels - SPECIAL
