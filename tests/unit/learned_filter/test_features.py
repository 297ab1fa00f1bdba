"""Tokenizers of a learned filter: none of them downloads a model."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any, NoReturn

import pytest

from fairseq_ssl import learned_filter
from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.learned_filter.features import TOKENIZERS, FeatureExtractor
from fairseq_ssl.learned_filter.pair_filter import PairFilter


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
        with pytest.raises(UsageError, match="`tokenize` is"):
            FeatureExtractor(tokenizers=("none", name))
        measures = {
            **{"vectors": None, "masked": None, "translation": None, "subwords": [None, None]},
            **{"tokenizers": [name, "none"], "smoothing": 0.001},
        }
        (tmp_path / "filter.json").write_text(json.dumps({"measures": measures, "classifier": {}}))
        with pytest.raises(DataError, match="Expected one of none, 13a"):
            PairFilter.read(tmp_path, {})


def test_package_exports_all_names() -> None:
    assert all(hasattr(learned_filter, name) for name in learned_filter.__all__)
