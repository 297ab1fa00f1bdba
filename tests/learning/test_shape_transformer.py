"""Position encodings on a toy task, with lists up to twice as long as in training."""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from tests.conftest import PACKAGE, ROOT, Run

TRAINED, LONGEST, TEST_LINES = 4, 8, 100
LEARNED, LONGER = range(1, TRAINED + 1), range(TRAINED + 2, LONGEST + 1)
TRAINING = (
    *("--arch", "shape_transformer_tiny", "--dropout", "0", "--share-all-embeddings"),
    *("--encoder-normalize-before", "--decoder-normalize-before"),
    *("--encoder-embed-dim", "128", "--encoder-attention-heads", "4"),
    *("--decoder-attention-heads", "4", "--optimizer", "adam", "--adam-betas", "(0.9, 0.98)"),
    *("--lr", "0.003", "--lr-scheduler", "polynomial_decay", "--warmup-updates", "200"),
    *("--criterion", "label_smoothed_cross_entropy", "--label-smoothing", "0.1"),
    *("--max-tokens", "500", "--max-update", "500", "--total-num-update", "500"),
    *("--seed", "2", "--cpu", "--no-epoch-checkpoints", "--validate-interval", "1000"),
)


@pytest.fixture(scope="module")
def data(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Training lists of up to 4 numbers, and test lists of up to 8."""
    folder = tmp_path_factory.mktemp("numbers")
    maker = ROOT / "examples/common/number_words.py"
    lengths = ("--trained-length", str(TRAINED), "--longest", str(LONGEST))
    sizes = ("--numbers", "12", "--train-lines", "4000", "--test-lines", str(TEST_LINES))
    run(sys.executable, maker, folder, *lengths, *sizes)
    splits = [f"--{split}pref={folder / split}" for split in ("train", "valid", "test")]
    languages = ("-s", "words", "-t", "digits", "--joined-dictionary")
    run("fairseq-preprocess", *languages, *splits, "--destdir", folder / "bin")
    return folder / "bin"


def shares_right(run: Run, data: Path, save_dir: Path, *positions: str) -> tuple[float, float]:
    """Train a model. Return the shares of correct `LEARNED` and `LONGER` lists of the test set."""
    user_dir = ("--user-dir", PACKAGE)
    run("fairseq-train", data, *user_dir, *TRAINING, *positions, "--save-dir", save_dir)
    words = ("fairseq-generate", data, *user_dir, "--beam", "1", "--max-len-a", "2", "--cpu")
    shown = run(*words, "--path", save_dir / "checkpoint_last.pt").stdout
    references = dict(re.findall(r"^T-(\d+)\t(.*)$", shown, re.M))
    answers = dict(re.findall(r"^H-(\d+)\t\S+\t(.*)$", shown, re.M))
    assert len(references) == LONGEST * TEST_LINES
    right: dict[int, int] = defaultdict(int)
    for line, reference in references.items():
        right[len(reference.split())] += answers[line] == reference
    learned, longer = (
        sum(right[length] for length in lengths) / len(lengths) / TEST_LINES
        for lengths in (LEARNED, LONGER)
    )
    return learned, longer


@pytest.mark.slow
def test_shifted_positions_generalize_to_longer_lists(run: Run, data: Path, tmp_path: Path) -> None:
    shifted = ("--shape-positions", "shifted", "--shape-max-shift", "8")
    learned, longer = shares_right(run, data, tmp_path, *shifted)
    assert learned > 0.9
    assert longer > 0.15, "absolute positions stay below"
