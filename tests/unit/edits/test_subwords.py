"""Subwords of words, against the tokenizer of `transformers` one sentence at a time."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairseq_ssl.data.oov_dictionary import OovDictionary
from fairseq_ssl.edits.subwords import WordSubwords, WordTokenizer
from fairseq_ssl.errors import DataError
from fairseq_ssl.text.spans import Spans
from tests import pretrained

transformers = pytest.importorskip("transformers")

SENTENCES = (
    "good film abc",
    "Bad , good-bye xyz x",
    "é \u200b a",
    "abcdefghijklmnopqrstuvwxyz",
)


def table(folder: Path, positions: int = 200) -> WordSubwords:
    words = OovDictionary()
    for word in ("good", "film", "x"):
        words.add_symbol(word)
    tokenizer = WordTokenizer((folder / "tokenizer.json").read_text("utf-8"))
    return WordSubwords(tokenizer, words, tokenizer.padding, tokenizer.size, positions)


def text(words: OovDictionary, *sentences: str) -> Spans:
    rows = [[words.bos(), *map(words.index, one.split(" "))] for one in sentences]
    return Spans.of([np.array(row) for row in rows])


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_batch_equals_transformers(kind: str, tmp_path: Path) -> None:
    folder = getattr(pretrained, kind)(tmp_path / kind)
    theirs = transformers.AutoTokenizer.from_pretrained(folder, add_prefix_space=True)
    subwords = table(folder)
    batch = subwords.batch(text(subwords.dictionary, *SENTENCES))
    for row, sentence in enumerate(SENTENCES):
        words = sentence.split(" ")
        encoded = theirs(words, is_split_into_words=True)
        places = encoded.word_ids()
        ids, first = batch.ids[row].tolist(), batch.first[row].tolist()
        for number, word in enumerate(words):
            expected = [
                one for one, at in zip(encoded["input_ids"], places, strict=True) if at == number
            ]
            begin, count = first[number + 1], int(batch.counts[row, number + 1])
            assert ids[begin : begin + count] == (expected or [subwords.tokenizer.unknown]), word
        assert first[0] == 0
        assert batch.counts[row, 0] == 1
        assert (batch.counts[row] > 0).sum() == len(words) + 1


def test_new_words_are_added_and_long_words_are_truncated(tmp_path: Path) -> None:
    subwords = table(pretrained.bert(tmp_path / "bert"), positions=20)
    words = subwords.dictionary
    before = subwords.subwords(np.array([words.index("good")]))
    new = np.array([words.index(word) for word in ("abc", "good", "abcdefghijkl")])
    after = subwords.subwords(new)
    assert after.lengths.tolist() == subwords.lengths(new).tolist() == [3, 1, 5]
    assert after.ids[3] == before.ids[0]


def test_a_tokenizer_can_be_pickled_for_workers(tmp_path: Path) -> None:
    subwords = table(pretrained.roberta(tmp_path / "roberta"))
    again = pickle.loads(pickle.dumps(subwords))
    rows = text(subwords.dictionary, *SENTENCES)
    ids = text(again.dictionary, *SENTENCES)
    np.testing.assert_array_equal(again.batch(ids).ids, subwords.batch(rows).ids)


def test_a_damaged_tokenizer_is_rejected(tmp_path: Path) -> None:
    folder = pretrained.bert(tmp_path / "bert")
    pretrained.change_tokenizer(folder, lambda json: json.update(normalizer=pretrained.DAMAGED_MAP))
    for content in ("", "{}", '{"model": 1}', (folder / "tokenizer.json").read_text("utf-8")):
        with pytest.raises(DataError, match="tokenizer"):
            WordTokenizer(content)


def test_a_word_that_cannot_be_tokenized_fails_alone(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = pretrained.bert(tmp_path / "bert")
    pretrained.change_tokenizer(folder, pretrained.add_panic)
    subwords = table(folder)
    word = subwords.dictionary.index
    numbers = np.array([word("abc"), word(pretrained.PANIC), word("film")])
    expected = f"cannot tokenize '{pretrained.PANIC[:40]}'"
    for _ in range(2):
        with pytest.raises(DataError, match=expected):
            subwords.subwords(numbers)
    assert subwords.lengths(numbers[[0, 2]]).tolist() == [3, 1]
    assert capfd.readouterr().err.count("panicked at") == 1
    with pytest.raises(DataError, match=expected):
        subwords.grams([("abc", pretrained.PANIC)])
    subwords.forget_unknown()
    subwords.dictionary.forget_unknown()
    assert subwords.lengths(np.array([word("ab")])).tolist() == [2]


def sparse_id(content: dict[str, Any]) -> None:
    content["model"]["vocab"]["zebra"] = 10**6


def added_token(content: dict[str, Any]) -> None:
    token = {**content["added_tokens"][0], "content": "[NEW]", "id": len(content["model"]["vocab"])}
    content["added_tokens"].append(token)


def start_symbol(content: dict[str, Any]) -> None:
    content["post_processor"]["special_tokens"]["[CLS]"]["ids"] = [777]


@pytest.mark.parametrize("change", [sparse_id, added_token, start_symbol])
def test_ids_beyond_the_vocabulary_are_rejected(
    change: Callable[[dict[str, Any]], None], tmp_path: Path
) -> None:
    folder = pretrained.bert(tmp_path / "bert")
    before = table(folder).tokenizer
    pretrained.change_tokenizer(folder, change)
    after = WordTokenizer((folder / "tokenizer.json").read_text("utf-8"))
    for tokenizer, padding in ((after, before.padding), (before, -1)):
        with pytest.raises(DataError, match="tokenizer"):
            WordSubwords(tokenizer, OovDictionary(), padding, before.size, 200)
