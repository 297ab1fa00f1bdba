"""A tiny edit tagger learns to correct sentences, in several rounds where one is not enough."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from fairseq_ssl.edits.coverage import agreement
from tests.conftest import PACKAGE, Run
from tests.learning.learner_sentences import RAIN_STEPS, write

TRAINING = (
    *("--task", "edit_labeling", "--criterion", "edit_cross_entropy", "--arch", "edit_tagger"),
    *("--encoder-layers", "2", "--encoder-embed-dim", "64", "--encoder-ffn-embed-dim", "128"),
    *("--encoder-attention-heads", "4", "--max-source-positions", "32", "--dropout", "0"),
    *("--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--lr", "0.002"),
    *("--lr-scheduler", "polynomial_decay", "--warmup-updates", "50", "--clip-norm", "1"),
    *("--max-tokens", "600", "--max-update", "400", "--total-num-update", "400"),
    *("--seed", "1", "--cpu", "--no-epoch-checkpoints", "--validate-interval", "1000"),
)


@pytest.fixture(scope="module")
def data(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Training and test sentences. Training includes `rain_pairs`."""
    folder = tmp_path_factory.mktemp("learner")
    for number, (split, lines) in enumerate((("train", 4000), ("valid", 50), ("test", 300))):
        write(folder, split, lines, seed=number, rain=100 if split == "train" else 0)
    edits, labels = ("--dictionary", "bin/edits.txt"), ("--label-dict", "labels.txt")
    words: Sequence[str] = ("-o", "bin/edits.txt", "--max-ngram", "1", *labels)
    run("fairseq-ssl", "edits", "dictionary", "train.src", "train.trg", *words, cwd=folder)
    for split in ("train", "valid"):
        sides = (f"{split}.src", f"{split}.trg", "-o", f"{split}.edits")
        run("fairseq-ssl", "edits", "label", *sides, *edits, cwd=folder)
    prefixes = ("--trainpref", "train", "--validpref", "valid", "--destdir", "bin")
    text = ("-s", "src", "-t", "trg", "--joined-dictionary", "--testpref", "test")
    run("fairseq-preprocess", *text, *prefixes, cwd=folder)
    only = ("-s", "edits", "--only-source", "--srcdict", "labels.txt")
    run("fairseq-preprocess", *only, *prefixes, cwd=folder)
    return folder / "bin"


@pytest.fixture(scope="module")
def model(run: Run, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tagger")
    run("fairseq-train", data, "--user-dir", PACKAGE, *TRAINING, "--save-dir", folder)
    return folder / "checkpoint_last.pt"


@pytest.mark.slow
def test_it_corrects_unseen_sentences(run: Run, data: Path, model: Path) -> None:
    words = ("fairseq-generate", data, "--user-dir", PACKAGE, "--task", "edit_labeling")
    shown = run(*words, "--path", model, "--cpu", "--batch-size", "50").stdout
    sides = [dict(re.findall(rf"^{kind}-(\d+)\t(.*)$", shown, re.M)) for kind in "ST"]
    made = dict(re.findall(r"^H-(\d+)\t\S+\t(.*)$", shown, re.M))
    assert len(made) == 300
    found = agreement((sides[0][line], made[line], sides[1][line]) for line in made)
    assert found.reference > 200
    assert found.scores["f0.5"] > 90


@pytest.mark.slow
def test_several_rounds_insert_several_words(run: Run, data: Path, model: Path) -> None:
    """One edit inserts one of three missing words."""
    words = ("fairseq-interactive", data, "--user-dir", PACKAGE, "--task", "edit_labeling")
    for rounds in range(1, 5):
        flags = ("--path", model, "--cpu", "--edit-iterations", str(rounds))
        shown = run(*words, *flags, text="they walk the rain .\n").stdout
        step = RAIN_STEPS[min(rounds, len(RAIN_STEPS) - 1)]
        assert re.findall(r"^H-0\t\S+\t(.*)$", shown, re.M) == [f"they walk {step}the rain ."]
