"""Folders of language models with inconsistent files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("transformers")

from fairseq_ssl.checkpoints.pretrained import subword_segmenter
from fairseq_ssl.errors import DataError
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
