"""Two models in one checkpoint: training, resuming, decoding and export with commands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqDecoder, FairseqEncoder, FairseqEncoderDecoderModel

from fairseq_ssl.cli.main import main
from fairseq_ssl.models.two_way_model import TwoWayModel
from tests.conftest import PACKAGE, Run
from tests.plugin.runs import close, equal, generated

TASK = ("--user-dir", PACKAGE, "--task", "reconstruction_translation")


@pytest.mark.slow
def test_two_way_training_decoding_and_export(
    run: Run, digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """fairseq's LSTM reads the name of the criterion from the options of the model."""
    data = digits / "bin"
    shown = run(
        *("fairseq-train", data, *TASK, "-s", "words", "-t", "digits", "--arch", "lstm"),
        *("--encoder-embed-dim", "8", "--encoder-hidden-size", "8", "--decoder-embed-dim", "8"),
        *("--decoder-hidden-size", "8", "--decoder-out-embed-dim", "8", "--cpu", "--seed", "1"),
        *("--criterion", "reconstruction_loss", "--reconstruction-beam", "2"),
        *("--reconstruction-source-text", digits / "mono/train", "--log-format", "simple"),
        *("--optimizer", "adam", "--lr", "0.003", "--max-tokens", "200", "--max-update", "4"),
        *("--save-dir", tmp_path),
    )
    assert "source_text_loss" in shown.stdout + shown.stderr
    assert re.search(r"valid on 'valid' subset.*backward_loss", shown.stdout + shown.stderr)
    two, plain = tmp_path / "checkpoint_last.pt", tmp_path / "plain.pt"
    words = ["export", str(two), "-o", str(plain), "--to", "translation", "--force"]
    for languages in (("-s", "digits", "-t", "words"), ("-s", "words", "-t", "digits")):
        assert main([*words, *languages]) == 0
        assert torch.serialization.get_unsafe_globals_in_checkpoint(plain) == []
        for flags in (("--beam", "2", "--max-len-b", "20"), ("--score-reference",)):
            single = generated(run, data, plain, *languages, *flags)
            assert close(generated(run, data, two, *TASK, *languages, *flags), single)
    capsys.readouterr()
    assert main(words) == 2
    assert "--source-lang" in capsys.readouterr().err
    again = ["export", str(plain), "-o", str(tmp_path / "o.pt"), "--to", "translation"]
    assert main(again) == 2
    assert "is not a two-way model" in capsys.readouterr().err
    similarity = ["analyze", "shift-similarity", str(data), "-c", str(two)]
    assert main([*similarity, "-o", str(tmp_path / "o")]) == 1
    assert "is not a translation model for one direction" in capsys.readouterr().err


def test_a_run_with_several_folders_resumes_with_the_same_candidates(
    run: Run, digits: Path, tmp_path: Path
) -> None:
    """Each folder has its own bound on their lengths."""
    short = tmp_path / "short"
    for language, text in (("words", "o n e\n"), ("digits", "1\n")):
        (tmp_path / f"train.{language}").write_text(8 * text, encoding="utf-8")
    names = ("--srcdict", digits / "dict.txt", "--tgtdict", digits / "dict.txt")
    pairs = ("-s", "words", "-t", "digits", *names, "--trainpref", tmp_path / "train")
    run("fairseq-preprocess", *pairs, "--destdir", short)
    words = (
        *("fairseq-train", f"{digits / 'bin'}:{short}", *TASK, "-s", "words", "-t", "digits"),
        *("--reconstruction-target-text", digits / "mono/train", "--reconstruction-beam", "2"),
        *("--criterion", "reconstruction_loss", "--arch", "transformer_tiny", "--cpu", "--lr"),
        *("0.003", "--optimizer", "adam", "--batch-size", "8", "--no-epoch-checkpoints"),
    )
    shown = run(*words, "--max-epoch", "3", "--save-dir", tmp_path / "whole").stdout
    bounds = re.findall(r"digits-words: candidates have at most (\S+ n \+ \S+) words", shown)
    assert len(bounds) == 3
    assert bounds[0] == bounds[2] != bounds[1]
    for epochs in ("1", "3"):
        run(*words, "--max-epoch", epochs, "--save-dir", tmp_path / "resumed")
    assert equal(*(tmp_path / name / "checkpoint_last.pt" for name in ("whole", "resumed")))


def test_all_modules_return_to_training_mode() -> None:
    words = Dictionary()
    single = FairseqEncoderDecoderModel(FairseqEncoder(words), FairseqDecoder(words))
    model = TwoWayModel({"a-b": single})
    single.encoder.eval()
    assert model.train().training
    assert single.encoder.training
