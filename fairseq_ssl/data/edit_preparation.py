"""Prepare parallel text for word-level edit taggers: edit dictionary, labels, binarized text."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from fairseq.data import Dictionary

from fairseq_ssl.checkpoints.gector import is_gector, read_labels
from fairseq_ssl.data.binarized import write_ids
from fairseq_ssl.data.two_view_dataset import build_dictionary
from fairseq_ssl.edits.coverage import Coverage
from fairseq_ssl.edits.dictionary import EditDictionary
from fairseq_ssl.edits.edits_job import EditDataConfig, build_dictionary_file, label_file
from fairseq_ssl.io.executors import Executor
from fairseq_ssl.io.jobs import ProgressFactory, check_outside, silent_progress
from fairseq_ssl.io.outputs import atomic_folder, write_signature
from fairseq_ssl.io.text_files import read_lines
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.vocabulary import count_line_words

logger = logging.getLogger(__name__)

EDITS_FILE = "edits.txt"
SOURCE, TARGET, EDITS, NONE = "src", "trg", "edits", "None"
"""Language codes for text, labels and a missing side in fairseq-preprocess file names."""
TRAIN = "train"


@dataclass(frozen=True)
class EditDataSummary:
    """Result of `prepare_edit_data`: signature, edit dictionary and statistics."""

    signature: Signature
    dictionary: EditDictionary
    coverage: Mapping[str, Coverage]
    """Coverage of the edits in each split by the edit dictionary."""
    words: int
    """Size of the token dictionary, including special symbols."""


def prepare_edit_data(
    splits: Mapping[str, tuple[Path, Path]],
    output: Path,
    config: EditDataConfig,
    *,
    executor: Executor | None = None,
    progress: ProgressFactory = silent_progress,
) -> EditDataSummary:
    """Write a data folder with word-level edit labels for the task edit_labeling.

    The token dictionary contains the words of all splits, so that no word becomes <unk> before the
    encoder splits it into subwords. The dictionary has no effect on the model.

    Args:
        splits: uncorrected and corrected text by split name. `train` is required.
        output: the folder to create.
        config: the edit dictionary to build or to use.
        executor: executor that counts and labels (default: the current process does).
        progress: creates the progress report, which receives the number of processed pairs.
    """
    if "valid" not in splits:
        logger.warning(
            "No `valid` pairs are prepared. fairseq-train needs them, or --disable-validation."
        )
    read = [*chain.from_iterable(splits.values()), *filter(None, [config.dictionary])]
    check_outside(output, read)
    coverage: dict[str, Coverage] = {}
    parameters: dict[str, Any] = {}
    files: dict[str, str] = {}
    with atomic_folder(output) as folder, tempfile.TemporaryDirectory() as temporary:
        edits = folder / EDITS_FILE
        if config.dictionary is None:
            built = build_dictionary_file(
                *splits[TRAIN], edits, config, executor=executor, progress=progress
            )
            dictionary = built.dictionary
            names = ("size", "max_ngram", "transforms", "groups")
            parameters = {name: built.signature.parameters[name] for name in names}
            files["transforms"] = str(config.transforms)
        else:
            dictionary = _read_dictionary(config.dictionary)
            dictionary.write(edits)
            files["dictionary"] = str(config.dictionary)
        texts = map(read_lines, chain.from_iterable(splits.values()))
        words = build_dictionary(count_line_words(chain.from_iterable(texts)))
        labels = Dictionary()
        for label in dictionary.names:  # the task expects this order
            labels.add_symbol(label)
        for language, symbols in ((SOURCE, words), (TARGET, words), (EDITS, labels)):
            symbols.save(str(folder / f"dict.{language}.txt"))
        for name, paths in splits.items():
            for path, language in zip(paths, (SOURCE, TARGET), strict=True):
                text = folder / f"{name}.{SOURCE}-{TARGET}.{language}.bin"
                write_ids(text, read_lines(path), words)
            lines = Path(temporary) / name
            labeled = label_file(*paths, lines, edits, executor=executor, progress=progress)
            assert labeled is not None
            coverage[name] = labeled.coverage
            write_ids(folder / f"{name}.{EDITS}-{NONE}.{EDITS}.bin", read_lines(lines), labels)
        counted = {name: split_coverage.pairs for name, split_coverage in coverage.items()}
        parameters |= {
            **{"words": len(words), **counted},
            "labels": len(dictionary.labels),
            "fingerprint": dictionary.fingerprint,
        }
        signature = Signature("edits-prepare", parameters, files)
    write_signature(signature, output)
    return EditDataSummary(signature, dictionary, coverage, len(words))


def _read_dictionary(path: Path) -> EditDictionary:
    """Read an edit dictionary file or the labels of a GECToR model."""
    return read_labels(path).edits if is_gector(path) else EditDictionary.read(path)
