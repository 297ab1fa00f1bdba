"""A dataset of sentences with an edit label for each token."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from fairseq.data import LanguagePairDataset, data_utils
from numpy.typing import NDArray

from fairseq_ssl.edits.subwords import SubwordBatch, WordSubwords
from fairseq_ssl.edits.windows import Windows
from fairseq_ssl.errors import DataError
from fairseq_ssl.noise.batch import Random
from fairseq_ssl.text.spans import Ids, Spans
from fairseq_ssl.text.vocabulary import RESERVED

SPECIAL = len(RESERVED)
"""Number of special symbols that precede the labels in the label dictionary."""


class EditDataset(LanguagePairDataset):
    """Sentences with <s> and </s>, and optionally with edit labels.

    Sentences that `fairseq-ssl edits label` skipped have no labels and are excluded from batches.
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
        words: WordSubwords | None = None,
        split_long: bool = False,
    ) -> None:
        """Combine text and labels.

        Args:
            text: sentences as ids with </s> at the end.
            sizes: length of each sentence.
            dictionary: dictionary of the text.
            labels: binarized output of `fairseq-ssl edits label`: labels for the sentence start and
                for each token, then </s>.
            label_sizes: length of each label sequence.
            corrected: corrected text, which fairseq-generate prints. Training does not use it.
            seed: seed for sampling sentences without edits.
            unchanged_share: fraction of the sentences without edits to use in each epoch.
            shuffle: whether to shuffle the sentences before they are batched.
            pad_to_multiple: multiple to which the padded length of a batch is rounded up.
            words: converter from words to the subwords that the encoder reads. Lengths are then in
                subwords (default: the encoder reads the tokens of `text`).
            split_long: whether long sentences are split into windows later. A sentence that is
                too long for a batch then forms its own batch.
        """
        options = {"left_pad_source": False, "shuffle": shuffle, "pad_to_multiple": pad_to_multiple}
        self.word_sizes = np.asarray(sizes) + 1
        self.words = words
        self.split_long = split_long
        lengths = self.word_sizes if words is None else _subword_sizes(text, words)
        super().__init__(text, lengths, dictionary, **options)
        self.labels = labels
        self.corrected = corrected
        self.seed = seed
        self.unchanged_share = unchanged_share
        self.epoch = 1
        self.has_labels = self._find_labeled(label_sizes)

    @property
    def can_reuse_epoch_itr_across_epochs(self) -> bool:
        """True if all epochs use the same sentences."""
        return self.unchanged_share == 1

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, which selects the sentences."""
        self.epoch = epoch

    def ordered_indices(self) -> Ids:
        """Return the indices of the epoch's sentences, ordered by length."""
        order: Ids = super().ordered_indices()
        keep = self.has_labels.copy()
        if self.unchanged_share < 1:
            random = Random.of((self.seed, self.epoch), len(self)).lines()
            keep &= self.has_edits | (random < self.unchanged_share)
        return order[keep[order]]

    def batch_by_size(self, indices: Ids, max_tokens: int | None = None, **options: Any) -> Any:
        """Group sentences into batches. With `split_long`, lengths are capped at `max_tokens`."""
        if max_tokens is None or not self.split_long:
            return super().batch_by_size(indices, max_tokens, **options)
        sizes = np.minimum(self.num_tokens_vec(indices), max_tokens).astype(np.int64)
        return data_utils.batch_by_size(indices, None, sizes, max_tokens, **options)

    @cached_property
    def has_edits(self) -> NDArray[np.bool_]:
        """[sentences], True for sentences with at least one edit."""
        values = ((labels[:-1] != SPECIAL).any() for labels in self.labels)
        return np.fromiter(values, np.bool_, len(self))

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Return a sentence with its labels and its correction, if available."""
        item = {"id": index, "source": self.src[index]}
        if self.labels is not None:
            item["labels"] = self.labels[index]
        if self.corrected is not None:
            item["target"] = self.corrected[index]
        return item

    def collater(
        self, samples: Sequence[dict[str, Any]], pad_to_length: dict[str, int] | None = None
    ) -> dict[str, Any]:
        """Return a batch in fairseq's format, longest sources first.

        `labels` [positions] are ids in the edit dictionary: one id for the sentence start and one
        for each token, concatenated over the sentences.
        """
        if not samples:
            return {}
        source = Spans.of([sample["source"].numpy() for sample in samples])
        order = np.argsort(-source.lengths, kind="stable")
        source = self._add_start_and_end(source.select(order).without_last())
        min_length = (pad_to_length or {}).get("source", 0)
        pad = self.src_dict.pad(), False, min_length, self.pad_to_multiple
        batch: dict[str, Any] = {
            "id": torch.tensor([samples[index]["id"] for index in order]),
            "nsentences": len(samples),
            "ntokens": len(source.ids) - len(samples),
            "net_input": {
                "src_tokens": torch.from_numpy(source.pad(*pad)).long(),
                "src_lengths": torch.from_numpy(source.lengths),
            },
            "target": None,
        }
        if self.words is not None:
            subwords = self.words.batch(source.without_last(), self.pad_to_multiple)
            batch["net_input"]["subwords"] = SubwordBatch(*map(torch.from_numpy, subwords))
        if "labels" in samples[0]:
            labels = Spans.of([samples[index]["labels"].numpy() for index in order]).without_last()
            batch["labels"] = torch.from_numpy(_to_edit_ids(labels.ids, batch["id"])).long()
        if "target" in samples[0]:
            target = Spans.of([samples[index]["target"].numpy() for index in order])
            batch["target"] = torch.from_numpy(target.pad(pad[0], False, 0, 1)).long()
        return batch

    def _add_start_and_end(self, text: Spans) -> Spans:
        """Add <s> and </s>.

        If there are labels, <s>, </s> and <pad> within the text become <unk>, as in decoding,
        because each token needs a label.
        """
        words = self.src_dict
        if self.labels is not None:
            symbols = np.isin(text.ids, (words.bos(), words.eos(), words.pad()))
            text = Spans(np.where(symbols, words.unk(), text.ids), text.lengths)
        return text.with_first(words.bos()).with_last(words.eos())

    def _find_labeled(self, sizes: NDArray[Any] | None) -> NDArray[np.bool_]:
        """Return a mask [sentences] of the labeled sentences, all True if there are no labels.

        Raise DataError if the labels and the text differ in their numbers of lines or tokens.
        """
        if sizes is None:
            return np.ones(len(self), np.bool_)
        if len(sizes) != len(self):
            raise DataError(
                f"The labels have {len(sizes)} lines, but the text has {len(self)} sentences. "
                "Run `fairseq-ssl edits label` on the same lines that were binarized."
            )
        labeled = np.asarray(sizes) > 1
        wrong = np.flatnonzero(labeled & (np.asarray(sizes) != self.word_sizes))
        if len(wrong):
            index = wrong[0]
            raise DataError(
                f"Line {index + 1} of the data has {self.word_sizes[index] - 2} tokens and "
                f"{sizes[index] - 1} labels. Expected one label for the sentence start and one for "
                "each token. Label the same lines that were binarized, with the same tokenization."
            )
        return labeled


def _subword_sizes(text: Any, words: WordSubwords) -> Ids:
    """Return the number of subwords in each sentence, including start and end symbols."""
    sizes = (words.lengths(sentence.numpy()[:-1]).sum() + words.ends for sentence in text)
    return np.fromiter(sizes, np.int64, len(text))


def _to_edit_ids(labels: NDArray[Any], sentences: Any) -> NDArray[Any]:
    """Convert ids from fairseq's label dictionary to ids in the edit dictionary."""
    if labels.min(initial=SPECIAL) < SPECIAL:
        raise DataError(
            f"A label in one of the lines {', '.join(map(str, sorted(sentences.tolist())))} "
            "(counted from 0) is not in the edit dictionary. Binarize the labels with the "
            "dictionary that was used to label the text."
        )
    return labels - SPECIAL


