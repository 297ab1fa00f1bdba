"""Punctuation and brackets of Japanese output, with examples worked out by hand."""

# ruff: noqa: RUF001 - the tests need full-width characters that look like ASCII

from __future__ import annotations

import pytest

from fairseq_ssl.text.postprocessing import fix_japanese_punctuation, remove_latin_brackets


@pytest.mark.parametrize(
    ("english", "japanese"),
    [
        ("猫, 犬. 鳥.", "猫、犬。鳥。"),
        ("猫,犬.鳥です.」", "猫、犬。鳥です。」"),
        ("猫，犬．鳥．", "猫、犬。鳥。"),
        ("猫 , 犬 .", "猫、犬。"),
        ("Apple, Google は Inc.", "Apple、Google は Inc。"),
        ("円周率は3.14, 1,000より小さい.", "円周率は3.14、1,000より小さい。"),
        ("３．１４と1，000．", "３．１４と1，000。"),
        ("答えは2.", "答えは2。"),
        ("第1，猫", "第1、猫"),
        ("1,そして", "1、そして"),
        ("待って...", "待って..."),
        ("待って．．． はい", "待って．．． はい"),
        ("etc., 猫", "etc.、猫"),
        ("example.comとfile.txt", "example.comとfile.txt"),
        ("ファイル.txt", "ファイル.txt"),
        ("既に、よい。", "既に、よい。"),
        ("猫.\u2028犬", "猫。\u2028犬"),
        (" 猫 と 犬 ", " 猫 と 犬 "),
        ("", ""),
    ],
)
def test_punctuation(english: str, japanese: str) -> None:
    assert fix_japanese_punctuation(english) == japanese


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("マダム・ニージャン（Madam Needjan）は", "マダム・ニージャンは"),
        ("マダム・ニージャン (Madam Needjan) は", "マダム・ニージャン は"),
        ("キャシディ（Cassidy M. O'Stay-Né）とケイ(Kay)", "キャシディとケイ"),
        ("ソニー（Ｓｏｎｙ）", "ソニー"),
        ("ｿﾆｰ(Sony)", "ｿﾆｰ"),
        ("猫（cat）", "猫（cat）"),
        ("ねこ(cat)", "ねこ(cat)"),
        ("ソニー（2020）", "ソニー（2020）"),
        ("ソニー（PS 5）", "ソニー（PS 5）"),
        ("ソニー（ソニー）", "ソニー（ソニー）"),
        ("ソニー（Sony社）", "ソニー（Sony社）"),
        ("ソニー（, .）", "ソニー（, .）"),
        ("ソニー（）", "ソニー（）"),
        ("ソニー（Sony", "ソニー（Sony"),
        ("ソニーは（Sony）", "ソニーは（Sony）"),
    ],
)
def test_brackets(line: str, expected: str) -> None:
    assert remove_latin_brackets(line) == expected


def test_long_runs_of_spaces_take_linear_time() -> None:
    """With quadratic time, this test would take minutes."""
    spaces = " " * 300_000
    assert fix_japanese_punctuation(f"a{spaces}b{spaces},{spaces}c") == f"a{spaces}b、c"
    line = f"ア{spaces}({spaces}a{spaces}"
    assert remove_latin_brackets(line) == line
    assert remove_latin_brackets(f"{line})") == "ア"
