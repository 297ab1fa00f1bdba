"""Signatures of functions that load models: different models and options have different ones.

They do not depend on the folder, the times of files, and the type of paths.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fairseq_ssl
from fairseq_ssl import analysis, inference
from tests.unit.inference import random_models

Convert = Callable[[str], Any]
"""`str` or `Path`."""
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of Hydra

TAGGER = ("edit_tagger", *random_models.SIZES, *random_models.HEADS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with models, their data and texts."""
    fairseq_ssl.register()
    folder = tmp_path_factory.mktemp("models")
    data = random_models.data_folder(folder / "data")
    random_models.binarized_split(data, "valid", "b a c\nd a\n", "u v\nw x y\n")
    for number in (1, 2):
        random_models.translation(folder / f"t{number}.pt", data, number)
        seed = ("--seed", str(number))
        random_models.encoding(folder / f"tagger{number}.pt", data, *TAGGER, *seed)
    random_models.language_model(folder / "lm.pt", data, 1)
    (folder / "text").write_text("a b c\nd e\n")
    (folder / "counts").write_text("a 10\nb 10\na b 3\n")
    (folder / "nbest").write_text("0 ||| u v ||| s= 1\n0 ||| w ||| s= 2\n1 ||| x ||| s= 3\n")
    return folder


def translated(path: Convert, model: str = "t1.pt", **options: Any) -> Any:
    """Translate a file with a model."""
    config = inference.DecodingConfig((path(model),), path("data"), **options)
    return inference.back_translate_file(
        path("text"), path("out"), config, engine="fairseq", overwrite=True
    )


def scored(
    path: Convert,
    model: str = "t1.pt",
    kind: str = "translation",
    unigrams: str = "",
    **options: Any,
) -> Any:
    """Score an n-best list with a model."""
    if unigrams:
        options["unigrams"] = path(unigrams)
    config = inference.ScoringConfig(
        kind, (path(model),), name="new", data_dir=path("data"), **options
    )
    source = path("text") if kind == "translation" else None
    return inference.score_nbest_file(
        path("nbest"), path("out"), config, source=source, overwrite=True
    )


def corrected(path: Convert, model: str = "tagger1.pt", name: str = "text", **options: Any) -> Any:
    """Correct a file with a model."""
    config = inference.CorrectionConfig((path(model),), path("data"), tokenizer="none", **options)
    return inference.correct_file(
        *(path("text"), path("out"), config, lambda line: line.text),
        format_name=name,
        overwrite=True,
    )


def compared(path: Convert, model: str = "t1.pt", offsets: tuple[int, ...] = (0, 2)) -> Any:
    """Compare the encoder states of models."""
    models = {"a": [path(model)]}
    config = analysis.ShiftSimilarityConfig(offsets=offsets)
    return analysis.compare_shifted_states(models, path("data"), config)


def exported(path: Convert, model: str = "t1.pt", quantization: str = "float32") -> Any:
    """Convert a model to CTranslate2."""
    return inference.export(
        *(path(model), path("out.d"), "ctranslate2"),
        data_dir=path("data"),
        quantization=quantization,
        overwrite=True,
    )


CALLS: dict[Callable[..., Any], list[dict[str, Any]]] = {
    translated: [
        {},
        {"model": "t2.pt"},
        {"beam": 2},
        {"max_len_b": 1},
        {"noisy_beam_beta": 6},
        {"fairseq_options": ("--min-len", "3")},
    ],
    scored: [
        {},
        {"model": "t2.pt"},
        {"lenpen": 0.5},
        {"model": "lm.pt", "kind": "language-model"},
        {"model": "lm.pt", "kind": "language-model", "unigrams": "data/dict.txt"},
    ],
    corrected: [
        {},
        {"model": "tagger2.pt"},
        {"keep_bias": 0.5},
        {"spelling": "counts"},
        {"name": "json"},
    ],
    compared: [{}, {"model": "t2.pt"}, {"offsets": (0, 3)}],
    exported: [{}, {"model": "t2.pt"}, {"quantization": "int8"}],
}
"""Options with different outputs, by function."""


def signature(result: Any) -> str:
    return str(getattr(result, "signature", result))


@pytest.mark.parametrize("function", CALLS, ids=lambda function: function.__name__)
@pytest.mark.slow
def test_signatures_differ_and_do_not_depend_on_folders(
    function: Callable[..., Any], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(folder, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    signatures = [signature(function(str, **options)) for options in CALLS[function]]
    assert len(set(signatures)) == len(signatures)
    (tmp_path / "copy").rename(tmp_path / "moved")
    monkeypatch.chdir(tmp_path / "moved")
    os.utime("t1.pt", (1, 1))
    assert signature(function(Path)) == signatures[0]
