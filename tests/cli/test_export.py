"""Exported models translate like their checkpoint."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest
import torch

from fairseq_ssl.checkpoints.files import read_checkpoint, write_checkpoint
from fairseq_ssl.cli.main import main
from tests.cli.rewriting import refused, shown
from tests.conftest import PACKAGE, run_command, train

BEAM = ("--beam", "5", "--gen-subset", "valid", "--cpu")
LINES = 200

Translations = dict[int, tuple[float, str]]
"""Return score (mean log-probability, base e) and words by index of the sentence."""


def generate(data: Path, checkpoint: Path, *flags: str | Path) -> Translations:
    words = ("fairseq-generate", data, "--path", checkpoint)
    shown = run_command(*words, *BEAM, *flags).stdout
    found = re.findall(r"^H-(\d+)\t(\S+)\t(.*)$", shown, re.M)
    assert len(found) == LINES
    return {int(i): (float(score) * math.log(2), words) for i, score, words in found}


def assert_same(got: Translations, expected: Translations) -> None:
    assert len(got) == LINES
    for sentence, (score, words) in expected.items():
        assert got[sentence][1] == words
        assert got[sentence][0] == pytest.approx(score, abs=1e-3)


@pytest.fixture(scope="module")
def expected(trained: Path, toy_data: Path) -> Translations:
    """Output of fairseq-generate with the plug-in."""
    return generate(toy_data, trained / "checkpoint_last.pt", "--user-dir", PACKAGE)


def export(checkpoint: Path, output: Path, *flags: str | Path) -> None:
    words = ["export", checkpoint, "-o", output, *flags]
    assert main([str(word) for word in words]) == 0


def test_plain_fairseq_loads_it_without_the_plug_in(
    trained: Path, toy_data: Path, tmp_path: Path, expected: Translations
) -> None:
    plain = tmp_path / "plain.pt"
    export(trained / "checkpoint_last.pt", plain, "--to", "fairseq")
    assert_same(generate(toy_data, plain), expected)
    beside = json.loads((tmp_path / "plain.pt.json").read_text())
    assert (beside["to"], beside["arch"]) == ("fairseq", "shape_transformer_tiny")
    assert torch.serialization.get_unsafe_globals_in_checkpoint(plain) == []


@pytest.mark.slow
def test_training_continued_with_shifts_is_exported(toy_data: Path, tmp_path: Path) -> None:
    once = ("--no-epoch-checkpoints", "--max-update")
    train(toy_data, tmp_path / "first", "--shape-positions", "absolute", *once, "30")
    first = tmp_path / "first/checkpoint_last.pt"
    shifts = ("--shape-max-shift", "8", "--shape-shared-shift", "--shape-shift-warmup", "10")
    start = ("--finetune-from-model", str(first))
    assert "Loaded checkpoint" in train(toy_data, tmp_path / "tuned", *shifts, *start, *once, "20")
    tuned = tmp_path / "tuned/checkpoint_last.pt"
    expected = generate(toy_data, tuned, "--user-dir", PACKAGE)
    assert expected != generate(toy_data, first, "--user-dir", PACKAGE)
    export(tuned, tmp_path / "plain.pt", "--to", "fairseq")
    assert_same(generate(toy_data, tmp_path / "plain.pt"), expected)
    pytest.importorskip("ctranslate2")
    export(tuned, tmp_path / "ct2", "--to", "ctranslate2", "--data-dir", toy_data)


def test_ctranslate2_gives_the_same_translations(
    trained: Path, toy_data: Path, toy_text: Path, tmp_path: Path, expected: Translations
) -> None:
    ctranslate2 = pytest.importorskip("ctranslate2")
    where = ("--data-dir", toy_data)
    export(trained / "checkpoint_last.pt", tmp_path / "ct2", "--to", "ctranslate2", *where)
    translator = ctranslate2.Translator(str(tmp_path / "ct2"), compute_type="float32")
    lines = (toy_text / "valid.words").read_text().splitlines()
    # If CTranslate2 forbids </s>, it renormalizes the probabilities. fairseq does not.
    results = translator.translate_batch(
        [line.split() for line in lines],
        beam_size=5,
        return_scores=True,
        max_batch_size=32,
        min_decoding_length=0,
    )
    got = {i: (r.scores[0], " ".join(r.hypotheses[0])) for i, r in enumerate(results)}
    assert_same(got, expected)


def test_quantized_models_are_smaller_and_translate(
    trained: Path, toy_data: Path, tmp_path: Path
) -> None:
    ctranslate2 = pytest.importorskip("ctranslate2")
    sizes = {}
    for kind in ("float32", "int8", "float16"):
        flags = ("--to", "ctranslate2", "--data-dir", toy_data, "--quantization", kind)
        export(trained / "checkpoint_last.pt", tmp_path / kind, *flags)
        sizes[kind] = (tmp_path / kind / "model.bin").stat().st_size
        translator = ctranslate2.Translator(str(tmp_path / kind))
        words = translator.translate_batch([["seven", "and", "four"]])[0].hypotheses[0]
        assert words
        assert all(word.isdigit() for word in words)
    assert sizes["int8"] < 0.6 * sizes["float32"]
    assert sizes["float16"] < 0.8 * sizes["float32"]


def test_unsupported_models_are_rejected(
    trained: Path, toy_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = read_checkpoint(trained / "checkpoint_last.pt")
    options, model, output = state["cfg"]["model"], tmp_path / "model.pt", tmp_path / "out"
    to_fairseq = ("export", model, "--to", "fairseq", "-o", output)
    to_ctranslate2 = ("export", model, "--to", "ctranslate2", "--data-dir", toy_data, "-o", output)
    write_checkpoint(state, model)
    assert "dict.words.txt" in refused(capsys, 1, *to_ctranslate2, "--data-dir", tmp_path)
    options._name = options.arch = "lstm"
    write_checkpoint(state, model)
    assert "'lstm'" in refused(capsys, 1, *to_fairseq)
    options._name = options.arch = "shape_transformer_tiny"
    options.adaptive_softmax_cutoff = "100,200"
    write_checkpoint(state, model)
    assert "adaptive softmax" in refused(capsys, 1, *to_ctranslate2)
    options.adaptive_softmax_cutoff = None
    del options.encoder_normalize_before
    write_checkpoint(state, model)
    problem = "CTranslate2 cannot convert this model with the dictionaries in"
    assert problem in refused(capsys, 1, *to_ctranslate2)
    assert list(tmp_path.iterdir()) == [model]


def test_force_replaces_a_model_and_nothing_else(
    trained: Path, toy_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, output = trained / "checkpoint_last.pt", tmp_path / "o.pt"
    output.write_text("mine")
    words: tuple[str | Path, ...] = ("export", model, "--to", "fairseq", "-o")
    refused(capsys, 2, *words, output)
    refused(capsys, 2, *words, model, "--force")
    assert output.read_text() == "mine"
    shown(capsys, *words, output, "--force")
    assert read_checkpoint(output)["model"]
    words = ("export", model, "--to", "ctranslate2", "--force", "--data-dir", toy_data, "-o")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.tex").write_text("years of work")
    refused(capsys, 2, *words, tmp_path / "mine")
    assert (tmp_path / "mine/thesis.tex").exists()
    for _ in range(2):
        shown(capsys, *words, tmp_path / "ct2")
    made = {"mine", "ct2", "ct2.json", "o.pt", "o.pt.json"}
    assert {path.name for path in tmp_path.iterdir()} == made
