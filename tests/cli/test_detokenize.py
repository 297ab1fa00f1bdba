"""``fairseq-ssl detokenize``: tokens to text, output of fairseq-generate to ordered text."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from fairseq_ssl.cli.main import main

GENERATED = """\
S-1\t▁A ▁dog .
T-1\t▁Ein ▁H und .
H-1\t-0.5\t▁Ein ▁Hund ▁.
D-1\t-0.5\t▁Ein ▁Hund ▁.
H-1\t-0.9\t▁second ▁best
S-0\t▁Yes
T-0\t▁Ja
H-0\t-0.1\t▁Ja <sep> ▁J a
P-0\t-0.1
"""


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert main(["detokenize", *words]) == 0
    return capsys.readouterr().out.splitlines()


def test_hypotheses_come_best_first_and_in_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "generate.txt"
    file.write_text(GENERATED)
    words = (str(file), "--field")
    assert shown(capsys, *words, "H", "--drop", "<sep>") == ["Ja Ja", "Ein Hund ."]
    assert shown(capsys, *words, "T") == ["Ja", "Ein Hund."]
    assert shown(capsys, *words, "S", "--subwords", "none") == ["▁Yes", "▁A ▁dog ."]


def test_a_missing_line_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "generate.txt"
    file.write_text("H-0\t-1\ta\nH-2\t-1\tb\n")
    assert main(["detokenize", str(file), "--field", "H"]) == 1
    assert f"There is no line H-1 in {file}." in capsys.readouterr().err
    assert main(["detokenize", str(tmp_path / "none")]) == 1
    assert "does not exist" in capsys.readouterr().err


@pytest.mark.parametrize("last", ["H-1", "H-1\t-0.2", f"H-{'1' * 5000}\t-1\tb"])
def test_a_truncated_line_is_an_error(
    last: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "generate.txt"
    file.write_text(f"H-0\t-1\ta\n{last}")
    assert main(["detokenize", str(file), "--field", "H", "--subwords", "none"]) == 1
    assert f"{file}:2 is truncated. Expected H-index, score, tokens." in capsys.readouterr().err


def test_other_input_than_fairseq_generate_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "text"
    file.write_text("plain\n")
    assert main(["detokenize", str(file), "--field", "H"]) == 1
    assert f"no line that begins with H-0 in {file}." in capsys.readouterr().err
    file.write_bytes(b"fine\n\xff\n")
    assert main(["detokenize", str(file)]) == 1
    assert "text:2 is not valid UTF-8" in capsys.readouterr().err


def test_a_file_is_written_with_its_signature(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "in.gz", "wt", encoding="utf-8") as packed:
        packed.write("▁Ein ▁H und\n")
    out = tmp_path / "out"
    assert main(["detokenize", str(tmp_path / "in.gz"), "-o", str(out)]) == 0
    assert out.read_text(encoding="utf-8") == "Ein Hund\n"
    assert json.loads((tmp_path / "out.json").read_text())["method"] == "detokenize"


def test_subword_nmt_and_moses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "bpe"
    file.write_text("Er sag@@ te : &quot; Ja , so@@ fort . &quot;\nein Rand @-@ Fall@@\n")
    words = (str(file), "--subwords", "subword-nmt")
    assert shown(capsys, *words)[0] == "Er sagte : &quot; Ja , sofort . &quot;"
    assert shown(capsys, *words, "--moses", "de") == ['Er sagte: "Ja, sofort."', "ein Rand-Fall"]


def test_words_are_not_joined_like_subwords(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "words"
    file.write_text("\nYes\na dog barks\n")
    assert main(["detokenize", str(file)]) == 1
    assert "'a dog barks' has no ▁" in capsys.readouterr().err
    assert main(["subwords", "decode", str(file)]) == 1
    assert "Set --subwords to none or subword-nmt." in capsys.readouterr().err
    assert main(["subwords", "decode", str(file), "--subwords", "none"]) == 0
    assert capsys.readouterr().out == file.read_text()
    assert shown(capsys, str(file), "--subwords", "sentencepiece") == ["", "Yes", "adogbarks"]
    file.write_text("▁a ▁dog\nb a r k s\n")
    assert shown(capsys, str(file)) == ["a dog", "barks"], "a model may leave them out"


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("▁a ▁ <sep> ▁ <sep> ▁b", "a b"),
        ("▁ <sep> ▁a ▁ <sep> b ▁ <sep>", "a b"),
        ("▁a <sep> ▁b", "a b"),
    ],
)
def test_a_dropped_token_leaves_one_space(
    line: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text").write_text(f"{line}\n", encoding="utf-8")
    assert shown(capsys, str(tmp_path / "text"), "--drop", "<sep>") == [text]


def test_no_break_spaces_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "text"
    file.write_text(" 10\u00a0000  <sep> Kč .\n", encoding="utf-8")
    words = (str(file), "--subwords", "none", "--drop", "<sep>")
    assert shown(capsys, *words) == ["10\u00a0000 Kč ."]
    assert shown(capsys, *words, "--moses", "cs") == ["10\u00a0000 Kč."]
