"""A SHAPE transformer learns: the toy task, in a minute, to a threshold a broken one misses."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tests.conftest import PACKAGE, ROOT, Run

TRAINING = (
    *("--arch", "shape_transformer_tiny", "--shape-max-shift", "16", "--dropout", "0"),
    *("--encoder-normalize-before", "--decoder-normalize-before", "--share-all-embeddings"),
    *("--encoder-embed-dim", "128", "--encoder-attention-heads", "4"),
    *("--decoder-attention-heads", "4", "--optimizer", "adam", "--adam-betas", "(0.9, 0.98)"),
    *("--lr", "0.002", "--lr-scheduler", "polynomial_decay", "--warmup-updates", "100"),
    *("--criterion", "cross_entropy", "--max-tokens", "1000", "--seed", "1", "--cpu"),
    *("--no-epoch-checkpoints", "--validate-interval", "100", "--log-format", "simple"),
)
UPDATES = "700"


def test_it_learns_lists_of_numbers(run: Run, tmp_path: Path) -> None:
    maker = ROOT / "examples/common/number_words.py"
    text, data = tmp_path / "text", tmp_path / "data"
    sizes = ("--numbers", "12", "--trained-length", "4", "--longest", "4", "--train-lines", "4000")
    run(sys.executable, maker, text, *sizes)
    splits = [f"--{split}pref={text / split}" for split in ("train", "valid", "test")]
    languages = ("-s", "words", "-t", "digits", "--joined-dictionary")
    run("fairseq-preprocess", *languages, *splits, "--destdir", data)
    steps = ("--max-update", UPDATES, "--total-num-update", UPDATES)
    run("fairseq-train", data, "--user-dir", PACKAGE, *TRAINING, *steps, "--save-dir", tmp_path)
    words = ("fairseq-generate", data, "--user-dir", PACKAGE, "--beam", "1", "--cpu")
    shown = run(*words, "--path", tmp_path / "checkpoint_last.pt").stdout
    references = dict(re.findall(r"^T-(\d+)\t(.*)$", shown, re.M))
    answers = dict(re.findall(r"^H-(\d+)\t\S+\t(.*)$", shown, re.M))
    assert len(references) == 200
    right = sum(answers[line] == reference for line, reference in references.items())
    assert right > 190
