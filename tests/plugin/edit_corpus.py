"""Binarized text with edit labels, and training on it, for the tests of edit taggers."""

from __future__ import annotations

from pathlib import Path

import pytest

import fairseq_ssl
from fairseq_ssl.cli.main import main
from tests.conftest import PACKAGE
from tests.learning.learner_sentences import write

fairseq_ssl.register()
from fairseq import options  # noqa: E402
from fairseq.dataclass.utils import convert_namespace_to_omegaconf  # noqa: E402
from fairseq_cli import preprocess, train  # noqa: E402

TASK = ("--user-dir", str(PACKAGE), "--task", "edit_labeling")
TRAINING = (
    *(*TASK, "--criterion", "edit_cross_entropy", "--arch", "edit_tagger", "--optimizer", "adam"),
    *("--lr", "0.01", "--clip-norm", "1", "--max-tokens", "2000", "--max-source-positions", "100"),
    *("--no-epoch-checkpoints", "--seed", "1", "--cpu", "--num-workers", "0"),
)
WORDS = ("--edit-unit", "word")


def write_corpus(folder: Path, *flags: str) -> None:
    """Write and binarize sentences of learners. `flags` are options of edits dictionary."""
    write(folder, "train", 60, seed=1)
    write(folder, "valid", 20, seed=2)
    binarize(folder, *flags)


def trained(data: Path, folder: Path, *flags: str) -> Path:
    """Train on a data folder with `TRAINING` and `flags`. Return the last checkpoint."""
    words = [str(data), *TRAINING, "--save-dir", str(folder), *flags]
    parser = options.get_training_parser()
    train.main(convert_namespace_to_omegaconf(options.parse_args_and_arch(parser, words)))
    return folder / "checkpoint_last.pt"


def binarize(folder: Path, *flags: str) -> None:
    """Label and binarize {train,valid}.{src,trg} of a folder to its folder bin.

    `flags` are options of edits dictionary.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        sides = ["train.src", "train.trg", "-o", "bin/edits.txt", "--label-dict", "labels.txt"]
        assert main(["edits", "dictionary", *sides, *flags]) == 0
        for split in ("train", "valid"):
            words = [f"{split}.src", f"{split}.trg", "-o", f"{split}.edits"]
            assert main(["edits", "label", *words, "--dictionary", "bin/edits.txt"]) == 0
        prefixes = "--trainpref train --validpref valid --destdir bin"
        for shown in (
            f"-s src -t trg --joined-dictionary {prefixes}",
            f"-s edits --only-source --srcdict labels.txt {prefixes}",
        ):
            preprocess.main(options.get_preprocessing_parser().parse_args(shown.split()))