def look_up_subwords(words: WordSubwords, tokens: torch.Tensor) -> SubwordBatch:
    """Return the subwords of sentences [batch, time] with <s> and </s>, padded on either side."""
    ids, dictionary = tokens.cpu().numpy(), words.dictionary
    real = (ids != dictionary.pad()) & (ids != dictionary.eos())
    batch = words.batch(Spans(ids[real], real.sum(1)))
    return SubwordBatch(*(torch.from_numpy(part).to(tokens.device) for part in batch))


def padded_sentences(tokens: torch.Tensor, lengths: torch.Tensor) -> Spans:
    """Return the sentences without </s> from a batch [batch, time] with padding on the right."""
    rows, counts = tokens.cpu().numpy(), lengths.cpu().numpy() - 1
    return Spans(rows[np.arange(rows.shape[1]) < counts[:, None]], counts)


def split_batch(
    batch: dict[str, Any], windows: Windows, words: WordSubwords | None, eos: int, pad: int
) -> dict[str, Any]:
    """Split long sentences in a batch of `EditDataset` into windows.

    The new field `positions` contains the indices of the logits that belong to the labels, and
    `lengths` contains the original sentence lengths. Batches without long sentences do not change.

    Args:
        batch: output of `EditDataset.collater`.
        windows: size and overlap of the windows.
        words: converter from words to subwords, or None if the model reads the tokens.
        eos: id of </s>.
        pad: padding id.
    """
    source, lengths = batch["net_input"]["src_tokens"], batch["net_input"]["src_lengths"]
    read, ends = (source, 2) if words is None else (batch["net_input"]["subwords"][0], words.ends)
    if read.size(1) <= windows.size + ends:
        return batch
    text = padded_sentences(source, lengths)
    split = windows.split(text, None if words is None else words.lengths(text.ids))
    if split.text is text:
        return batch
    sentences = split.text.with_last(eos)
    tokens, sizes, positions = (
        torch.from_numpy(array).to(source.device)
        for array in (sentences.pad(pad, False, 0, 1), sentences.lengths, split.used_positions)
    )
    inputs = {"src_tokens": tokens, "src_lengths": sizes}
    return {**batch, "net_input": inputs, "positions": positions, "lengths": lengths}
