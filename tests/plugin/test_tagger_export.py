"""`fairseq-ssl export` of trained edit taggers to ONNX and to transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import fairseq_ssl
from fairseq_ssl import inference
from fairseq_ssl.cli.main import main

pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")
transformers = pytest.importorskip("transformers")
fairseq_ssl.register()
from tests.plugin.edit_corpus import corrected, loaded  # noqa: E402

pytestmark = [  # warnings of Hydra, the data loader, and fairseq with recent PyTorch
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


@pytest.fixture
def checkpoint(taggers: Path) -> Path:
    return taggers / "unfactorized.pt"


def export(checkpoint: Path, output: Path, *flags: str | Path) -> int:
    words = ["export", checkpoint, "-o", output, *flags]
    return main([str(word) for word in words])


def test_an_exported_tagger_corrects_like_its_checkpoint(
    learner_data: Path, checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert export(checkpoint, tmp_path / "onnx", "--to", "onnx") == 0  # without the data
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.splitlines()[1:] == [f"wrote {tmp_path / 'onnx'}"]
    beside = json.loads((tmp_path / "onnx.json").read_text())
    assert (beside["to"], beside["quantization"]) == ("onnx", "float32")
    lines = (learner_data / "train.src").read_text().splitlines()[:40]
    options: dict[str, Any] = {"keep_bias": -1.0, "iterations": 1}
    expected = corrected(loaded(checkpoint, **options), lines)
    assert expected != lines
    assert corrected(loaded(tmp_path / "onnx", **options), lines) == expected


def test_transformers_loads_the_token_classifier(
    learner_data: Path, checkpoint: Path, tmp_path: Path
) -> None:
    flags = ("--to", "huggingface", "--data-dir", learner_data / "bin")
    assert export(checkpoint, tmp_path / "classifier", *flags) == 0
    signature = inference.export(
        checkpoint, tmp_path / "library", "huggingface", data_dir=str(learner_data / "bin")
    )
    assert signature.parameters["to"] == "huggingface"
    weights = [tmp_path / name / "model.safetensors" for name in ("classifier", "library")]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    tag = transformers.pipeline("token-classification", str(tmp_path / "classifier"))
    assert tag.model.config.id2label[0] == "KEEP"
    assert tag("a dog sees")


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (("--to", "onnx", "--quantization", "int16", "--data-dir", "x"), "int16"),
        (("--to", "huggingface", "--quantization", "int8", "--data-dir", "x"), "int8"),
        (("--to", "onnx", "--data-dir", "missing"), "missing"),
        (("--to", "fairseq"), "cannot be exported"),
    ],
)
def test_wrong_options_leave_no_output(
    flags: tuple[str, ...],
    named: str,
    checkpoint: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert export(checkpoint, tmp_path / "out", *flags) in (1, 2)
    assert named in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
