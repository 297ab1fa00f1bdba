"""Imitators reduce the error of an expert if few texts have labels."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from fairseq_ssl.cli.main import main
from fairseq_ssl.data.two_view_dataset import PIECES, WORDS
from tests.conftest import ROOT, Run
from tests.plugin import classification as made

EXPERT = ("--recurrent-embed-dim", "32", "--recurrent-hidden-dim", "32", "--lr", "0.003")
IMITATORS = ("--imitator-embed-dim", "32", "--imitator-channels", "32", "--lr", "0.003")


def error(checkpoint: Path, data: Path) -> float:
    model, task = made.loaded(checkpoint, data)
    texts, labels = task.unlabeled("test", [WORDS, PIECES]), task.labels("test")
    batch = texts.collater([texts[number] for number in range(len(texts))])["net_input"]
    with torch.no_grad():
        said = model(**batch).argmax(-1).numpy()
    return float(100 * np.mean(said != labels))


@pytest.mark.slow
def test_imitators_reduce_the_error_unlike_random_vectors(run: Run, tmp_path: Path) -> None:
    """200 labeled texts have few of the 300 phrases, the 4,000 texts that the expert labels all."""
    text, data = tmp_path / "text", tmp_path / "data"
    maker = ROOT / "examples/mein/toy_reviews.py"
    run(sys.executable, maker, text, "--train", "200", "--unlabeled", "4000")
    files = ["--valid", text / "dev.tsv", "--test", text / "test.tsv"]
    files += ["--unlabeled", text / "unlabelled.txt", "--subword-vocab-size", "800", "-o", data]
    assert main(["classify", "prepare", *map(str, [text / "train.tsv", *files])]) == 0
    expert = made.expert(data, tmp_path / "expert", *EXPERT, epochs=4)
    batches = ("--batch-size", "32")
    imitators = made.imitators(
        data, tmp_path / "imitators", expert, *IMITATORS, *batches, "--max-epoch", "3"
    )
    both = ("--mixture-imitators", imitators, "--mixture-lambda", "3", "--lr", "0.0001")
    mixture = made.mixture(data, tmp_path / "mixture", expert, *both)
    random = ("--mixture-random", "2", "--mixture-lambda", "3", "--lr", "0.0001")
    control = made.mixture(data, tmp_path / "random", expert, *random)
    errors = {
        name: error(path, data)
        for name, path in {"alone": expert, "imitators": mixture, "random": control}.items()
    }
    assert errors["imitators"] < errors["alone"] - 1, errors
    assert errors["random"] > errors["alone"] - 1, errors
