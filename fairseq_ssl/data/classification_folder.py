"""A folder of labeled and unlabeled texts in two views, binarized as fairseq-preprocess does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fairseq.data import Dictionary, indexed_dataset
from fairseq.data.indexed_dataset import MMapIndexedDatasetBuilder

from fairseq_ssl.checkpoints import pretrained
from fairseq_ssl.data.two_view_dataset import PIECES, WORDS
from fairseq_ssl.errors import ConfigurationError, DataError
from fairseq_ssl.text.labeled_text import CUTS, Segmenter

LABEL, LANGUAGE_MODEL = "label", "lm"
UNLABELED = "unlabeled"
EXTRA = "extra"
"""Extra unlabeled texts, not counted in vocabularies or used for language models."""
VIEWS_FILE = "views.json"
"""How words were cut, for those who cut other texts alike."""


def cut_named(name: str) -> Segmenter:
    """Return how words are cut: words, spaces, or bert:FOLDER as that language model cuts them."""
    kind, _, folder = name.partition(":")
    if kind == "bert" and folder:
        return pretrained.subword_segmenter(Path(folder).expanduser())
    if name not in CUTS:
        raise ConfigurationError(
            f"Words are cut by {name!r}; expected {', '.join(CUTS)} or bert:FOLDER."
        )
    return CUTS[name]


def dictionary_of(counts: Mapping[str, int], least: int = 1) -> Any:
    """Return fairseq's dictionary of what comes so often at least, more frequent ones first."""
    found = Dictionary()
    for word, count in counts.items():
        found.add_symbol(word, n=count)
    found.finalize(threshold=least, nwords=-1, padding_factor=1)
    return found


class ViewWriter:
    """Writes the splits of one view, and its dictionary."""

    def __init__(self, folder: Path, dictionary: Any) -> None:
        self.folder = folder
        self.dictionary = dictionary
        folder.mkdir(parents=True)
        dictionary.save(str(folder / "dict.txt"))

    def write(self, split: str, lines: Iterable[str]) -> int:
        """Write a split; return how many words of it are unknown."""
        prefix = str(self.folder / split)
        dtype = indexed_dataset.best_fitting_int_dtype(len(self.dictionary))
        builder = MMapIndexedDatasetBuilder(indexed_dataset.data_file_path(prefix), dtype=dtype)
        unknown, count = 0, 0
        for line in lines:
            ids = self.dictionary.encode_line(line, add_if_not_exist=False, append_eos=True)
            unknown += int((ids == self.dictionary.unk()).sum())
            builder.add_item(ids)
            count += 1
        builder.finalize(indexed_dataset.index_file_path(prefix))
        if not count:
            raise DataError(f"The split {split} has no lines. Expected a line or more.")
        return unknown


def link_language_model(folder: Path) -> None:
    """Make what --task language_modeling trains on: the words, labeled or not, without copies.

    fairseq takes train and train1 for one training set.
    """
    target = folder / LANGUAGE_MODEL
    target.mkdir()
    names = {"train": "train", "train1": UNLABELED, "valid": "valid", "test": "test"}
    (target / "dict.txt").symlink_to(Path("..") / WORDS / "dict.txt")
    for name, split in names.items():
        for suffix in ("bin", "idx"):
            if (folder / WORDS / f"{split}.{suffix}").exists():
                (target / f"{name}.{suffix}").symlink_to(Path("..") / WORDS / f"{split}.{suffix}")


__all__ = [
    "EXTRA",
    "LABEL",
    "PIECES",
    "UNLABELED",
    "VIEWS_FILE",
    "WORDS",
    "ViewWriter",
    "cut_named",
    "dictionary_of",
    "link_language_model",
]
