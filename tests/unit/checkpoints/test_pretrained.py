"""Language models in folders whose parts do not fit together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("transformers")

from fairseq_ssl.checkpoints.pretrained import subword_segmenter
from fairseq_ssl.errors import DataError
from tests.pretrained import bert


def test_a_tokenizer_that_can_not_cut_a_text_is_told(tmp_path: Path) -> None:
    folder = bert(tmp_path / "bert")
    assert subword_segmenter(folder)("ab")
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text())
    content["model"]["unk_token"] = "[GONE]"
    path.write_text(json.dumps(content))
    with pytest.raises(DataError, match=r"bert can not cut '☃': WordPiece error"):
        subword_segmenter(folder)("☃")
