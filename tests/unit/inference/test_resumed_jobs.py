"""Jobs of models that resume: the time of all runs, and changed inputs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from fairseq_ssl.inference import correction, nbest_scores
from fairseq_ssl.inference.back_translation import _BackTranslationJob
from fairseq_ssl.inference.decoders import Conversion
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
    text = TextInput(folder / "text")
    return _BackTranslationJob(config, "fairseq", text, {}, *WORK)


def nbest(folder: Path, text: Path | None = None) -> nbest_scores._NBestJob:
    scoring = ScoringConfig(LANGUAGE_MODEL, (folder / "model.pt",), "lm", data_dir=folder)
    files = dict.fromkeys(("list", "source", "source_subwords", "subwords", "unigrams"))
    return nbest_scores._NBestJob(scoring, None, {**files, "list": text}, 1024, *WORK)


def tagging(folder: Path) -> correction._CorrectionJob:
    config = correction.CorrectionConfig((folder / "model.pt",), folder)
    text = TextInput(folder / "text")
    return correction._CorrectionJob(text, config, as_text, "text", [], *WORK)


def as_text(line: correction.CorrectedLine) -> str:
    return line.text


def test_the_time_includes_interrupted_runs(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last block was written before the interruption, so that no line is left."""
    monkeypatch.setattr(nbest_scores, "scorer_loader", lambda config: None)
    totals = {"lines": 2, "candidates": 2}
    jobs: list[Any] = [translation(files), tagging(files), nbest(files, text=files / "text")]
    for job in jobs:
        assert not list(job.chunks({"position": len(TEXT), "totals": totals, "time": 5.0}))
        assert job.summary().seconds == 5


def test_another_language_model_for_fluency_boost_is_another_job(files: Path) -> None:
    model = files / "lm.pt"
    model.touch()
    boost = {"fluency_boost_lm": model, "fluency_boost_data": files}
    before = translation(files, beam=4, nbest=4, **boost).params
    os.utime(model, ns=(1, 1))
    assert translation(files, beam=4, nbest=4, **boost).params != before


def test_another_dictionary_is_another_job(files: Path) -> None:
    dictionary = files / "dict.src.txt"
    dictionary.write_text("a 1\nb 1\n")
    config = DecodingConfig((files / "model.pt",), files)

    def params() -> list[dict[str, Any]]:
        jobs: list[Any] = [translation(files), tagging(files), nbest(files)]
        return [Conversion.of(config)._params(), *(dict(job.params) for job in jobs)]

    before = params()
    os.utime(dictionary, ns=(1, 1))
    assert params() == before
    dictionary.write_text("b 1\na 1\n")
    assert all(one != other for one, other in zip(params(), before, strict=True))
