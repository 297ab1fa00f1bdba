"""Binarized text with edit labels, for the tests of edit taggers."""

from __future__ import annotations

from pathlib import Path

import pytest
from fairseq import options
from fairseq_cli import preprocess

from fairseq_ssl.cli.main import main


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
