"""Vocabularies of language models in all supported formats, and files that are rejected."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fairseq.data import Dictionary

from fairseq_ssl.checkpoints.hugging_face import (
    read_config,
    read_vocabulary,
    write_dictionary,
)
from fairseq_ssl.errors import DataError


def test_vocab_txt_is_split_at_newlines_only(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_bytes("[PAD]\r\na\u2028b\r\n##c\r\n".encode())
    (tmp_path / "added_tokens.json").write_text('{"<new>": 3}')
    assert read_vocabulary(tmp_path) == {"[PAD]": 0, "a\u2028b": 1, "##c": 2, "<new>": 3}


def test_vocabulary_of_tokenizer_json(tmp_path: Path) -> None:
    content = {
        "added_tokens": [{"id": 0, "content": "<s>"}, {"id": 3, "content": "<mask>"}],
        "model": {"type": "BPE", "vocab": {"<s>": 0, "Ġa": 1, "b": 2}, "merges": []},
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    assert read_vocabulary(tmp_path) == {"<s>": 0, "Ġa": 1, "b": 2, "<mask>": 3}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("tokenizer.json", '{"model": {"type": "Unigram", "vocab": [["a", 0.5]]}}'),
        ("tokenizer.json", "{}"),
        ("tokenizer.json", '{"model": {"vocab": {}}, "added_tokens": [{"id": 1}]}'),
        ("tokenizer.json", '{"model": {"vocab": {}}, "added_tokens": 3}'),
        ("vocab.json", '{"a": "first"}'),
        ("vocab.json", '["a"]'),
        ("vocab.json", "[" * 100_000),
    ],
)
def test_malformed_vocabulary_is_rejected(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=name):
        read_vocabulary(tmp_path)


def test_other_folder_is_rejected(tmp_path: Path) -> None:
    for read, culprit in ((read_config, "config.json"), (read_vocabulary, "vocab.json")):
        with pytest.raises(DataError, match=culprit):
            read(tmp_path)


def test_dictionary_omits_special_symbols_and_whitespace(tmp_path: Path) -> None:
    symbols = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<s>", "the", "##e", "a\u3000b", "É"]
    (tmp_path / "vocab.txt").write_text("\n".join(symbols) + "\n\n")
    assert write_dictionary(tmp_path, tmp_path / "dict.txt") == 3
    loaded = Dictionary.load(str(tmp_path / "dict.txt"))
    assert loaded.symbols == ["<s>", "<pad>", "</s>", "<unk>", "the", "##e", "É"]
