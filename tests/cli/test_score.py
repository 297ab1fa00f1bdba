"""``fairseq-ssl score``: ROUGE by hand, output, rejected options."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairseq_ssl.errors import DataError
from fairseq_ssl.metrics import Rouge
from tests.cli.rewriting import given, refused, shown


def f1(right: int, found: int, wanted: int) -> float:
    return 100 * 2 * right / (found + wanted)


def test_rouge_by_hand() -> None:
    output, reference = "the cat sat <q> a dog ran home", "a dog ran <q> the big cat sat down"
    found = Rouge(sentence_mark="<q>").corpus_score([output], [[reference]]).values
    assert found["ROUGE-1"] == pytest.approx(f1(6, 7, 8))
    assert found["ROUGE-2"] == pytest.approx(f1(3, 6, 7))  # a-dog, dog-ran, cat-sat
    assert found["ROUGE-L"] == pytest.approx(f1(3, 7, 8))
    assert found["ROUGE-Lsum"] == pytest.approx(f1(6, 7, 8))  # both sentences, each in order


def test_best_reference_counts_and_sentences_are_averaged() -> None:
    found = Rouge().corpus_score(["a b", "c d"], [["x y", "c d"], ["a b", "x y"]]).values
    assert found["ROUGE-1"] == pytest.approx(100)
    found = Rouge().corpus_score(["a b", "c d"], [["x y", "c d"]]).values
    assert found["ROUGE-1"] == pytest.approx(50)
    stemmed = Rouge(stem=True).sentence_score("running dogs", ["run dog"])
    assert stemmed.values["ROUGE-2"] == pytest.approx(100)


def test_references_without_latin_letters_are_rejected(tmp_path: Path) -> None:
    reference = tmp_path / "ref"
    reference.write_text("für 2\n. !\n\n我 <q> 喜欢 猫\n", encoding="utf-8")
    rouge = Rouge([reference], sentence_mark="<q>")
    outputs = ["für 2", "", "", "我 <q> 喜欢 猫"]
    assert rouge.corpus_score(outputs).values["ROUGE-1"] == pytest.approx(25)
    reference.write_text("für 2\n你好 世界\n\n我 <q> 喜欢 猫\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"no words in 2 of 3 lines with letters in .*ref"):
        Rouge([reference], sentence_mark="<q>").corpus_score(outputs)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    lines = "a b c d\ne f g h\n"
    texts = {
        "out": lines,
        "ref": lines,
        "src": lines.replace("d", "x"),
        "short": "a\n",
        "empty": "",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_stdin_is_scored(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("score", "rouge", "-", "--reference", files / "ref")
    given(monkeypatch, "a b c d\ne f g h\n")
    assert "ROUGE-2\t100.00" in shown(capsys, *words)
    given(monkeypatch, b"a\xff\n")
    assert "stdin:1" in refused(capsys, 1, *words)
