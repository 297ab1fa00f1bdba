"""A pseudo-bidirectional Transformer learns from fewer sentences than a Transformer.

Sentences are copied except for the verb, whose form depends on the last word.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import PACKAGE, Run
from tests.learning.late_decisions import binarize

TEST_LINES = 300
SEEDS = ("1", "2")
TRAINING = (
    *("--dropout", "0.1", "--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--lr", "0.005"),
    *("--lr-scheduler", "inverse_sqrt", "--warmup-updates", "100", "--max-update", "300"),
    *("--criterion", "label_smoothed_cross_entropy", "--label-smoothing", "0.1"),
    *("--max-tokens", "500", "--cpu", "--no-epoch-checkpoints"),
    *("--validate-interval", "1000", "--encoder-layers", "2", "--encoder-embed-dim", "64"),
    *("--encoder-ffn-embed-dim", "64", "--encoder-attention-heads", "2"),
)
STOCK = (
    *("--decoder-layers", "2", "--decoder-embed-dim", "64", "--decoder-ffn-embed-dim", "64"),
    *("--decoder-attention-heads", "2", "--share-all-embeddings"),
)


@pytest.fixture(scope="module")
def data(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """150 training sentences and 300 test sentences."""
    sizes = {"train": 150, "valid": 100, "test": TEST_LINES}
    return binarize(run, tmp_path_factory.mktemp("late"), sizes, first_seed=1)


def right(run: Run, data: Path, save_dir: Path, *arch: str) -> float:
    """Train a model with each seed. Return the mean share of correct test sentences."""
    shares = [right_of_seed(run, data, save_dir / seed, seed, *arch) for seed in SEEDS]
    return sum(shares) / len(shares)


def right_of_seed(run: Run, data: Path, save_dir: Path, seed: str, *arch: str) -> float:
    user_dir = ("--user-dir", PACKAGE)
    flags = ("--seed", seed, "--save-dir", save_dir)
    run("fairseq-train", data, *user_dir, *TRAINING, "--arch", *arch, *flags)
    words = ("fairseq-generate", data, *user_dir, "--beam", "1", "--cpu")
    shown = run(*words, "--path", save_dir / "checkpoint_last.pt").stdout
    wanted = dict(re.findall(r"^T-(\d+)\t(.*)$", shown, re.M))
    made = dict(re.findall(r"^H-(\d+)\t\S+\t(.*)$", shown, re.M))
    assert len(wanted) == TEST_LINES
    return float(sum(made[line] == sentence for line, sentence in wanted.items()) / TEST_LINES)


@pytest.mark.slow
def test_it_is_more_accurate_than_a_transformer_of_the_same_size(
    run: Run, data: Path, tmp_path: Path
) -> None:
    """With three seeds, 85 to 92 % are correct, against 82 to 85 %."""
    ours = right(run, data, tmp_path / "ours", "pseudo_bidirectional_transformer")
    stock = right(run, data, tmp_path / "stock", "transformer", *STOCK)
    assert ours > 0.85
    assert ours > stock + 0.02
