"""GECToR models correct text as the package gector does.

scripts/gector/make_fixture.py writes the models and the expected text.
"""

from __future__ import annotations

import json
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

import fairseq_ssl

pytest.importorskip("transformers")
fairseq_ssl.register()
from fairseq_ssl.inference import CorrectionConfig, Corrector, correct_file  # noqa: E402

FIXTURE = Path(__file__).resolve().parents[2] / "fixtures" / "gector"
ORACLE: dict[str, Any] = json.loads((FIXTURE / "oracle.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("setting", [0, 1, 2])
@pytest.mark.parametrize("name", ORACLE["models"])
def test_corrected_text_is_that_of_gector(name: str, setting: int) -> None:
    run = ORACLE["models"][name][setting]
    corrector = Corrector.from_pretrained(
        FIXTURE / name,
        tokenizer="none",
        keep_bias=run["keep_confidence"],
        min_confidence=run["min_error_prob"],
        min_sentence_confidence=run["min_error_prob"],
    )
    corrected = [line.text for line in corrector.correct(ORACLE["sentences"])]
    assert corrected == run["corrected"]


def test_corrected_file_is_that_of_gector(tmp_path: Path) -> None:
    folder, text = FIXTURE / "bert", tmp_path / "text"
    text.write_text("\n".join(ORACLE["sentences"]) + "\n", encoding="utf-8")
    config = CorrectionConfig((folder,), encoder=folder / "encoder", tokenizer="none")
    correct_file(text, tmp_path / "corrected", config, attrgetter("text"))
    corrected = (tmp_path / "corrected").read_text(encoding="utf-8").splitlines()
    assert corrected == ORACLE["models"]["bert"][0]["corrected"]


def test_an_ensemble_averages_models_with_the_same_labels() -> None:
    run, folder = ORACLE["models"]["bert"][0], FIXTURE / "bert"
    both = Corrector.from_pretrained(folder, FIXTURE / "roberta", weights=(1, 0), tokenizer="none")
    corrected = [line.text for line in both.correct(ORACLE["sentences"])]
    assert corrected == run["corrected"]
    equal = Corrector.from_pretrained(folder, FIXTURE / "roberta", tokenizer="none")
    assert [line.text for line in equal.correct(ORACLE["sentences"])] != corrected
