"""Dataset and data folder for texts in two views, words and subwords."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq.data import ConcatDataset, Dictionary, FairseqDataset, ListDataset
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from fairseq_ssl.checkpoints import pretrained
from fairseq_ssl.data.binarized import write_ids
from fairseq_ssl.errors import ConfigurationError, DataError
from fairseq_ssl.text.labeled_text import CUTS, Segmenter

logger = logging.getLogger(__name__)
ViewIds = NDArray[np.int64]
WORDS, PIECES = "words", "pieces"
BUCKET_RATIO = 1.1
"""Maximum ratio of text lengths in a bucket."""


@dataclass(frozen=True)
class View:
    """Binarized texts in one tokenization, with </s> at the end of each text."""

    name: str
    texts: Any
    pad: int
    eos: int

    def ids(self, line: int, max_length: int | None) -> Tensor:
        """Return the ids of a text.

        In the word view, only the last `max_length` ids are returned. In the subword view, </s> is
        removed and `max_length` is ignored.
        """
        ids: Tensor = self.texts[line].long()
        if self.name == WORDS:
            return ids if max_length is None else ids[-max_length:]
        return ids[:-1] if len(ids) > 1 and ids[-1] == self.eos else ids

    def sizes(self, lines: ViewIds, max_length: int | None) -> ViewIds:
        """Return the number of ids that `ids` returns for each text."""
        sizes = np.asarray(self.texts.sizes)[lines].astype(np.int64)
        if self.name == WORDS:
            return sizes if max_length is None else np.minimum(sizes, max_length)
        return np.maximum(sizes - 1, 1)


def encode_lines(dictionary: Any, lines: Sequence[str]) -> ListDataset:
    """Convert lines to dictionary ids with </s> at the end of each line."""
    ids = [dictionary.encode_line(line, add_if_not_exist=False, append_eos=True) for line in lines]
    return ListDataset(ids, np.array([len(line) for line in ids]))


def concat_views(splits: Sequence[Sequence[View]]) -> list[View]:
    """Concatenate several splits. Return one view per tokenization."""
    if len(splits) == 1:
        return list(splits[0])
    return [
        replace(same[0], texts=ConcatDataset([view.texts for view in same]))
        for same in zip(*splits, strict=True)
    ]


def sample_lines(counts: Sequence[int], size: int | None, seed: int) -> ViewIds:
    """Sample lines at random from concatenated splits. Return the sorted line indices.

    Lines of a split are sampled only after all lines of the splits before it. Smaller samples are
    subsets of larger samples.

    Args:
        counts: number of lines in each split.
        size: sample size, or None for all lines.
        seed: random seed.
    """
    random = np.random.default_rng(seed)
    starts = np.cumsum([0, *counts])
    order = [
        start + random.permutation(count) for start, count in zip(starts, counts, strict=False)
    ]
    sample: ViewIds = np.sort(np.concatenate(order)[:size])
    return sample


class TwoViewDataset(FairseqDataset):
    """Texts in one or two views, with labels or with class probabilities from a teacher."""

    def __init__(
        self,
        views: Sequence[View],
        labels: ViewIds | None = None,
        teacher: Any = None,
        lines: ViewIds | None = None,
        max_length: int | None = None,
        shuffle: bool = True,
        seed: int = 1,
        unlabeled: TwoViewDataset | None = None,
        unlabeled_per_text: int = 0,
    ) -> None:
        """Combine views.

        Args:
            views: views of the same lines.
            labels: [lines], class indices.
            teacher: [lines, classes], class probabilities, such as a memory-mapped array.
            lines: indices of the lines to use (default: all).
            max_length: maximum number of words in a text, including </s>. Longer texts are
                truncated at the start.
            shuffle: whether to shuffle in each epoch.
            seed: seed for shuffling and for sampling unlabeled texts.
            unlabeled: unlabeled texts to sample from.
            unlabeled_per_text: number of unlabeled texts to sample for each text.
        """
        _check_lengths(views, labels, teacher)
        self.views = views
        self.labels = labels
        self.teacher = teacher
        self.lines = np.arange(len(views[0].texts)) if lines is None else lines
        self.max_length = max_length
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 1
        self.unlabeled = unlabeled
        self.unlabeled_per_text = unlabeled_per_text
        self.view_sizes = [view.sizes(self.lines, max_length) for view in views]
        self.sizes: ViewIds = np.max(self.view_sizes, axis=0)

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def truncated(self) -> int:
        """Number of texts that are longer than `max_length`."""
        complete = [view.sizes(self.lines, None) for view in self.views]
        return int(np.greater(complete, self.view_sizes).any(0).sum())

    @property
    def can_reuse_epoch_itr_across_epochs(self) -> bool:
        """True if fairseq may reuse its batches in the next epoch."""
        return not self.shuffle

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, which seeds the order and the sampled unlabeled texts."""
        self.epoch = epoch

    def num_tokens(self, index: int) -> int:
        """Return the maximum length of a text over its views."""
        return int(self.sizes[index])

    def num_tokens_vec(self, indices: ViewIds) -> ViewIds:
        """Return `num_tokens` for several texts."""
        return self.sizes[indices]

    def size(self, index: int) -> tuple[int, ...]:
        """Return the length of a text in each view, which fairseq prints in messages."""
        return tuple(int(sizes[index]) for sizes in self.view_sizes)

    def filter_indices_by_size(
        self, indices: ViewIds, max_sizes: float | tuple[float | None, ...]
    ) -> tuple[ViewIds, list[int]]:
        """Return the indices of the texts within the limits, and the indices of the other texts.

        Unlabeled texts beyond the limits are no longer sampled.

        Args:
            indices: indices of the texts to check.
            max_sizes: maximum length in all views, or a tuple with one maximum or None per view.
        """
        limits = max_sizes if isinstance(max_sizes, tuple) else (max_sizes,) * len(self.views)
        fits = np.ones(len(indices), bool)
        for sizes, limit in zip(self.view_sizes, limits, strict=True):
            if limit is not None:
                fits &= sizes[indices] <= limit
        if self.unlabeled is not None:
            self.unlabeled = self.unlabeled._within(limits)
        return indices[fits], indices[~fits].tolist()

    def _within(self, limits: tuple[float | None, ...]) -> TwoViewDataset:
        """Return a dataset that contains only the texts within the limits."""
        kept, long = self.filter_indices_by_size(np.arange(len(self)), limits)
        if not len(kept):
            raise DataError(
                "All unlabeled texts are longer than the model's maximum or --max-tokens. Decrease "
                "--classification-max-length or increase --max-tokens."
            )
        if not long:
            return self
        logger.warning("skipped %s unlabeled texts longer than the model's maximum", len(long))
        return TwoViewDataset(
            self.views, lines=self.lines[kept], max_length=self.max_length, shuffle=self.shuffle
        )

    def ordered_indices(self) -> ViewIds:
        """Return the indices sorted by length. With `shuffle`, shuffle them in length buckets."""
        if not self.shuffle:
            return np.argsort(self.sizes, kind="stable")
        shuffled = np.random.default_rng((self.seed, self.epoch)).permutation(len(self))
        buckets = np.floor(np.log(self.sizes) / np.log(BUCKET_RATIO))
        order: ViewIds = shuffled[np.argsort(buckets[shuffled], kind="stable")]
        return order

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Return a text in all views, with its label, teacher label and unlabeled texts, if any."""
        line = int(self.lines[index])
        item: dict[str, Any] = {"id": index}
        for view in self.views:
            item[view.name] = view.ids(line, self.max_length)
        if self.labels is not None:
            item["label"] = int(self.labels[line])
        if self.teacher is not None:
            item["teacher"] = np.asarray(self.teacher[line], np.float32)
        if self.unlabeled is not None:
            random = np.random.default_rng((self.seed, self.epoch, index))
            chosen = random.integers(0, len(self.unlabeled), self.unlabeled_per_text)
            item["unlabeled"] = [self.unlabeled[int(number)] for number in chosen]
        return item

    def collater(self, samples: list[dict[str, Any]]) -> dict[str, Any]:
        """Return a batch, padded on the right.

        `net_input` contains `src_tokens` [batch, time] and `src_lengths` [batch] for the words, and
        `piece_tokens` [batch, time] for the subwords. The other keys are `target` [batch],
        `teacher` [batch, classes], and `unlabeled`, which is like `net_input` for unlabeled texts.
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
            batch["teacher"] = torch.from_numpy(np.stack([sample["teacher"] for sample in samples]))
        if "unlabeled" in samples[0]:
            batch["unlabeled"] = self._inputs(
                [text for sample in samples for text in sample["unlabeled"]]
            )
        return batch

    def _inputs(self, samples: list[dict[str, Any]]) -> dict[str, Tensor]:
        net_input: dict[str, Tensor] = {}
        for view in self.views:
            ids = [sample[view.name] for sample in samples]
            padded = pad_sequence(ids, batch_first=True, padding_value=view.pad)
            if view.name == WORDS:
                net_input["src_tokens"] = padded
                net_input["src_lengths"] = torch.tensor([len(row) for row in ids])
            else:
                net_input["piece_tokens"] = padded
        return net_input


