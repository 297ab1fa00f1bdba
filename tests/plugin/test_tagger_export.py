"""`fairseq-ssl export` of trained edit taggers to ONNX and to transformers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import fairseq_ssl
from fairseq_ssl import inference
from fairseq_ssl.cli.main import main
from fairseq_ssl.generation.edit_corrector import EditCorrector

pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")
transformers = pytest.importorskip("transformers")
fairseq_ssl.register()
from fairseq_ssl.generation.edit_rounds import EditDecoding, EditGenerator  # noqa: E402
from fairseq_ssl.generation.onnx_tagger import load_onnx_tagger  # noqa: E402

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
    tagger, edits, words = load_onnx_tagger(tmp_path / "onnx")
    lines = (learner_data / "train.src").read_text().splitlines()[:40]
    loaded = EditCorrector.from_pretrained(
        str(checkpoint.parent),
        checkpoint.name,
        str(learner_data / "bin"),
        edit_keep_bias=-1.0,
        edit_iterations=1,
    )
    expected = [one.text for one in loaded.correct(lines)]
    assert expected != lines
    decoding = EditDecoding(iterations=1, keep_bias=-1.0)
    generator = EditGenerator([tagger], words, edits, decoding)
    for line, corrected in zip(lines, expected, strict=True):
        ids = torch.tensor([[words.bos(), *map(words.index, line.split()), words.eos()]])
        sample = {"net_input": {"src_tokens": ids, "src_lengths": torch.tensor([ids.size(1)])}}
        ((found,),) = generator.generate([], sample)
        assert " ".join(words[one] for one in found["tokens"][:-1]) == corrected


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
