"""Tokens to text, and fairseq-generate's lines in the order of the data."""

from __future__ import annotations

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
    assert main(["detokenise", *words]) == 0
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
    assert main(["detokenise", str(file), "--field", "H"]) == 1
    assert "There is no H-1" in capsys.readouterr().err
    assert main(["detokenise", str(tmp_path / "none")]) == 1
    assert "can not be read: No such file" in capsys.readouterr().err


def test_subword_nmt_and_moses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "bpe"
    file.write_text("Er sag@@ te : &quot; Ja , so@@ fort . &quot;\nein Rand @-@ Fall@@\n")
    words = (str(file), "--subwords", "subword-nmt")
    assert shown(capsys, *words)[0] == "Er sagte : &quot; Ja , sofort . &quot;"
    assert shown(capsys, *words, "--moses", "de") == ['Er sagte: "Ja, sofort."', "ein Rand-Fall"]
