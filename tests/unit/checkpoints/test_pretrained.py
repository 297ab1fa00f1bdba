"""Folders of language models with inconsistent files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("transformers")

from fairseq_ssl.checkpoints.pretrained import load_tokenizer, subword_segmenter
from fairseq_ssl.errors import DataError
from tests import pretrained
from tests.pretrained import bert


def test_tokenizer_error_is_reported(tmp_path: Path) -> None:
    folder = bert(tmp_path / "bert")
    assert subword_segmenter(folder)("ab")
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text())
    content["model"]["unk_token"] = "[GONE]"
    path.write_text(json.dumps(content))
    with pytest.raises(DataError, match=r"bert cannot tokenize '☃': WordPiece error"):
        subword_segmenter(folder)("☃")


def test_panics_of_a_tokenizer_are_reported(tmp_path: Path) -> None:
    folder = bert(tmp_path / "bert")
    pretrained.change_tokenizer(folder, pretrained.add_panic)
    segment = subword_segmenter(folder)
    with pytest.raises(DataError, match=r"bert cannot tokenize 'a+': Onig"):
        segment(pretrained.PANIC)
    assert segment("ab") == ["a", "##b"]
    pretrained.change_tokenizer(folder, lambda json: json.update(normalizer=pretrained.DAMAGED_MAP))
    with pytest.raises(DataError, match=r"bert cannot be loaded: Precompiled"):
        subword_segmenter(folder)


def test_ids_without_an_embedding_are_rejected(tmp_path: Path) -> None:
    folder = bert(tmp_path / "bert")
    load_tokenizer(folder)
    pretrained.change_tokenizer(folder, lambda json: json["model"]["vocab"].update(zebra=1000))
    with pytest.raises(DataError, match=r"bert has ids up to 1000\. Expected ids below 60"):
        load_tokenizer(folder)
