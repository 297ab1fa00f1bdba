"""Parallel pairs with monolingual sentences beside them, and batches of round-trip candidates."""

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
    """Each pair comes with itself reversed, and with a sentence of each monolingual text.

    An epoch is one pass over the pairs, however long the texts are. Those are gone through in an
    order of their own, again and again, an epoch beginning where the last one ended. Within an
    epoch long sentences come with long pairs, so that batches have little padding. All depends on
    the seed and the epoch alone. A batch is one of the pairs, with more keys: `backward` and the
    names of the texts.
    """

    def __init__(
        self,
        pairs: Any,
        reversed_pairs: Any,
        texts: Mapping[str, Any],
        seed: int,
        mixed_lengths: bool = False,
    ) -> None:
        """Set what goes together.

        Args:
            pairs: a LanguagePairDataset
            reversed_pairs: the same with its sides changed
            texts: monolingual text by name, LanguagePairDatasets of sentences and themselves
            seed: of the order of the texts
            mixed_lengths: let batches be of pairs of any length, and not of like ones
        """
        super().__init__(pairs)
        self.mixed_lengths = mixed_lengths
        self.reversed_pairs = reversed_pairs
        self.texts = dict(texts)
        self.seed = seed
        self.by_length = np.argsort(_lengths(pairs), kind="stable")
        self.set_epoch(1)

    def set_epoch(self, epoch: int) -> None:
        """Choose the sentences of an epoch."""
        super().set_epoch(epoch)
        self.epoch = epoch
        self.chosen = {
            name: self._chosen(text, number, epoch)
            for number, (name, text) in enumerate(self.texts.items())
        }

    def _chosen(self, text: Any, number: int, epoch: int) -> NDArray[np.int64]:
        """Return the sentence of `text` that each pair has with it [pairs]."""
        count, size = len(self.dataset), len(text)
        places = np.arange((epoch - 1) * count, epoch * count)
        passes = places // size
        picked = np.empty(count, np.int64)
        for turn in np.unique(passes):
            order = np.random.default_rng((self.seed, number, int(turn))).permutation(size)
            picked[passes == turn] = order[places[passes == turn] % size]
        chosen = np.empty(count, np.int64)
        chosen[self.by_length] = picked[np.argsort(text.src_sizes[picked], kind="stable")]
        return chosen

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Return a pair and all that comes with it."""
        others = {name: text[self.chosen[name][index]] for name, text in self.texts.items()}
        backward = self.reversed_pairs[index]
        return {"pair": self.dataset[index], BACKWARD: backward, **others}

    def collater(self, samples: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Make a batch of pairs with batches of the others in it."""
        batch: dict[str, Any] = self.dataset.collater([sample["pair"] for sample in samples])
        if not batch:
            return batch
        others = {BACKWARD: self.reversed_pairs, **self.texts}
        for name, data in others.items():
            batch[name] = data.collater([sample[name] for sample in samples])
        return batch

    def num_tokens(self, index: int) -> int:
        """Return the length of the longest sentence that comes with a pair."""
        return int(self.num_tokens_vec(np.array([index]))[0])

    def num_tokens_vec(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the same for many pairs."""
        longest = _lengths(self.dataset)[indices]
        for name, text in self.texts.items():
            longest = np.maximum(longest, text.src_sizes[self.chosen[name][indices]])
        return longest

    def ordered_indices(self) -> Any:
        """Return the pairs in the order in which batches are formed, one of the epoch's own."""
        if not self.mixed_lengths:
            return super().ordered_indices()
        # numpy's own seed, which fairseq sets here, is that of all epochs in fairseq 0.12.2
        generator = np.random.default_rng((self.seed, self.epoch))
        return generator.permutation(len(self)).astype(np.int64)

    def batch_by_size(self, indices: Any, *limits: Any, **more_limits: Any) -> Any:
        """Form batches by all that comes with a pair."""
        # the wrapper would ask the pairs alone
        return super(BaseWrapperDataset, self).batch_by_size(indices, *limits, **more_limits)

    @property
    def can_reuse_epoch_itr_across_epochs(self) -> bool:
        """Whether batches stay the same: no, each epoch has batches of its own."""
        return False

    @property
    def src(self) -> Any:
        """The sources, for fairseq-generate."""
        return self.dataset.src

    @property
    def tgt(self) -> Any:
        """The targets."""
        return self.dataset.tgt


def _lengths(pairs: Any) -> NDArray[np.int64]:
    longest: NDArray[np.int64] = np.maximum(pairs.src_sizes, pairs.tgt_sizes).astype(np.int64)
    return longest


def collated(found: Sequence[Sequence[dict[str, Any]]], padding: int, beam: int) -> dict[str, Any]:
    """Put the candidates of all sentences under one another, the longest first.

    Returns:
        tokens [rows, time], each row ended and padded on the right; the sentence of each row
        [rows]; its slot, beam x sentence + rank [rows]; the number of sentences, and the beam
    """
    rows = [
        (one["tokens"], sentence, sentence * beam + rank)
        for sentence, hypotheses in enumerate(found)
        for rank, one in enumerate(hypotheses[:beam])
    ]
    rows.sort(key=lambda row: -len(row[0]))
    tokens = pad_sequence([row[0] for row in rows], batch_first=True, padding_value=padding)
    return {
        "tokens": tokens,
        "sentences": tokens.new_tensor([row[1] for row in rows]),
        "slots": tokens.new_tensor([row[2] for row in rows]),
        "count": len(found),
        "beam": beam,
    }


def round_trip_batches(
    text: dict[str, Any],
    candidates: dict[str, Any],
    directions: tuple[str, str],
    padding: int,
    left_pad_source: bool,
) -> tuple[DirectionBatch, DirectionBatch]:
    """Return the way from each sentence to each of its candidates, and back.

    Args:
        text: a batch of sentences as both sources and targets
        candidates: of `collated`
        directions: of the models for the way there and back
        padding: the id
        left_pad_source: whether sources are padded on the left
    """
    tokens, rows = candidates["tokens"], candidates["sentences"]
    sentence = text["net_input"]
    there = DirectionBatch(
        directions[0],
        sentence["src_tokens"],
        sentence["src_lengths"],
        _shifted(tokens, padding),
        tokens,
        rows,
        is_genuine=False,
    )
    source = tokens
    if left_pad_source:
        source = convert_padding_direction(tokens, padding, right_to_left=True)
    back = DirectionBatch(
        directions[1],
        source,
        tokens.ne(padding).sum(1),
        sentence["prev_output_tokens"][rows],
        text["target"][rows],
        is_genuine=False,
    )
    return there, back


def _shifted(tokens: Tensor, padding: int) -> Tensor:
    """Put the end of each row [rows, time] before it."""
    ends = tokens.ne(padding).sum(1, keepdim=True) - 1
    shifted = torch.cat([tokens.gather(1, ends), tokens[:, :-1]], 1)
    return shifted.masked_fill(tokens.eq(padding), padding)
