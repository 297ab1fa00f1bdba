"""Japanese punctuation and unknown words of outputs, with examples worked out by hand."""

# ruff: noqa: RUF001 - the tests need full-width characters that look like ASCII

from __future__ import annotations

import pytest

from fairseq_ssl.text.postprocessing import (
    Postprocessing,
    UnknownCopies,
    fix_japanese_punctuation,
    postprocessor,
    remove_latin_brackets,
)


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


SOURCE_WORDS = {"the", "▁angle", "δ", "▁is", "both"}
TARGET_WORDS = {"der", "▁Winkel", "β", "both"}


@pytest.mark.parametrize(
    ("output", "source", "expected", "counts"),
    [
        ("der <unk> .", "the both δ .", "der the .", (1, 0)),
        ("der <unk> <unk>", "both δ both β neither", "der δ β", (2, 0)),
        ("<unk> der <unk> <unk>", "both neither δ", "neither der δ <unk>", (2, 1)),
        ("<unk> <unk>", " both  neither ", "neither <unk>", (1, 1)),
        ("<unk>", "", "<unk>", (0, 1)),
        ("der Winkel", "δ β", "der Winkel", (0, 0)),
        ("a<unk> <<unk>>", "δ β", "a<unk> <<unk>>", (0, 0)),
        ("<unk>  x\u2028y ", "δ", "δ  x\u2028y ", (1, 0)),
        ("<unk> <unk>", "δ δ", "δ δ", (2, 0)),
        ("", "δ", "", (0, 0)),
    ],
)
def test_source_tokens_are_copied_in_order(
    output: str, source: str, expected: str, counts: tuple[int, int]
) -> None:
    copies = UnknownCopies(SOURCE_WORDS, TARGET_WORDS)
    assert copies(output, source) == expected
    assert (copies.copied, copies.left) == counts


def test_counts_are_summed_over_lines() -> None:
    copies = UnknownCopies(SOURCE_WORDS, TARGET_WORDS)
    copies("<unk> <unk>", "δ")
    copies("<unk>", "β")
    assert (copies.copied, copies.left) == (2, 1)
    assert postprocessor(Postprocessing(replace_unk="|"))("a <unk> b<unk> unk") == "a | b| unk"
