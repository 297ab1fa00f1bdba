"""Dictionaries of language models, and folders that are rejected."""

from __future__ import annotations

from pathlib import Path

import pytest
from fairseq.data import Dictionary

from fairseq_ssl.checkpoints.hugging_face import read_config
from fairseq_ssl.checkpoints.pretrained import write_dictionary
from fairseq_ssl.errors import DataError


def test_other_folder_is_rejected(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(DataError, match=str(folder)):
            read_config(folder)


def test_dictionary_omits_special_symbols_and_whitespace(tmp_path: Path) -> None:
    symbols = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<s>", "the", "##e", "a\u3000b", "É"]
    (tmp_path / "vocab.txt").write_text("\n".join(symbols) + "\n")
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    assert write_dictionary(tmp_path, tmp_path / "dict.txt") == 3
    loaded = Dictionary.load(str(tmp_path / "dict.txt"))
    assert loaded.symbols == ["<s>", "<pad>", "</s>", "<unk>", "the", "##e", "É"]
