"""Binarized pairs of numbers in words and in digits, with monolingual text of both."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.conftest import ROOT, Run

LANGUAGES = ("words", "digits")


def write(run: Run, folder: Path, labeled: int, unlabeled: int, valid: int, test: int) -> None:
    """Write FOLDER/bin with pairs, and FOLDER/mono with monolingual text of both languages."""
    sizes = {"labeled": labeled, "unlabeled": unlabeled, "valid": valid, "test": test}
    flags = [word for name, size in sizes.items() for word in (f"--{name}", str(size))]
    run(sys.executable, ROOT / "examples/bytenet/digits.py", folder, *flags)
    names = folder / "dict.txt"
    splits = [f"--{split}pref={folder / split}" for split in ("train", "valid", "test")]
    pairs = ("-s", "words", "-t", "digits", "--srcdict", names, "--tgtdict", names)
    run("fairseq-preprocess", *pairs, *splits, "--destdir", folder / "bin")
    for language in LANGUAGES:
        text = ("--only-source", "-s", language, "--srcdict", names)
        trained = ("--trainpref", folder / "mono", "--destdir", folder / "mono")
        run("fairseq-preprocess", *text, *trained)
