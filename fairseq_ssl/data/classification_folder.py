"""Data folders of text classification: labeled and unlabeled texts in two views, binarized."""

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
"""Extra unlabeled texts, which vocabularies and language models do not use."""
VIEWS_FILE = "views.json"
"""File with the tokenization of words, for other texts."""


def load_segmenter(name: str) -> Segmenter:
    """Return the segmenter of words: words, spaces, or bert:FOLDER for a BERT's tokenizer."""
    kind, _, folder = name.partition(":")
    if kind == "bert" and folder:
        return pretrained.subword_segmenter(Path(folder).expanduser())
    if name not in CUTS:
        raise ConfigurationError(
            f"{name!r} is not a segmenter of words. Expected {', '.join(CUTS)} or bert:FOLDER."
        )
    return CUTS[name]


def build_dictionary(counts: Mapping[str, int], min_count: int = 1) -> Any:
    """Return a fairseq dictionary of the words with at least `min_count` occurrences."""
    dictionary = Dictionary()
    for word, count in counts.items():
        dictionary.add_symbol(word, n=count)
    dictionary.finalize(threshold=min_count, nwords=-1, padding_factor=1)
    return dictionary


class ViewWriter:
    """Writes the dictionary and the splits of one view."""

    def __init__(self, folder: Path, dictionary: Any) -> None:
        self.folder = folder
        self.dictionary = dictionary
        folder.mkdir(parents=True)
        dictionary.save(str(folder / "dict.txt"))

    def write(self, split: str, lines: Iterable[str]) -> int:
        """Write a split. Return its number of unknown words."""
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
    """Create the data folder of --task language_modeling by links to the words.

    train1 links to the unlabeled split, since fairseq concatenates train and train1.
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
    "build_dictionary",
    "link_language_model",
    "load_segmenter",
]