def _check_lengths(views: Sequence[View], labels: ViewIds | None, teacher: Any) -> None:
    """Raise DataError if views, labels and teacher labels differ in their number of lines."""
    optional: Mapping[str, Any] = {"labels": labels, "teacher probabilities": teacher}
    counts = {view.name: len(view.texts) for view in views}
    counts |= {name: len(array) for name, array in optional.items() if array is not None}
    (first, expected), *rest = counts.items()
    for name, count in rest:
        if count != expected:
            raise DataError(
                f"The data contains {expected} lines of {first}, but {count} lines of {name}. Both "
                "must come from the same lines in the same order. Prepare the data again."
            )


LABEL, LANGUAGE_MODEL = "label", "lm"
UNLABELED = "unlabeled"
EXTRA = "extra"
"""Split of additional unlabeled texts, which vocabularies and language models do not use."""
VIEWS_FILE = "views.json"
"""File with the word tokenization settings, which are also applied to new texts."""


def load_segmenter(name: str) -> Segmenter:
    """Return the word segmenter `words` or `spaces`, or a BERT tokenizer for `bert:FOLDER`."""
    kind, _, folder = name.partition(":")
    if kind == "bert" and folder:
        return pretrained.subword_segmenter(Path(folder).expanduser())
    if name not in CUTS:
        raise ConfigurationError(
            f"{name!r} is not a tokenizer. Expected {', '.join(CUTS)} or bert:FOLDER."
        )
    return CUTS[name]


