"""``fairseq-ssl score``: ROUGE by hand, output, rejected options."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest

from fairseq_ssl.cli.main import main
from fairseq_ssl.errors import DataError
from fairseq_ssl.metrics import Rouge
from tests.cli.rewriting import refused


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
    with pytest.raises(DataError, match=r"ref, ROUGE reads no word in 2 of 3 lines"):
        Rouge([reference], sentence_mark="<q>").corpus_score(outputs)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "out").write_text("a b c d\ne f g h\n", encoding="utf-8")
    (tmp_path / "src").write_text("a b c x\ne f g h\n", encoding="utf-8")
    (tmp_path / "ref").write_text("a b c d\ne f g h\n", encoding="utf-8")
    (tmp_path / "short").write_text("a b c d\n", encoding="utf-8")
    (tmp_path / "empty").write_text("", encoding="utf-8")
    return tmp_path


def test_scores_have_a_signature(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--source", str(files / "src"), *["--reference", str(files / "ref")] * 2]
    assert main(["score", "gleu", str(files / "out"), *words]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"^GLEU\t100\.00$", shown, re.M)
    assert "gleu|lines:2|references:2|samples:500|version:" in shown
    words = ["--reference", str(files / "ref"), "--format", "json"]
    assert main(["score", "rouge", str(files / "out"), *words]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ROUGE-Lsum"] == 100
    assert "by:rouge-score-" in found["signature"]


def test_stdin_is_scored(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a b c d\ne f g h\n")))
    assert main(["score", "rouge", "-", "--reference", str(files / "ref")]) == 0
    assert "ROUGE-2\t100.00" in capsys.readouterr().out
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a\xff\n")))
    assert main(["score", "rouge", "-", "--reference", str(files / "ref")]) == 1
    assert "stdin:1 is not valid UTF-8" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["gleu", "{}/out", "--reference", "{}/ref"], 2, "required: --source"),
        (
            ["rouge", "{}/out", "--reference", "{}/ref", "--source", "{}/src"],
            2,
            "unknown argument '--source'.",
        ),
        (["rouge", "{}/out", "--reference", "{}/short"], 1, "There are 1 lines in"),
        (["rouge", "{}/out", "--reference", "{}/none"], 1, "none"),
        (["rouge", "{}/empty", "--reference", "{}/empty"], 1, "empty is empty"),
        (["rouge", "{}", "--reference", "{}/ref"], 1, "is a folder. Expected a file."),
        (
            ["bleu", "{}/out", "--reference", "{}/ref", "--tokenize", "13b"],
            2,
            "no tokenizer '13b'. Did you mean '13a'?",
        ),
        (
            ["gleu", "{}/out", "--reference", "{}/ref", "--source", "{}/src", "--samples", "0"],
            2,
            "--samples: 0 is out of range. Expected 1 or more",
        ),
    ],
)
def test_wrong_options_are_rejected(
    words: list[str],
    code: int,
    message: str,
    files: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert message in refused(capsys, code, "score", *(word.format(files) for word in words))
