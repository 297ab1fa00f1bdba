"""Labeled lines, and when two texts are one."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairseq_ssl.errors import DataError
from fairseq_ssl.text.labeled_text import (
    LabeledText,
    duplicate_key,
    is_in_share,
    normalized,
    read_labeled_text,
    segment_words,
    take_balanced,
    word_view,
)


def test_lines_in_both_orders(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("pos\tIt's good\twith a tab\nneg\t\n")
    (tmp_path / "b").write_text("with\ta tab\tpos\n")
    assert list(read_labeled_text(tmp_path / "a")) == [
        LabeledText("pos", "It's good\twith a tab"),
        LabeledText("neg", ""),
    ]
    assert list(read_labeled_text(tmp_path / "b", True)) == [LabeledText("pos", "with\ta tab")]


@pytest.mark.parametrize("line", ["no tab", "two words\ttext", "\ttext"])
def test_a_line_without_a_label_is_told(line: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_text(f"1\tfine\n{line}\n")
    with pytest.raises(DataError, match=r"a:2 is .*expected a label, a tab and a text"):
        list(read_labeled_text(tmp_path / "a"))


def test_texts_are_the_same_whatever_their_case_spaces_and_punctuation() -> None:
    assert (
        normalized("  It\u2019s GOOD ,  really!")
        == normalized("it's good really")
        == "it s good really"
    )
    assert duplicate_key("\uff26\uff55\uff4c\uff4c width") == duplicate_key("full WIDTH.")
    assert duplicate_key("not good") != duplicate_key("good not")


def test_a_share_of_texts_is_always_the_same_and_grows() -> None:
    texts = [f"text {number}" for number in range(2000)]
    small = {text for text in texts if is_in_share(text, 0.1)}
    large = {text for text in texts if is_in_share(text, 0.3)}
    assert small < large
    assert 150 < len(small) < 250
    assert 520 < len(large) < 680
    assert is_in_share("TEXT 1!", 0.5) == is_in_share("text 1", 0.5)


def test_words() -> None:
    assert segment_words("Don't (ever) 3.5 stars!") == [
        "Don't",
        "(",
        "ever",
        ")",
        "3",
        ".",
        "5",
        "stars",
        "!",
    ]
    lines = word_view(["good, bad"], segment_words, {"good", ","})
    assert list(lines) == ["good ,"]


def test_exactly_so_many_texts_are_taken_and_equal_ones_stay_together() -> None:
    texts = [LabeledText("a", f"text {number % 30}") for number in range(40)]
    for count in (1, 7, 20, 39):
        inside, outside = take_balanced(texts, count)
        assert len(inside) == count
        assert sorted(map(texts.index, inside + outside)) == sorted(map(texts.index, texts))
        assert not {one.text for one in inside} & {one.text for one in outside}
    fewer = {one.text for one in take_balanced(texts, 12)[0]}
    of_a_share = {one.text for one in texts if is_in_share(one.text, 0.2)}
    assert of_a_share < fewer, "the lowest hashes, as a share has them"
    assert take_balanced([LabeledText("a", "same")] * 3, 2) == ([], [LabeledText("a", "same")] * 3)
