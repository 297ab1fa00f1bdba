"""Jobs of models that resume: the time of all runs, and changed models."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from fairseq_ssl.inference import correction, nbest_scores
from fairseq_ssl.inference.back_translation import _BackTranslationJob
from fairseq_ssl.inference.scoring import LANGUAGE_MODEL, ScoringConfig
from fairseq_ssl.inference.translation import DecodingConfig
from fairseq_ssl.io.executors import LocalExecutor
from fairseq_ssl.io.jobs import TextInput, silent_progress

TEXT = "one\ntwo\n"
WORK = (LocalExecutor(1), silent_progress)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "model.pt").touch()
    (tmp_path / "text").write_text(TEXT)
    return tmp_path


def translation(folder: Path, **options: Any) -> _BackTranslationJob:
    config = DecodingConfig((folder / "model.pt",), folder, **options)
    return _BackTranslationJob(config, "fairseq", TextInput(folder / "text"), {}, *WORK)


def test_the_time_includes_interrupted_runs(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last block was written before the interruption, so that no line is left."""
    monkeypatch.setattr(nbest_scores, "scorer_loader", lambda config: None)
    models = (files / "model.pt",)
    tagger = correction.CorrectionConfig(models)
    scoring = ScoringConfig(LANGUAGE_MODEL, models, "lm")
    names = ("list", "source", "source_subwords", "subwords", "unigrams")
    nbest = {name: files / "text" if name == "list" else None for name in names}
    jobs: list[Any] = [
        translation(files),
        correction._CorrectionJob(TextInput(files / "text"), tagger, str, "text", [], *WORK),
        nbest_scores._NBestJob(scoring, None, nbest, 1024, *WORK),
    ]
    totals = {"lines": 2, "candidates": 2}
    for job in jobs:
        assert not list(job.chunks({"position": len(TEXT), "totals": totals, "time": 5.0}))
        assert job.summary().seconds == 5


def test_another_language_model_for_fluency_boost_is_another_job(files: Path) -> None:
    model = files / "lm.pt"
    model.touch()
    before = translation(files, beam=4, nbest=4, fluency_boost_lm=model).params
    os.utime(model, ns=(1, 1))
    assert translation(files, beam=4, nbest=4, fluency_boost_lm=model).params != before
