"""A dataset of sentence pairs with monolingual sentences, and batches for reconstruction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from fairseq.data import BaseWrapperDataset
from fairseq.utils import convert_padding_direction
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from fairseq_ssl.modules.reconstruction import DirectionBatch

BACKWARD = "backward"


class BitextWithMono(BaseWrapperDataset):
    """Sentence pairs, each with the reversed pair and one sentence from each monolingual text.

    An epoch is one pass over the pairs. The monolingual texts are shuffled and repeated, and each
    epoch continues where the previous epoch of the same data folder ended. Within an epoch,
    monolingual sentences are matched to pairs by length to reduce padding. The selection depends
    only on the seed and the epoch.

    A batch is a LanguagePairDataset batch that also contains the reversed pairs as `backward`, and
    the sentences of each monolingual text under the text's name.
    """

    def __init__(
        self,
        pairs: Any,
        reversed_pairs: Any,
        texts: Mapping[str, Any],
        seed: int,
        mixed_lengths: bool = False,
        folders: int = 1,
    ) -> None:
        """Combine pairs and texts.

        Args:
            pairs: a LanguagePairDataset.
            reversed_pairs: the same dataset with source and target exchanged.
            texts: monolingual texts by name, as LanguagePairDatasets whose sides are the same text.
            seed: seed for shuffling the texts.
            mixed_lengths: whether to form batches from random pairs instead of pairs of similar
                length.
            folders: number of data folders that are read in turn, each with its own sentences.
        """
        super().__init__(pairs)
        self.folders = folders
        self.mixed_lengths = mixed_lengths
        self.reversed_pairs = reversed_pairs
        self.texts = dict(texts)
        self.seed = seed
        self.by_length = np.argsort(_lengths(pairs), kind="stable")
        self.set_epoch(1)

    def set_epoch(self, epoch: int) -> None:
        """Select the monolingual sentences of an epoch."""
        super().set_epoch(epoch)
        self.epoch = epoch
        self.chosen = {
            name: self._choose(text, index, epoch)
            for index, (name, text) in enumerate(self.texts.items())
        }

    def _choose(self, text: Any, text_index: int, epoch: int) -> NDArray[np.int64]:
        """Return the index of each pair's monolingual sentence in `text`, [pairs]."""
        count, size = len(self.dataset), len(text)
        turn, folder = divmod(epoch - 1, self.folders)
        positions = np.arange(turn * count, (turn + 1) * count) * self.folders + folder
        passes = positions // size
        picked = np.empty(count, np.int64)
        for number in np.unique(passes):
            order = np.random.default_rng((self.seed, text_index, int(number))).permutation(size)
            picked[passes == number] = order[positions[passes == number] % size]
        chosen = np.empty(count, np.int64)
        chosen[self.by_length] = picked[np.argsort(text.src_sizes[picked], kind="stable")]
        return chosen

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Return a pair with its reversed pair and its monolingual sentences."""
        sentences = {name: text[self.chosen[name][index]] for name, text in self.texts.items()}
        backward = self.reversed_pairs[index]
        return {"pair": self.dataset[index], BACKWARD: backward, **sentences}

    def collater(self, samples: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Return a batch of pairs that contains the batches of the other datasets by name."""
        batch: dict[str, Any] = self.dataset.collater([sample["pair"] for sample in samples])
        if not batch:
            return batch
        for name, data in {BACKWARD: self.reversed_pairs, **self.texts}.items():
            batch[name] = data.collater([sample[name] for sample in samples])
        return batch

    def num_tokens(self, index: int) -> int:
        """Return the length of the longest sentence among a pair and its monolingual sentences."""
        return int(self.num_tokens_vec(np.array([index]))[0])

    def num_tokens_vec(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return `num_tokens` for several pairs."""
        lengths = _lengths(self.dataset)[indices]
        for name, text in self.texts.items():
            lengths = np.maximum(lengths, text.src_sizes[self.chosen[name][indices]])
        return lengths

    def ordered_indices(self) -> Any:
        """Return the pair indices sorted by length or, with `mixed_lengths`, in random order."""
        if not self.mixed_lengths:
            return super().ordered_indices()
        # fairseq 0.12.2 seeds numpy's global generator with the same value in each epoch.
        generator = np.random.default_rng((self.seed, self.epoch))
        return generator.permutation(len(self)).astype(np.int64)

    def batch_by_size(self, indices: Any, *limits: Any, **more_limits: Any) -> Any:
        """Form batches with the lengths that `num_tokens_vec` returns."""
        # BaseWrapperDataset would ignore the lengths of monolingual sentences.
        return super(BaseWrapperDataset, self).batch_by_size(indices, *limits, **more_limits)

    @property
    def can_reuse_epoch_itr_across_epochs(self) -> bool:
        """False, because the batches change with each epoch."""
        return False

    @property
    def src(self) -> Any:
        """The source sentences, which fairseq-generate reads."""
        return self.dataset.src

    @property
    def tgt(self) -> Any:
        """The target sentences, which fairseq-generate reads."""
        return self.dataset.tgt


def _lengths(pairs: Any) -> NDArray[np.int64]:
    lengths: NDArray[np.int64] = np.maximum(pairs.src_sizes, pairs.tgt_sizes).astype(np.int64)
    return lengths


def collate_candidates(
    candidates: Sequence[Sequence[dict[str, Any]]], padding: int, beam: int
) -> dict[str, Any]:
    """Collate the candidates of all sentences into rows, longest first.

    Args:
        candidates: hypotheses for each sentence, best first.
        padding: padding id.
        beam: maximum number of candidates per sentence.

    Returns:
        a dictionary with `tokens` [rows, time], padded on the right, with end symbols; `sentences`
        [rows], the sentence indices; `slots` [rows], beam * sentence + rank; `count`, the number of
        sentences; and `beam`
    """
    rows = [
        (hypothesis["tokens"], sentence, sentence * beam + rank)
        for sentence, hypotheses in enumerate(candidates)
        for rank, hypothesis in enumerate(hypotheses[:beam])
    ]
    rows.sort(key=lambda row: -len(row[0]))
    tokens = pad_sequence([row[0] for row in rows], batch_first=True, padding_value=padding)
    return {
        "tokens": tokens,
        "sentences": tokens.new_tensor([row[1] for row in rows]),
        "slots": tokens.new_tensor([row[2] for row in rows]),
        "count": len(candidates),
        "beam": beam,
    }


def reconstruction_batches(
    text: dict[str, Any],
    candidates: dict[str, Any],
    directions: tuple[str, str],
    padding: int,
    left_pad_source: bool,
) -> tuple[DirectionBatch, DirectionBatch]:
    """Return a batch from sentences to candidates, and a batch from candidates to sentences.

    Args:
        text: a batch of monolingual sentences, as sources and targets.
        candidates: output of `collate_candidates`.
        directions: translation directions of the forward and the backward model, such as
            `en-de` and `de-en`.
        padding: padding id.
        left_pad_source: whether sources are padded on the left.
    """
    tokens, rows = candidates["tokens"], candidates["sentences"]
    sentence = text["net_input"]
    forward = DirectionBatch(
        directions[0],
        sentence["src_tokens"],
        sentence["src_lengths"],
        _previous_tokens(tokens, padding),
        tokens,
        rows,
        is_genuine=False,
    )
    source = tokens
    if left_pad_source:
        source = convert_padding_direction(tokens, padding, right_to_left=True)
    backward = DirectionBatch(
        directions[1],
        source,
        tokens.ne(padding).sum(1),
        sentence["prev_output_tokens"][rows],
        text["target"][rows],
        is_genuine=False,
    )
    return forward, backward


def _previous_tokens(tokens: Tensor, padding: int) -> Tensor:
    """Move the end symbol of each row [rows, time] to the start, for teacher forcing."""
    ends = tokens.ne(padding).sum(1, keepdim=True) - 1
    shifted = torch.cat([tokens.gather(1, ends), tokens[:, :-1]], 1)
    return shifted.masked_fill(tokens.eq(padding), padding)
