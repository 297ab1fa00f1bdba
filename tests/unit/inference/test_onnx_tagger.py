"""Edit taggers in ONNX format score and correct like their checkpoints."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fairseq_ssl
from fairseq_ssl.errors import DataError
from tests.unit.generation import random_taggers

pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")
pytest.importorskip("transformers")
fairseq_ssl.register()
from fairseq_ssl.edits.application import TopEdits  # noqa: E402
from fairseq_ssl.edits.decoding import CorrectionSearch  # noqa: E402
from fairseq_ssl.edits.rounds import EditRounds  # noqa: E402
from fairseq_ssl.generation.tagger_export import write_onnx  # noqa: E402
from fairseq_ssl.generation.torch_engine import TorchEngine  # noqa: E402
from fairseq_ssl.inference.onnx_tagger import OnnxTagger, load_onnx_rounds  # noqa: E402

Built = tuple[Any, Any]
SEARCH = CorrectionSearch(iterations=3)


def sentences(count: int, longest: int, seed: int = 1) -> list[list[str]]:
    rng = np.random.default_rng(seed)
    known = ["good", "bad", "xyz", "film", "a", "Bad", "dog"]
    letters = list("abcdefghijklmnopqrstuvwxyz")
    rows = []
    for length in rng.integers(1, longest + 1, count):
        unknown = ["".join(rng.choice(letters, rng.integers(1, 5))) for _ in range(length)]
        rows.append([known[rng.integers(0, 7)] if rng.random() < 0.5 else one for one in unknown])
    return rows


def torch_rounds(model: Any, task: Any) -> EditRounds:
    words = task.source_dictionary
    return EditRounds(TorchEngine([model], words), random_taggers.EDITS, words, SEARCH)


def onnx_rounds(*folders: Path, weights: Sequence[float] = ()) -> EditRounds:
    return load_onnx_rounds(folders, weights, SEARCH, threads=1)


def correct(rounds: EditRounds, text: list[list[str]]) -> list[list[str]]:
    return [list(sentence.tokens) for sentence in rounds.correct(text, 50)]


def assert_equal_scores(rounds: EditRounds, expected: EditRounds, rows: list[list[str]]) -> None:
    scores = rounds.engine(rounds.encode(rows))
    others = expected.engine(expected.encode(rows))
    for name in TopEdits._fields:
        np.testing.assert_allclose(getattr(scores, name), getattr(others, name), atol=1e-4)


@pytest.mark.parametrize("kind", random_taggers.KINDS)
@pytest.mark.slow
def test_probabilities_and_corrections_equal_those_of_torch(
    kind: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    model, task, path = random_taggers.exported(tmp_path_factory, kind)
    expected, rounds = torch_rounds(model, task), onnx_rounds(path)
    assert rounds.edits.text() == task.edits.text()
    assert rounds.engine.models[0].max_subwords == model.max_subwords
    for count, longest in ((1, 1), (1, 9), (7, 3), (40, 6)):
        assert_equal_scores(rounds, expected, sentences(count, longest, seed=count + longest))
    text = sentences(40, 30)  # many sentences are longer than a window
    corrected = correct(expected, text)
    assert sum(map(list.__ne__, corrected, text)) > 30
    assert correct(rounds, text) == corrected


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return random_taggers.exported(tmp_path_factory, "bert")[:2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_taggers.exported(tmp_path_factory, "bert")[2]


@pytest.mark.slow
def test_int8_models_mostly_agree(built: Built, tmp_path: Path) -> None:
    write_onnx(*built, tmp_path / "onnx", "int8")
    text = sentences(200, 6)
    expected = correct(torch_rounds(*built), text)
    corrected = correct(onnx_rounds(tmp_path / "onnx"), text)
    assert expected != corrected
    assert sum(map(list.__eq__, expected, corrected)) > 150


def test_five_hundred_corrections_equal_those_of_torch(built: Built, folder: Path) -> None:
    text = sentences(500, 30, seed=2)
    assert correct(onnx_rounds(folder), text) == correct(torch_rounds(*built), text)


def test_a_long_sentence_does_not_pad_the_others(
    built: Built, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = onnx_rounds(folder)
    shapes, run = [], OnnxTagger._run

    def recorded(self: OnnxTagger, positions: int, outputs: Any, inputs: Any) -> Any:
        shapes.append(inputs["ids"].shape)
        return run(self, positions, outputs, inputs)

    monkeypatch.setattr(OnnxTagger, "_run", recorded)
    rows = [["dog"] * length for length in (1, 8, *[1] * 100)]
    assert_equal_scores(rounds, torch_rounds(*built), rows)
    padded = len(rows) * max(time for _, time in shapes)
    assert sum(batch * time for batch, time in shapes) < 0.6 * padded


@pytest.mark.slow
def test_a_text_can_contain_special_symbols(tmp_path_factory: pytest.TempPathFactory) -> None:
    model, task, path = random_taggers.exported(tmp_path_factory, "subword")
    rows = [["dog", "<pad>", "dog"], ["<s>", "</s>"], ["new"]]
    assert_equal_scores(onnx_rounds(path), torch_rounds(model, task), rows)


def test_ensembles_average_probabilities(built: Built, folder: Path, tmp_path: Path) -> None:
    model, task = built
    with torch.no_grad():
        other = copy.deepcopy(model)
        other.subwords = model.subwords  # with the same words
        other.scores.edits.bias += torch.randn(len(other.scores.edits.bias))
    write_onnx(other, task, tmp_path / "other")
    engine = TorchEngine([model, other], task.source_dictionary, [2, 1])
    expected = EditRounds(engine, random_taggers.EDITS, task.source_dictionary, SEARCH)
    rounds = onnx_rounds(folder, tmp_path / "other", weights=(2, 1))
    text = sentences(30, 12)
    assert_equal_scores(rounds, expected, text)
    assert correct(rounds, text) == correct(expected, text)
    assert correct(rounds, text) != correct(onnx_rounds(folder), text)


def test_unsupported_models_are_rejected(
    built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairseq_ssl.generation.tagger_export.MAX_BYTES", 1000)
    with pytest.raises(DataError, match="2 GB"):
        write_onnx(*built, tmp_path / "onnx")
    assert not list(tmp_path.iterdir())
