"""Jobs of models that resume: the time of all runs, and changed models."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairseq_ssl.inference import back_translation, correction, nbest_scores
from fairseq_ssl.inference.back_translation import _BackTranslationJob
from fairseq_ssl.inference.decoders import Conversion
from fairseq_ssl.inference.scoring import LANGUAGE_MODEL, Scored, ScoringConfig
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
    boost = {"fluency_boost_lm": model, "fluency_boost_data": files}
    before = translation(files, beam=4, nbest=4, **boost).params
    os.utime(model, ns=(1, 1))
    assert translation(files, beam=4, nbest=4, **boost).params != before


def test_another_dictionary_is_another_job(files: Path) -> None:
    dictionary = files / "dict.src.txt"
    dictionary.write_text("a 1\nb 1\n")
    config = DecodingConfig((files / "model.pt",), files)
    tagger = correction.CorrectionConfig((files / "model.pt",), files)
    language_model = ScoringConfig(LANGUAGE_MODEL, (files / "model.pt",), "lm", data_dir=files)
    nbest = dict.fromkeys(("list", "source", "source_subwords", "subwords", "unigrams"))
    text = TextInput(files / "text")

    def params() -> list[dict[str, Any]]:
        return [
            translation(files).params,
            Conversion.of(config)._params(),
            correction._CorrectionJob(text, tagger, str, "text", [], *WORK).params,
            nbest_scores._NBestJob(language_model, None, nbest, 1024, *WORK).params,
        ]

    before = params()
    os.utime(dictionary, ns=(1, 1))
    assert params() == before
    dictionary.write_text("b 1\na 1\n")
    assert all(one != other for one, other in zip(params(), before, strict=True))


class RecordingExecutor:
    """Executor of this process that records its functions, as a Ray worker receives them."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, Any]] = []

    def imap(self, work: Any, items: Any) -> Iterator[Any]:
        for item in items:
            self.calls.append((work, item))
            yield work(item)


class FakeModel:
    """Decoder, corrector and scorer that counts how often it is loaded."""

    loaded = 0

    def __init__(self, *config: Any) -> None:
        FakeModel.loaded += 1

    def set_seed(self, seed: int) -> None:
        pass

    def decode(self, sentences: Any, ids: Any) -> list[list[str]]:
        return [[""] for _ in sentences]

    def correct(self, lines: Any) -> list[correction.CorrectedLine]:
        return [correction.CorrectedLine(line, line, ()) for line in lines]

    def score(self, pairs: Any) -> Scored:
        return Scored([(0.0, 0.0) for _ in pairs], 1, 0, 0)


@pytest.mark.parametrize("kind", ["translation", "correction", "scores"])
def test_a_worker_that_is_kept_loads_changed_models(
    files: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setitem(back_translation.DECODERS, "fairseq", FakeModel)
    monkeypatch.setattr(back_translation, "_prepare", lambda config, engine: config)
    monkeypatch.setattr(correction, "Corrector", FakeModel)
    monkeypatch.setattr(nbest_scores, "scorer_loader", lambda config: FakeModel)
    (files / "list").write_text("0 ||| a ||| s= 1\n")
    executor = RecordingExecutor()
    work: Any = (executor, silent_progress)
    models, text = (files / "model.pt",), TextInput(files / "text")
    for _ in range(2):
        (files / "model.pt").write_text(f"{FakeModel.loaded}")
        os.utime(files / "model.pt", ns=(FakeModel.loaded, FakeModel.loaded))
        nbest = dict.fromkeys(("source", "source_subwords", "subwords", "unigrams"))
        job: Any = {
            "translation": _BackTranslationJob(DecodingConfig(models), "fairseq", text, {}, *work),
            "correction": correction._CorrectionJob(
                text, correction.CorrectionConfig(models), as_text, "text", [], *work
            ),
            "scores": nbest_scores._NBestJob(
                ScoringConfig(LANGUAGE_MODEL, models, "lm"),
                None,
                {"list": files / "list", **nbest},
                1024,
                *work,
            ),
        }[kind]
        assert list(job.chunks({}))
    before = FakeModel.loaded
    ((work, item), _) = executor.calls
    work(item)
    assert FakeModel.loaded == before + 1
    work(item)
    assert FakeModel.loaded == before + 1


def as_text(line: correction.CorrectedLine) -> str:
    return line.text
