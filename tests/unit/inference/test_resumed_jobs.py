"""Jobs of models that resume: changed models and dictionaries."""

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
from fairseq_ssl.io.corpus import Corpus
from fairseq_ssl.io.executors import LocalExecutor
from fairseq_ssl.io.jobs import silent_progress
from fairseq_ssl.io.text_jobs import Outputs

WORK = (LocalExecutor(1), silent_progress)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "model.pt").touch()
    (tmp_path / "text").write_text("one\n")
    return tmp_path


def translation(folder: Path, **options: Any) -> _BackTranslationJob:
    config = DecodingConfig((folder / "model.pt",), folder, **options)
    return _BackTranslationJob(Corpus((folder / "text",)), Outputs(), *WORK, config, "fairseq")


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
    models, text = (files / "model.pt",), (Corpus((files / "text",)), Outputs(), *WORK)
    tagger = correction.CorrectionConfig(models, files)
    language_model = ScoringConfig(LANGUAGE_MODEL, models, "lm", data_dir=files)
    nbest = dict.fromkeys(("source", "source_subwords", "subwords", "unigrams"))

    def params() -> list[Any]:
        return [
            Conversion.of(DecodingConfig(models, files))._params(),
            translation(files).params,
            correction._CorrectionJob(*text, tagger, str, "text").params,
            nbest_scores._NBestJob(*text, language_model, nbest).params,
        ]

    before = params()
    os.utime(dictionary, ns=(1, 1))
    assert params() == before
    dictionary.write_text("b 1\na 1\n")
    assert all(one != other for one, other in zip(params(), before, strict=True))
