"""Edit taggers in ONNX format score and correct like their checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fairseq_ssl
from fairseq_ssl.data.oov_dictionary import OovDictionary
from fairseq_ssl.data.spans import Spans
from fairseq_ssl.errors import DataError
from tests.unit.generation import random_taggers

pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")
pytest.importorskip("transformers")
fairseq_ssl.register()
from fairseq_ssl.generation.edit_probabilities import EditProbabilities  # noqa: E402
from fairseq_ssl.generation.edit_rounds import EditDecoding, EditGenerator  # noqa: E402
from fairseq_ssl.generation.onnx_tagger import (  # noqa: E402
    OnnxTagger,
    load_onnx_tagger,
)
from fairseq_ssl.generation.tagger_export import write_onnx  # noqa: E402

Built = tuple[Any, Any]


def sentences(count: int, longest: int, seed: int = 1) -> list[list[str]]:
    rng = np.random.default_rng(seed)
    known = ["good", "bad", "xyz", "film", "a", "Bad", "dog"]
    letters = list("abcdefghijklmnopqrstuvwxyz")
    rows = []
    for length in rng.integers(1, longest + 1, count):
        unknown = ["".join(rng.choice(letters, rng.integers(1, 5))) for _ in range(length)]
        rows.append([known[rng.integers(0, 7)] if rng.random() < 0.5 else one for one in unknown])
    return rows


def correct(models: list[Any], words: OovDictionary, text: list[list[str]]) -> list[list[str]]:
    generator = EditGenerator(models, words, random_taggers.EDITS, EditDecoding(iterations=3))
    corrected = []
    for begin in range(0, len(text), 50):
        rows = [
            torch.tensor([words.bos(), *map(words.index, row), words.eos()])
            for row in text[begin : begin + 50]
        ]
        tokens = torch.nn.utils.rnn.pad_sequence(rows, True, words.pad())
        lengths = torch.tensor([len(row) for row in rows])
        net_input = {"src_tokens": tokens, "src_lengths": lengths}
        found = generator.generate([], {"net_input": net_input})
        corrected += [[words[one] for one in row[0]["tokens"][:-1]] for row in found]
    return corrected


@pytest.mark.parametrize("kind", random_taggers.KINDS)
@pytest.mark.slow
def test_probabilities_and_corrections_equal_those_of_torch(
    kind: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    model, task, path = random_taggers.exported(tmp_path_factory, kind)
    words = task.source_dictionary
    tagger, edits, _ = load_onnx_tagger(path, 1, words)
    assert edits.text() == task.edits.text()
    assert tagger.max_subwords == model.max_subwords
    for count, longest in ((1, 1), (1, 9), (7, 3), (40, 6)):
        rows = sentences(count, longest, seed=count + longest)
        ids = [np.array([words.bos(), *map(words.index, row)]) for row in rows]
        expected, found = (
            EditProbabilities([one], words)(Spans.of(ids), None, torch.device("cpu"))
            for one in (model, tagger)
        )
        assert expected.edits.max() > 0.1
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)
    text = sentences(40, 30)  # many sentences are longer than a window
    corrected = correct([model], words, text)
    assert sum(map(list.__ne__, corrected, text)) > 30
    assert correct([tagger], words, text) == corrected


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return random_taggers.exported(tmp_path_factory, "bert")[:2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_taggers.exported(tmp_path_factory, "bert")[2]


@pytest.mark.slow
def test_int8_models_mostly_agree(built: Built, tmp_path: Path) -> None:
    write_onnx(*built, tmp_path / "onnx", "int8")
    words = built[1].source_dictionary
    tagger, *_ = load_onnx_tagger(tmp_path / "onnx", 1, words)
    text = sentences(200, 6)
    expected, found = correct([built[0]], words, text), correct([tagger], words, text)
    assert expected != found
    assert sum(map(list.__eq__, expected, found)) > 150


def test_five_hundred_corrections_equal_those_of_torch(built: Built, folder: Path) -> None:
    words = built[1].source_dictionary
    tagger, *_ = load_onnx_tagger(folder, 1, words)
    text = sentences(500, 30, seed=2)
    assert correct([tagger], words, text) == correct([built[0]], words, text)


def test_a_long_sentence_does_not_pad_the_others(
    built: Built, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = built[1].source_dictionary
    tagger, *_ = load_onnx_tagger(folder, 1, words)
    shapes, run = [], OnnxTagger.run

    def recorded(self: OnnxTagger, positions: int, **inputs: Any) -> Any:
        shapes.append(inputs["ids"].shape)
        return run(self, positions, **inputs)

    monkeypatch.setattr(OnnxTagger, "run", recorded)
    rows = [["dog"] * length for length in (1, 8, *[1] * 100)]
    ids = [np.array([words.bos(), *map(words.index, row)]) for row in rows]
    expected, found = (
        EditProbabilities([one], words)(Spans.of(ids), None, torch.device("cpu"))
        for one in (built[0], tagger)
    )
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)
    padded = len(rows) * max(time for _, time in shapes)
    assert sum(batch * time for batch, time in shapes) < 0.6 * padded


@pytest.mark.slow
def test_a_text_can_contain_the_padding_symbol(tmp_path_factory: pytest.TempPathFactory) -> None:
    model, task, path = random_taggers.exported(tmp_path_factory, "subword")
    words = task.source_dictionary
    tagger, *_ = load_onnx_tagger(path, 1, words)
    dog, pad, eos = words.index("dog"), words.pad(), words.eos()
    tokens = torch.tensor([[words.bos(), dog, pad, dog, eos], [words.bos(), dog, eos, pad, pad]])
    expected, found = (one(tokens).edits.softmax(1) for one in (model, tagger))
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)


def test_folders_are_complete_and_average_with_checkpoints(built: Built, folder: Path) -> None:
    """The dictionary of words is not needed."""
    words, text = built[1].source_dictionary, sentences(30, 12)
    expected = correct([built[0]], words, text)
    tagger, _, no_words = load_onnx_tagger(folder)
    assert len(no_words) == no_words.nspecial
    assert correct([tagger], no_words, text) == expected
    mixed = [built[0], load_onnx_tagger(folder, 1, words)[0]]
    assert correct(mixed, words, text) == expected


def test_unsupported_models_are_rejected(
    built: Built, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairseq_ssl.generation.tagger_export.MAX_BYTES", 1000)
    with pytest.raises(DataError, match="2 GB"):
        write_onnx(*built, tmp_path / "onnx")
    assert not list(tmp_path.iterdir())