def build_dictionary(counts: Mapping[str, int], min_count: int = 1) -> Any:
    """Build a fairseq dictionary from the words with a count of `min_count` or more."""
    dictionary = Dictionary()
    for word, count in counts.items():
        dictionary.add_symbol(word, n=count)
    dictionary.finalize(threshold=min_count, nwords=-1, padding_factor=1)
    return dictionary


class ViewWriter:
    """Writer for the dictionary and the splits of one view."""

    def __init__(self, folder: Path, dictionary: Any) -> None:
        self.folder = folder
        self.dictionary = dictionary
        folder.mkdir(parents=True)
        dictionary.save(str(folder / "dict.txt"))

    def write(self, split: str, lines: Iterable[str]) -> int:
        """Write a split. Return the number of out-of-vocabulary tokens."""
        return write_ids(self.folder / f"{split}.bin", lines, self.dictionary)


def link_language_model(folder: Path) -> None:
    """Create a data folder for fairseq's language_modeling task, with links to the word view.

    The unlabeled split is linked as train1, because fairseq concatenates train and train1.
    """
    target = folder / LANGUAGE_MODEL
    target.mkdir()
    names = {"train": "train", "train1": UNLABELED, "valid": "valid", "test": "test"}
    (target / "dict.txt").symlink_to(Path("..") / WORDS / "dict.txt")
    for name, split in names.items():
        for suffix in ("bin", "idx"):
            if (folder / WORDS / f"{split}.{suffix}").exists():
                (target / f"{name}.{suffix}").symlink_to(Path("..") / WORDS / f"{split}.{suffix}")
