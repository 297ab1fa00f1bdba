"""Splits and languages of a folder of text; joining and splitting of sentences."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.text.parallel_folder import (
    TextFolder,
    first_to_end,
    interleave,
    join_sentences,
    split_sentences,
)


def folder_of(folder: Path, names: str) -> Path:
    """Create empty files with these names."""
    for name in names.split():
        (folder / name).touch()
    return folder


def test_splits_are_ordered_train_valid_test(tmp_path: Path) -> None:
    names = "valid.de valid.en test1.en.gz test1.de test.en test.de train.bpe.en train.bpe.de"
    folder = TextFolder(folder_of(tmp_path, f"{names} dict.en.txt notes.txt train.en.json"))
    assert folder.languages == ("de", "en")
    splits = [(split.name, *(path.name for path in split.paths)) for split in folder.splits]
    assert splits == [
        ("train.bpe", "train.bpe.de", "train.bpe.en"),
        ("valid", "valid.de", "valid.en"),
        ("test", "test.de", "test.en"),
        ("test1", "test1.de", "test1.en.gz"),
    ]


@pytest.mark.parametrize(
    ("names", "requested", "languages"),
    [
        ("train.en train.de train.fr", ("fr", "en"), ("en", "fr")),
        ("train.en train.de train.fr", ("de", "fr"), ("de", "fr")),
        ("train.en train.de valid.fr valid.it", ("en", None), ("de", "en")),
        ("train.en train.de valid.fr valid.it", (None, "it"), ("fr", "it")),
    ],
)
def test_requested_language_pair_is_selected(
    names: str, requested: tuple[str | None, str | None], languages: tuple[str, str], tmp_path: Path
) -> None:
    folder = TextFolder(folder_of(tmp_path, names), *requested)
    assert folder.languages == languages
    assert len(folder.splits) == 1


@pytest.mark.parametrize(
    ("names", "requested", "culprit"),
    [
        ("notes.txt", (), "no parallel corpus"),
        ("train.en", (), "train.en"),
        ("train.en train.de test.de.gz", (), "test.en"),
        ("train.en train.en.gz train.de", (), "train.en"),
        ("train.en train.de train.fr", (), "de-en, de-fr, en-fr"),
        ("train.en train.de train.fr", ("fr",), "de-fr, en-fr"),
        ("train.en train.de", ("en", "fr"), "en and fr"),
        ("train.en train.de", ("en", "en"), "source_lang"),
    ],
)
def test_ambiguous_or_missing_files_are_named(
    names: str, requested: tuple[str, ...], culprit: str, tmp_path: Path
) -> None:
    with pytest.raises((DataError, UsageError), match=culprit):
        TextFolder(folder_of(tmp_path, names), *requested)


SEPARATOR = "<sep>"


@pytest.mark.parametrize(
    ("sentences", "joined"),
    [
        (["a b", "c"], "a b <sep> c"),
        (["a"], "a"),
        (["a  b", " c\r"], "a  b <sep> c"),
        (["", "b", "", "", "e", ""], "<sep> b <sep> <sep> <sep> e <sep>"),
        (["", " "], "<sep>"),
    ],
)
def test_join(sentences: list[str], joined: str) -> None:
    assert join_sentences(sentences, SEPARATOR) == joined
    assert split_sentences(joined, SEPARATOR) == [sentence.strip() for sentence in sentences]


@pytest.mark.parametrize(
    ("text", "separator", "sentences"),
    [
        ("a <sep>  b\t<sep>\u3000c", SEPARATOR, ["a", "b", "c"]),
        ("a<sep> <sep>b <sep><sep>", SEPARATOR, ["a<sep> <sep>b <sep><sep>"]),
        (" a <sep>", SEPARATOR, ["a", ""]),
        ("", SEPARATOR, [""]),
        ("a . b .. c . d", ".", ["a", "b .. c", "d"]),
        ("a (| b", "(|", ["a", "b"]),
    ],
)
def test_separator_within_a_token_does_not_split(
    text: str, separator: str, sentences: list[str]
) -> None:
    assert split_sentences(text, separator) == sentences


words = st.text(st.sampled_from("ab<sep>\u00e9\u2581"), min_size=1).filter(SEPARATOR.__ne__)
lines = st.lists(words).map(" ".join)


@given(st.lists(lines, min_size=1))
def test_split_inverts_join(sentences: list[str]) -> None:
    joined = join_sentences(sentences, SEPARATOR)
    assert split_sentences(joined, SEPARATOR) == sentences
    assert joined.split().count(SEPARATOR) == len(sentences) - 1
    assert "  " not in joined
    assert joined == joined.strip()


def test_reordered_sentences() -> None:
    assert first_to_end(["a", "b", "c"]) == ["b", "c", "a"]
    assert first_to_end(["a"]) == ["a"]
    assert interleave([1, 2, 3], 0) == [1, 0, 2, 0, 3]
    assert interleave([1], 0) == [1]
