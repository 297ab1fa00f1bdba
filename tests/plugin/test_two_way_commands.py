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
from tests.conftest import PACKAGE, Run, weights
from tests.plugin import digit_pairs

TASK = ("--user-dir", PACKAGE, "--task", "reconstruction_translation")


def generated(
    run: Run, data: Path, path: Path, *flags: str | Path
) -> tuple[dict[str, str], dict[str, float]]:
    """Return the hypotheses and their scores by the ids of a split."""
    words = ("fairseq-generate", data, "--path", path, "--cpu", "--beam", "2", *flags)
    found = re.findall(r"^H-(\d+)\t(\S+)\t(.*)$", run(*words).stdout, re.M)
    assert len(found) == 8
    texts = {number: text for number, _, text in found}
    return texts, {number: float(score) for number, score, _ in found}


@pytest.fixture(scope="module")
def folder(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    digit_pairs.write(run, folder, labeled=24, unlabeled=30, valid=8, test=8)
    return folder


@pytest.mark.slow
def test_two_way_training_resuming_decoding_and_export(
    run: Run, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = folder / "bin"
    training = (
        *(data, *TASK, "-s", "words", "-t", "digits", "--criterion", "reconstruction_loss"),
        *("--reconstruction-source-text", folder / "mono/train", "--reconstruction-beam", "2"),
        *("--arch", "transformer_tiny", "--optimizer", "adam", "--lr", "0.003", "--cpu"),
        *("--max-tokens", "200", "--max-update", "6", "--log-format", "simple"),
    )
    shown = run("fairseq-train", *training, "--save-interval-updates", "4", "--save-dir", tmp_path)
    assert "source_text_loss" in shown.stdout + shown.stderr
    assert re.search(r"valid on 'valid' subset.*backward_loss", shown.stdout + shown.stderr)
    two = tmp_path / "checkpoint_last.pt"
    (begun,) = tmp_path.glob("checkpoint_*_4.pt")
    run("fairseq-train", *training, "--restore-file", begun, "--save-dir", tmp_path / "again")
    resumed = weights(tmp_path / "again/checkpoint_last.pt")
    assert all(torch.equal(weight, resumed[name]) for name, weight in weights(two).items())

    backward = ("-s", "digits", "-t", "words")
    words = ["export", str(two), "-o", str(tmp_path / "plain.pt")]
    assert main([*words, "--to", "fairseq", *backward]) == 0
    assert torch.serialization.get_unsafe_globals_in_checkpoint(tmp_path / "plain.pt") == []
    plain = generated(run, data, tmp_path / "plain.pt", *backward)
    texts, scores = generated(run, data, two, *TASK, *backward)
    assert plain[0] == texts
    assert plain[1] == pytest.approx(scores, abs=1e-4)
    references = (*backward, "--score-reference")
    expected = generated(run, data, tmp_path / "plain.pt", *references)[1]
    assert generated(run, data, two, *TASK, *references)[1] == pytest.approx(expected, abs=1e-4)
    assert main([*words, "--to", "translation", "--force", "-s", "words", "-t", "digits"]) == 0
    one = generated(run, data, tmp_path / "plain.pt", "--user-dir", PACKAGE)
    assert one != plain
    capsys.readouterr()
    assert main([*words, "--to", "translation", "--force"]) == 2
    assert (
        "Set --source-lang and --target-lang to digits-words or words-digits."
        in capsys.readouterr().err
    )
    again = ["export", str(tmp_path / "plain.pt"), "-o", str(tmp_path / "o.pt")]
    assert main([*again, "--to", "translation"]) == 2
    assert "has one model. The conversion to translation is for" in capsys.readouterr().err
    assert main([*again, "--to", "fairseq", "-s", "words"]) == 2
    (tmp_path / "list").write_text("0 ||| 1 2 ||| a= -1\n")
    (tmp_path / "text").write_text("one two\n")
    scores_of = ("rerank", "features", tmp_path / "list", "--source", tmp_path / "text")
    for verb in (
        (*scores_of, "--translation", two, "--data-dir", data, "--jobs", "1"),
        ("shift-similarity", data, "-c", two),
    ):
        assert main([*map(str, verb), "-o", str(tmp_path / "values")]) == 1
        assert "is not a translation model of one direction" in capsys.readouterr().err


def test_a_run_with_several_folders_resumes_with_the_same_candidates(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    """Each folder has its own bound on their lengths."""
    short = tmp_path / "short"
    for language, text in (("words", "o n e\n"), ("digits", "1\n")):
        (tmp_path / f"train.{language}").write_text(8 * text, encoding="utf-8")
    names = ("--srcdict", folder / "dict.txt", "--tgtdict", folder / "dict.txt")
    pairs = ("-s", "words", "-t", "digits", *names, "--trainpref", tmp_path / "train")
    run("fairseq-preprocess", *pairs, "--destdir", short)
    words = (
        *("fairseq-train", f"{folder / 'bin'}:{short}", *TASK, "-s", "words", "-t", "digits"),
        *("--reconstruction-target-text", folder / "mono/train", "--reconstruction-beam", "2"),
        *("--criterion", "reconstruction_loss", "--arch", "transformer_tiny", "--cpu", "--lr"),
        *("0.003", "--optimizer", "adam", "--batch-size", "8", "--no-epoch-checkpoints"),
    )
    shown = run(*words, "--max-epoch", "3", "--save-dir", tmp_path / "whole").stdout
    bounds = re.findall(r"digits-words: candidates have at most (\S+ n \+ \S+) words", shown)
    assert len(bounds) == 3
    assert bounds[0] == bounds[2] != bounds[1]
    for epochs in ("1", "3"):
        run(*words, "--max-epoch", epochs, "--save-dir", tmp_path / "resumed")
    whole, resumed = (
        weights(tmp_path / name / "checkpoint_last.pt") for name in ("whole", "resumed")
    )
    assert all(torch.equal(weight, resumed[name]) for name, weight in whole.items())


def test_a_recurrent_direction_is_decoded_by_fairseq(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    """fairseq's LSTM reads the name of the criterion from the options of the model."""
    sizes = [
        f"--{side}-{size}"
        for side in ("encoder", "decoder")
        for size in ("embed-dim", "hidden-size")
    ]
    one_way = ("-s", "words", "-t", "digits")
    run(
        *("fairseq-train", folder / "bin", *TASK, *one_way, "--criterion", "reconstruction_loss"),
        *("--arch", "lstm", *(word for size in sizes for word in (size, "8"))),
        *("--decoder-out-embed-dim", "8", "--optimizer", "adam", "--lr", "0.003", "--cpu"),
        *("--max-tokens", "200", "--max-update", "2", "--save-dir", tmp_path),
    )
    two, single = tmp_path / "checkpoint_last.pt", tmp_path / "single.pt"
    assert main(["export", str(two), "-o", str(single), "--to", "translation", *one_way]) == 0
    texts, scores = generated(run, folder / "bin", two, *TASK, *one_way)
    plain = generated(run, folder / "bin", single)
    assert plain[0] == texts
    assert plain[1] == pytest.approx(scores, abs=1e-4)


def test_all_modules_return_to_training_mode() -> None:
    words = Dictionary()
    single = FairseqEncoderDecoderModel(FairseqEncoder(words), FairseqDecoder(words))
    model = TwoWayModel({"a-b": single})
    single.encoder.eval()
    assert model.train().training
    assert single.encoder.training
