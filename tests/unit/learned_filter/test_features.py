"""Features of a learned filter: tokenizers without downloads, SIF vectors, changed files."""

from __future__ import annotations

import json
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.inference.scoring import TRANSLATION, ScoringConfig
from fairseq_ssl.learned_filter.features import TOKENIZERS, WORDS, FeatureExtractor, SentenceVectors
from fairseq_ssl.learned_filter.pair_filter import PairFilter
from tests.unit.inference import random_models


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail on any connection."""

    def refuse(*_: Any) -> NoReturn:
        raise AssertionError("a connection is opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.mark.parametrize("name", TOKENIZERS)
def test_tokenizers_need_no_connection(name: str, offline: None) -> None:
    if name.endswith("mecab"):
        pytest.importorskip({"ja-mecab": "MeCab", "ko-mecab": "mecab_ko"}[name])
    assert FeatureExtractor(tokenizers=(name, "none")).words("a small test.", 0)


def test_other_tokenizers_of_sacrebleu_are_rejected(tmp_path: Path, offline: None) -> None:
    bleu = pytest.importorskip("sacrebleu.metrics.bleu")
    others = set(bleu.BLEU.TOKENIZERS) - set(TOKENIZERS)
    assert {"spm", "flores101", "flores200"} <= others
    for name in others:
        with pytest.raises(UsageError):
            FeatureExtractor(tokenizers=("none", name))
        measures = {
            **{"vectors": None, "masked": None, "translation": None, "subwords": [None, None]},
            **{"tokenizers": [name, "none"], "smoothing": 0.001},
        }
        (tmp_path / "filter.json").write_text(json.dumps({"measures": measures, "classifier": {}}))
        with pytest.raises(DataError, match=r"filter\.json"):
            PairFilter.read(tmp_path, {})


def test_changed_files_are_read_again(tmp_path: Path) -> None:
    vectors, counts, model = tmp_path / "v.vec", tmp_path / "counts", tmp_path / "t.pt"
    data = random_models.data_folder(tmp_path / "data")
    counts.write_text("a 1\nu 1\n")
    extractor = FeatureExtractor(
        vectors=(vectors, vectors),
        counts=(counts, counts),
        translation=ScoringConfig(TRANSLATION, (model,), data_dir=data),
    )
    found = []
    for number in (1, 2):
        vectors.write_text(f"2 2\na 1 {number}\nu 1 0.5\n")
        random_models.translation(model, data, number)
        source, _ = extractor.directions(WORDS, [("a", "u")])
        (score,) = replace(extractor, vectors=None).features([("a b", "u v")], {})[0]
        found.append((float(source[0, 1] / source[0, 0]), float(score)))
    assert [vector for vector, _ in found] == pytest.approx([1, 2])
    assert found[0][1] != found[1][1]


def test_rare_words_have_higher_weights(tmp_path: Path) -> None:
    (tmp_path / "v.vec").write_text("3 2\nthe 1 0\nowl 0 1\nunseen 1 1\n")
    vectors = SentenceVectors.of(tmp_path / "v.vec", {"the": 90, "owl": 9, "lost": 1}, 0.1)
    the, owl = 0.1 / (0.1 + 0.9), 0.1 / (0.1 + 0.09)
    both = np.array([2 * the, owl])
    sentences = [["the", "owl", "the"], [], ["lost", "unseen"], ["owl"]]
    expected = [both / np.linalg.norm(both), [0, 0], [0, 0], [0, 1]]
    assert vectors(sentences) == pytest.approx(np.array(expected), abs=1e-6)
    assert vectors([]).shape == (0, 2)


def test_vectors_without_words_of_the_text_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "v.vec").write_text("1 2\neule 0 1\n")
    with pytest.raises(DataError, match=r"v\.vec"):
        SentenceVectors.of(tmp_path / "v.vec", {"owl": 1})
