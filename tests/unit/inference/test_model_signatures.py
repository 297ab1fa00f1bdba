"""Signatures of functions that load models: different models and options have different ones."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fairseq_ssl import analysis, checkpoints, inference
from tests.unit.inference import random_models
from tests.unit.inference.test_model_paths import TAGGER, folder  # noqa: F401

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of Hydra


def translated(model: str = "checkpoint1.pt", **options: Any) -> Any:
    """Translate a file with a model."""
    config = inference.DecodingConfig((model,), "data", **options)
    return inference.back_translate_file("text", "out", config, engine="fairseq", overwrite=True)


def scored(model: str = "checkpoint1.pt", kind: str = "translation", **options: Any) -> Any:
    """Score an n-best list with a model."""
    config = inference.ScoringConfig(kind, (model,), name="new", data_dir="data", **options)
    source = "text" if kind == "translation" else None
    return inference.score_nbest_file("nbest", "out", config, source=source, overwrite=True)


def corrected(model: str = "tagger.pt", name: str = "text", **options: Any) -> Any:
    """Correct a file with a model."""
    config = inference.CorrectionConfig((model,), "data", tokenizer=None, **options)
    return inference.correct_file(
        "text", "out", config, lambda line: line.text, format_name=name, overwrite=True
    )


def compared(*models: str, offsets: tuple[int, ...] = (0, 2)) -> Any:
    """Compare the encoder states of models."""
    return analysis.compare_shifted_states({"a": list(models)}, "data", offsets, subset="valid")


def exported(model: str, quantization: str = "float32") -> Any:
    """Convert a model to CTranslate2."""
    signature = checkpoints.export(
        model, "out.d", "ctranslate2", data_dir="data", quantization=quantization, overwrite=True
    )
    return SimpleNamespace(signature=signature)


CALLS: dict[str, list[Callable[[], Any]]] = {
    "back-translation": [
        translated,
        lambda: translated("checkpoint2.pt"),
        lambda: translated(beam=2),
        lambda: translated(max_len_b=1),
        lambda: translated(noisy_beam_beta=6),
        lambda: translated(fairseq_options=("--min-len", "3")),
    ],
    "scores": [
        scored,
        lambda: scored("checkpoint2.pt"),
        lambda: scored(lenpen=0.5),
        lambda: scored("lm.pt", "language-model"),
        lambda: scored("lm.pt", "language-model", unigrams="data/dict.txt"),
    ],
    "corrections": [
        corrected,
        lambda: corrected("tagger2.pt"),
        lambda: corrected(keep_bias=0.5),
        lambda: corrected(spelling="counts"),
        lambda: corrected(name="json"),
    ],
    "analysis": [
        lambda: compared("checkpoint1.pt"),
        lambda: compared("checkpoint2.pt"),
        lambda: compared("checkpoint1.pt", offsets=(0, 3)),
    ],
    "export": [
        lambda: exported("checkpoint1.pt"),
        lambda: exported("checkpoint2.pt"),
        lambda: exported("checkpoint1.pt", "int8"),
    ],
}
"""Calls with different outputs, by function."""


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.slow
def test_signatures_differ_and_do_not_depend_on_folders(
    name: str,
    folder: Path,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shutil.copytree(folder, tmp_path / "copy")
    data = tmp_path / "copy" / "data"
    random_models.encoding(tmp_path / "copy" / "tagger2.pt", data, *TAGGER, "--seed", "2")
    monkeypatch.chdir(tmp_path / "copy")
    signatures = [str(call().signature) for call in CALLS[name]]
    assert len(set(signatures)) == len(signatures)
    (tmp_path / "copy").rename(tmp_path / "moved")
    monkeypatch.chdir(tmp_path / "moved")
    os.utime("checkpoint1.pt", (1, 1))
    assert str(CALLS[name][0]().signature) == signatures[0]
