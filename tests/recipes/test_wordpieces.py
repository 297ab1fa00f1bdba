"""Split text into BERT's word pieces, and join edited word pieces (examples/pie/wordpieces.py)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.recipes.recipe import script

RECIPE = ROOT / "examples/pie"

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "#", "play", "pl", "##ay", "##ing"]
VOCABULARY += ["##i", "##s", "##b", ".", "-", "'", "n", "t", "do", "is", "né"]


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    (tmp_path / "bert").mkdir()
    (tmp_path / "bert/vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    (tmp_path / "bert/config.json").write_text('{"model_type": "bert"}')
    return tmp_path / "bert"


@pytest.mark.parametrize("uncased", [False, True])
def test_word_pieces_are_those_of_bert(bert: Path, uncased: bool) -> None:
    """Except unknown parts of words, which are unchanged."""
    transformers = pytest.importorskip("transformers")
    (bert / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": uncased}))
    theirs = transformers.BertTokenizer(str(bert / "vocab.txt"), do_lower_case=uncased)
    ours = script(RECIPE / "wordpieces.py").WordPieces(bert)
    for line in ("playing pl-play .", "do n't", "Playing ##b plaything .", "né Né ne", "." * 101):
        pieces = ours.split(line)
        expected = theirs.tokenize(line)
        assert len(pieces) == len(expected), line
        for piece, name in zip(pieces, expected, strict=True):
            assert piece.name == (piece.surface if name == "[UNK]" else name)
    assert [piece.name for piece in ours.split("plaything-x")] == ["plaything", "-", "x"]


@pytest.mark.parametrize(
    ("source", "edited", "text"),
    [
        ("Do n't play", "do n ' t play", "Do n't play"),
        ("do n't play", "do n ' t pl ##ay ##s", "do n't plays"),
        ("pl-play n", "pl - is n", "pl-is n"),
        ("Pl - play .", "pl - play - .", "Pl - play - ."),
        ("do", "##s do", "##s do"),
        ("do", "", ""),
        ("", "do ##s", "dos"),
    ],
)
def test_edited_word_pieces_become_words_again(
    bert: Path, source: str, edited: str, text: str
) -> None:
    (bert / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    ours = script(RECIPE / "wordpieces.py").WordPieces(bert)
    assert ours.join(edited, source) == text
    assert ours.join(" ".join(piece.name for piece in ours.split(source)), source) == source


@pytest.mark.parametrize("uncased", [False, True])
def test_text_without_edits_is_unchanged(bert: Path, uncased: bool) -> None:
    """Also characters that BERT drops: accents, soft hyphens and other control characters."""
    (bert / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": uncased}))
    ours = script(RECIPE / "wordpieces.py").WordPieces(bert)
    for text in (
        *("cafe\u0301 c", "a\u00adb\u00ad c", "\u00adplay\u00ad-\u00ads\u00ad", "\u00ad c"),
        *("pla\u0301yi\u0301ngs\u0301 do", "\u0130s n't", "\u4e2d\u6587\u0301.", "n\u200b't"),
    ):
        pieces = ours.split(text)
        assert ours.join(" ".join(piece.name for piece in pieces), text) == text


def test_dictionary_omits_special_symbols_and_whitespace(bert: Path, tmp_path: Path) -> None:
    symbols = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<s>", "the", "##e", "a\u3000b", "É"]
    (bert / "vocab.txt").write_text("\n".join(symbols) + "\n")
    script(RECIPE / "wordpieces.py").write_dictionary(bert, tmp_path / "dict.txt")
    assert (tmp_path / "dict.txt").read_text() == "the 1\n##e 1\nÉ 1\n"
