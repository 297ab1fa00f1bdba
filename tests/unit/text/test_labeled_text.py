"""Reading, normalization, sampling and segmentation of labeled texts."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairseq_ssl.errors import DataError
from fairseq_ssl.text.labeled_text import (
    LabeledText,
    duplicate_key,
    is_in_fraction,
    normalized,
    read_labeled_text,
    segment_words,
    take_balanced,
    word_view,
)


def test_text_after_the_first_tab(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("pos\tIt's good\twith a tab\nneg\t\n")
    assert list(read_labeled_text(tmp_path / "a")) == [
        LabeledText("pos", "It's good\twith a tab"),
        LabeledText("neg", ""),
    ]


@pytest.mark.parametrize("line", ["no tab", "two words\ttext", "\ttext"])
def test_line_without_label_is_rejected(line: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_text(f"1\tfine\n{line}\n")
    with pytest.raises(DataError, match=r"a:2 is .*Expected a label, a tab and a text"):
        list(read_labeled_text(tmp_path / "a"))


def test_normalization_ignores_case_spaces_and_punctuation() -> None:
    assert (
        normalized("  It\u2019s GOOD ,  really!")
        == normalized("it's good really")
        == "it s good really"
    )
    assert duplicate_key("\uff26\uff55\uff4c\uff4c width") == duplicate_key("full WIDTH.")
    assert duplicate_key("not good") != duplicate_key("good not")
    assert duplicate_key("\U0001f600") != duplicate_key("\U0001f641"), "they have no words"
    assert duplicate_key("! !") == duplicate_key("!!")
    assert normalized("वह गया।") == "वह गया"
    assert duplicate_key("वह गया") != duplicate_key("वह गयी"), "they differ in a vowel sign"


def test_smaller_share_is_a_subset_of_a_larger_one() -> None:
    texts = [f"text {number}" for number in range(2000)]
    small = {text for text in texts if is_in_fraction(text, 0.1)}
    large = {text for text in texts if is_in_fraction(text, 0.3)}
    assert small < large
    assert 150 < len(small) < 250
    assert 520 < len(large) < 680
    assert is_in_fraction("TEXT 1!", 0.5) == is_in_fraction("text 1", 0.5)


def test_word_segmentation() -> None:
    words = segment_words("Don't (ever) 3.5 stars!")
    assert words == ["Don't", "(", "ever", ")", *"3.5", "stars", "!"]
    assert segment_words("हिन्दी में!") == ["हिन्दी", "में", "!"]
    assert segment_words("cafe\u0301 \u2764\ufe0flove") == ["cafe\u0301", "\u2764\ufe0f", "love"]
    assert segment_words("\u06cc\u200c\u062e") == ["\u06cc\u200c\u062e"]  # as in Persian
    assert list(word_view(["good, bad"], segment_words)) == ["good , bad"]


def test_take_balanced_keeps_duplicates_together() -> None:
    texts = [LabeledText("a", f"text {number % 30}") for number in range(40)]
    for count in (1, 7, 20, 39):
        inside, outside = take_balanced(texts, count)
        assert len(inside) == count
        assert sorted(map(texts.index, inside + outside)) == sorted(map(texts.index, texts))
        assert not {one.text for one in inside} & {one.text for one in outside}
    fewer = {one.text for one in take_balanced(texts, 12)[0]}
    in_share = {one.text for one in texts if is_in_fraction(one.text, 0.2)}
    assert in_share < fewer, "both select the lowest hashes"
    assert take_balanced([LabeledText("a", "same")] * 3, 2) == ([], [LabeledText("a", "same")] * 3)
