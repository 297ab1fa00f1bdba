"""BLEU of corpora and of sentences."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import sacrebleu

from fairseq_ssl.metrics.bleu import Bleu, BleuSums

FOUND = ["a b c d e", "the cat sat on the mat", "no match whatsoever here at all"]
REFERENCES = ["a b c d e", "the cat sat on a mat", "something quite different was said there"]


def test_score_equals_that_of_the_sacrebleu_command(tmp_path: Path) -> None:
    (tmp_path / "found").write_text("\n".join(FOUND) + "\n")
    (tmp_path / "reference").write_text("\n".join(REFERENCES) + "\n")
    command = [sys.executable, "-m", "sacrebleu", "reference", "-i", "found", "-b", "-w", "4"]
    shown = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    score = Bleu([REFERENCES]).corpus_score(FOUND).score
    assert score == pytest.approx(float(shown.stdout), abs=1e-4)
    assert BleuSums().signature().startswith("nrefs:1|case:mixed|eff:no|tok:13a")


@pytest.mark.parametrize(
    ("hypothesis", "reference"),
    [("a b c", "a b c"), ("a x c d e", "a b c d e"), ("", "a"), ("a", "a b")],
)
def test_sentence_bleu_equals_that_of_sacrebleu(hypothesis: str, reference: str) -> None:
    aim = BleuSums()
    ((row,),) = aim.counts([[hypothesis]], [[reference]])
    expected = sacrebleu.sentence_bleu(hypothesis, [reference]).score
    assert aim.by_sentence(np.array(row)) == pytest.approx(expected)
