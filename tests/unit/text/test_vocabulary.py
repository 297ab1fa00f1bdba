"""Tags of lines and in fairseq dictionaries."""

from __future__ import annotations

from pathlib import Path

import pytest
from fairseq.data import Dictionary
from hypothesis import strategies as st

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.text.vocabulary import (
    add_tag_to_dictionary,
    check_tag,
    read_counts,
    split_tags,
    write_counts,
)

LINES = st.text(st.characters(exclude_characters="\n", codec="utf-8"))


@pytest.mark.parametrize("tag", ["", " ", "<B T>", "a\u2028b", "<BT>\n", "<s>", "<pad>", "<unk>"])
def test_invalid_tag_is_rejected(tag: str) -> None:
    with pytest.raises(UsageError):
        check_tag(tag)


def test_leading_tags_are_split_off() -> None:
    tags = ["<BT>", "<de>"]
    assert split_tags("<BT> a <BT> b", tags) == (["<BT>"], "a <BT> b")
    assert split_tags(" <de> <BT>", tags) == (["<de>", "<BT>"], "")
    assert split_tags("<BT>a b", tags) == ([], "<BT>a b")
    assert split_tags("<BT> a", []) == ([], "<BT> a")


def test_counts_of_repeated_words_are_added(tmp_path: Path) -> None:
    file = tmp_path / "counts"
    file.write_text("b 2\na 1\nc 9\na 1\n")
    counts = read_counts(file)
    assert counts == {"a": 2, "b": 2, "c": 9}
    write_counts(counts, file)
    assert file.read_text() == "c 9\na 2\nb 2\n"


def test_tag_is_appended_to_a_dictionary_once(tmp_path: Path) -> None:
    file = tmp_path / "dict.en.txt"
    before = "the 9\n\u3000\u2028x 3\n<de> 0 #fairseq:overwrite\nmadeupword0000 0"
    file.write_text(before, encoding="utf-8", newline="\n")
    known = Dictionary.load(str(file)).symbols
    assert add_tag_to_dictionary(file, "<BT>") == 5
    assert file.read_text(encoding="utf-8") == f"{before}\n<BT> 1\n"
    assert add_tag_to_dictionary(file, "<BT>") is None
    assert add_tag_to_dictionary(file, "<de>") is None
    loaded = Dictionary.load(str(file))
    assert loaded.symbols == [*known, "<BT>"]
    assert loaded.index("<BT>") != loaded.unk_index
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


def test_linked_dictionary_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "dict.de.txt").write_text("a 1\n", encoding="utf-8")
    (tmp_path / "dict.en.txt").symlink_to("dict.de.txt")
    assert add_tag_to_dictionary(tmp_path / "dict.en.txt", "<BT>") == 2
    assert (tmp_path / "dict.en.txt").is_symlink()
    assert (tmp_path / "dict.de.txt").read_text(encoding="utf-8") == "a 1\n<BT> 1\n"


@pytest.mark.parametrize("text", ["a 1\nb\n", "a 1\n\nb 2\n", "a one\n"])
def test_malformed_dictionary_is_unchanged(tmp_path: Path, text: str) -> None:
    file = tmp_path / "dict.en.txt"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=r"dict\.en\.txt:[12] is "):
        add_tag_to_dictionary(file, "<BT>")
    assert file.read_text(encoding="utf-8") == text
