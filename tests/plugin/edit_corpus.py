"""Binarized text with edit labels, and training on it, for the tests of edit taggers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import fairseq_ssl
from fairseq_ssl.cli.main import main
from fairseq_ssl.edits.rounds import EditRounds
from fairseq_ssl.inference.correction import CorrectionConfig, load_rounds
from tests import pretrained
from tests.conftest import PACKAGE
from tests.learning.learner_sentences import write

fairseq_ssl.register()
from fairseq import options  # noqa: E402
from fairseq_cli import preprocess, train  # noqa: E402

from tests.plugin.runs import parsed  # noqa: E402

TASK = ("--user-dir", str(PACKAGE), "--task", "edit_labeling")
TRAINING = (
    *(*TASK, "--criterion", "edit_cross_entropy", "--arch", "edit_tagger", "--optimizer", "adam"),
    *("--lr", "0.01", "--clip-norm", "1", "--max-tokens", "2000", "--max-source-positions", "100"),
    *("--no-epoch-checkpoints", "--seed", "1", "--cpu", "--num-workers", "0"),
)
WORDS = ("--edit-unit", "word")


SMALL = (
    *("--arch", "edit_tagger_small", "--encoder-layers", "1", "--encoder-embed-dim", "32"),
    *("--encoder-ffn-embed-dim", "32", "--max-source-positions", "32", "--max-tokens", "500"),
)
TINY = (
    *("--encoder-layers", "1", "--encoder-embed-dim", "8", "--encoder-ffn-embed-dim", "8"),
    *("--encoder-attention-heads", "2"),
)
FEW = ("--lr", "0.02", "--max-update", "4", "--max-source-positions", "36", "--disable-validation")


def build_data(folder: Path) -> None:
    """Write the content of the fixture `learner_data`."""
    write(folder, "train", 400, seed=1)
    write(folder, "valid", 60, seed=2)
    binarize(folder)
    pretrained.bert(folder / "bert")
    pretrained.electra(folder / "electra", seed=2)


def build_taggers(folder: Path, data: Path) -> None:
    """Write the content of the fixture `taggers`."""
    (folder / "bin").symlink_to(data / "bin")
    for name, flags in {
        "learned": (*SMALL, "--max-update", "60", "--edit-detection"),
        "token": (*FEW, *TINY, "--edit-detection"),
        "bert": (*FEW, *WORDS, "--edit-init", str(data / "bert")),
        "unfactorized": (*FEW, *WORDS, "--edit-unfactorized", "--edit-init", str(data / "bert")),
        "electra": (*FEW, *WORDS, "--edit-unfactorized", "--edit-init", str(data / "electra")),
    }.items():
        trained(data / "bin", folder / "runs" / name, *flags).rename(folder / f"{name}.pt")


def write_corpus(folder: Path, *flags: str) -> None:
    """Write and binarize sentences of learners. `flags` are options of edits dictionary."""
    write(folder, "train", 60, seed=1)
    write(folder, "valid", 20, seed=2)
    binarize(folder, *flags)


def trained(data: Path, folder: Path, *flags: str) -> Path:
    """Train on a data folder with `TRAINING` and `flags`. Return the last checkpoint."""
    train.main(parsed(data, *TRAINING, "--save-dir", folder, *flags))
    return folder / "checkpoint_last.pt"


def loaded(*models: Path, **options: Any) -> EditRounds:
    """Load an edit tagger or an ensemble. `options` are fields of `CorrectionConfig`."""
    return load_rounds(CorrectionConfig(models, **options))


def corrected(rounds: EditRounds, lines: Iterable[str], batch_size: int = 64) -> list[str]:
    """Correct lines of tokens."""
    sentences = rounds.correct([line.split() for line in lines], batch_size)
    return [" ".join(sentence.tokens) for sentence in sentences]


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
