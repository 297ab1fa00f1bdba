"""``fairseq-ssl learner-errors``: count errors in corrected text."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from fairseq_ssl import __version__
from fairseq_ssl.cli.main import main
from fairseq_ssl.noise.learner_errors import LearnerErrors
from tests.cli.rewriting import refused

WRITTEN = ["I like the nature .", "It is in the Monday .", "He go to home", "", "We agree ."] * 3
CORRECT = ["I like nature .", "It is on Monday .", "He goes home", "x", "We agree !"] * 3


@pytest.fixture
def corpus(tmp_path: Path) -> list[str]:
    """Write the two sides, one of them compressed, and return their names."""
    source, target = tmp_path / "train.src", tmp_path / "train.trg.gz"
    source.write_text("\n".join([*WRITTEN, ""]))
    target.write_bytes(gzip.compress("\n".join([*CORRECT, ""]).encode()))
    return [str(source), str(target)]


def test_counts_are_not_replaced_by_the_signature_of_the_noise(
    corpus: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    counts = tmp_path / "noisy.json"
    assert main(["learner-errors", *corpus, "-o", str(counts)]) == 0
    before = counts.read_bytes()
    words = ["noise", corpus[0], "--method", "learner", "--learner-errors", str(counts)]
    told = refused(capsys, 2, *words, "-o", str(tmp_path / "noisy"))
    assert "noisy.json would be overwritten" in told
    assert counts.read_bytes() == before


def test_errors_of_a_corpus_are_counted(
    corpus: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "words.json"
    assert main(["learner-errors", *corpus, "-o", str(output)]) == 0
    assert LearnerErrors.read(output) == LearnerErrors(
        deleted={"the": 3},  # and not next to another changed word
        missing={},
        replaced={"!": {".": 3}},
        errors=(0, 6, 6, 0, 0),
        kinds={"append": 0, "verb": 3, "replace": 6, "delete": 9},
    )
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.splitlines()[0] == (
        "12 pairs, 1.50 errors each (append 0%, verb 17%, replace 33%, delete 50%), 3 with a blank "
        "side skipped; 1 words deleted, 0 missing, 1 replaced"
    )
    assert f"version:{__version__}\nwrote {output}\n" in shown.err
    content = json.loads(output.read_text())
    assert (content["min_count"], content["pairs"], content["source"]) == (2, 12, corpus[0])
