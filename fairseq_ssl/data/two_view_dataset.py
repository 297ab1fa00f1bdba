"""Texts in two views: words for an expert, and subwords of the same lines for its imitators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from fairseq.data import ConcatDataset, FairseqDataset
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from fairseq_ssl.errors import DataError

ViewIds = NDArray[np.int64]
WORDS, PIECES = "words", "pieces"
GROWTH = 1.1
"""How much longer than its shortest the longest text of a bucket may be."""


@dataclass(frozen=True)
class View:
    """One way to cut texts, as fairseq-preprocess binarized it: each is ended by </s>."""

    name: str
    texts: Any
    pad: int
    eos: int

    def ids(self, line: int, longest: int | None) -> Tensor:
        """Return the ids of a text; of words the last `longest`, and of pieces without </s>."""
        found: Tensor = self.texts[line].long()
        if self.name == WORDS:
            return found if longest is None else found[-longest:]
        return found[:-1] if len(found) > 1 and found[-1] == self.eos else found

    def sizes(self, lines: ViewIds, longest: int | None) -> ViewIds:
        """Return how long they are."""
        found = np.asarray(self.texts.sizes)[lines].astype(np.int64)
        if self.name == WORDS:
            return found if longest is None else np.minimum(found, longest)
        return np.maximum(found - 1, 1)


def joined_views(splits: Sequence[Sequence[View]]) -> list[View]:
    """Return views of the lines of splits, one split after the other."""
    if len(splits) == 1:
        return list(splits[0])
    return [
        replace(same[0], texts=ConcatDataset([one.texts for one in same]))
        for same in zip(*splits, strict=True)
    ]


def drawn_lines(counts: Sequence[int], wanted: int | None, seed: int) -> ViewIds:
    """Return `wanted` lines, or all, of splits of such sizes; fewer are among more.

    Lines of a split are drawn after all lines of the split before it.
    """
    random = np.random.default_rng(seed)
    starts = np.cumsum([0, *counts])
    order = [
        start + random.permutation(count) for start, count in zip(starts, counts, strict=False)
    ]
    found: ViewIds = np.sort(np.concatenate(order)[:wanted])
    return found


class TwoViewDataset(FairseqDataset):
    """Texts in one view or in both, with their labels or what a teacher says of them."""

    def __init__(
        self,
        views: Sequence[View],
        labels: ViewIds | None = None,
        teacher: Any = None,
        lines: ViewIds | None = None,
        longest: int | None = None,
        shuffle: bool = True,
        seed: int = 1,
        others: TwoViewDataset | None = None,
        others_per_text: int = 0,
    ) -> None:
        """Put views side by side.

        Args:
            views: of the same lines
            labels: the number of the class of each line
            teacher: probabilities of the classes [lines, classes], as of a memory-mapped file
            lines: which of the lines come (default: all)
            longest: words of a text at most, </s> among them; the end is kept
            shuffle: whether the order changes from epoch to epoch
            seed: of the order, and of what is drawn from `others`
            others: unlabeled texts to go with each of these
            others_per_text: how many of them are drawn for each
        """
        _check_lengths(views, labels, teacher)
        self.views = views
        self.labels = labels
        self.teacher = teacher
        self.lines = np.arange(len(views[0].texts)) if lines is None else lines
        self.longest = longest
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 1
        self.others = others
        self.others_per_text = others_per_text
        sizes = [view.sizes(self.lines, longest) for view in views]
        self.sizes: ViewIds = np.max(sizes, axis=0)

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def can_reuse_epoch_itr_across_epochs(self) -> bool:
        """Whether the batches of one epoch will do for the next."""
        return not self.shuffle

    def set_epoch(self, epoch: int) -> None:
        """Go on to the order of this epoch."""
        self.epoch = epoch

    def num_tokens(self, index: int) -> int:
        """Return how long a text is in the longer view."""
        return int(self.sizes[index])

    def num_tokens_vec(self, indices: ViewIds) -> ViewIds:
        """Return the same of several."""
        return self.sizes[indices]

    def size(self, index: int) -> int:
        """Return how long a text is in the longer view."""
        return int(self.sizes[index])

    def ordered_indices(self) -> ViewIds:
        """Return the texts by length, those of like length in an order of this epoch."""
        if not self.shuffle:
            return np.argsort(self.sizes, kind="stable")
        drawn = np.random.default_rng((self.seed, self.epoch)).permutation(len(self))
        buckets = np.floor(np.log(self.sizes) / np.log(GROWTH))
        found: ViewIds = drawn[np.argsort(buckets[drawn], kind="stable")]
        return found

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Return a text in its views, and what is known of it."""
        line = int(self.lines[index])
        item: dict[str, Any] = {"id": index}
        for view in self.views:
            item[view.name] = view.ids(line, self.longest)
        if self.labels is not None:
            item["label"] = int(self.labels[line])
        if self.teacher is not None:
            item["teacher"] = np.asarray(self.teacher[line], np.float32)
        if self.others is not None:
            draw = np.random.default_rng((self.seed, self.epoch, index))
            chosen = draw.integers(0, len(self.others), self.others_per_text)
            item["others"] = [self.others[int(one)] for one in chosen]
        return item

    def collater(self, samples: list[dict[str, Any]]) -> dict[str, Any]:
        """Make a batch, padded on the right.

        Its `net_input` has src_tokens [batch, time] and src_lengths [batch] of the words,
        piece_tokens [batch, time] of the pieces; beside it are `target` [batch], `teacher`
        [batch, classes], and `others`, the net_input of unlabeled texts.
        """
        if not samples:
            return {}
        net_input = self._inputs(samples)
        batch = {
            "id": torch.tensor([sample["id"] for sample in samples]),
            "nsentences": len(samples),
            "ntokens": sum(len(sample[self.views[0].name]) for sample in samples),
            "net_input": net_input,
        }
        if "label" in samples[0]:
            batch["target"] = torch.tensor([sample["label"] for sample in samples])
        if "teacher" in samples[0]:
            batch["teacher"] = torch.from_numpy(np.stack([one["teacher"] for one in samples]))
        if "others" in samples[0]:
            batch["others"] = self._inputs([other for one in samples for other in one["others"]])
        return batch

    def _inputs(self, samples: list[dict[str, Any]]) -> dict[str, Tensor]:
        found: dict[str, Tensor] = {}
        for view in self.views:
            ids = [sample[view.name] for sample in samples]
            padded = pad_sequence(ids, batch_first=True, padding_value=view.pad)
            if view.name == WORDS:
                found["src_tokens"] = padded
                found["src_lengths"] = torch.tensor([len(one) for one in ids])
            else:
                found["piece_tokens"] = padded
        return found


def _check_lengths(views: Sequence[View], labels: ViewIds | None, teacher: Any) -> None:
    """Refuse views, labels and teachers of other lines than the first view's."""
    there: Mapping[str, Any] = {"labels": labels, "probabilities of the teacher": teacher}
    counts = {view.name: len(view.texts) for view in views}
    counts |= {name: len(one) for name, one in there.items() if one is not None}
    (first, wanted), *others = counts.items()
    for name, count in others:
        if count != wanted:
            raise DataError(
                f"There are {wanted} lines of {first} and {count} of {name}. Both must be of the "
                "same lines, in the same order; make them again."
            )
