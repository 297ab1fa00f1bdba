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
    for verb in (("detokenize",), ("subwords", "decode")):
        assert main([*verb, str(file)]) == 1
        assert "'a dog barks'" in capsys.readouterr().err
    assert shown(capsys, str(file), "--subwords", "sentencepiece") == ["", "Yes", "adogbarks"]
    file.write_text("▁a ▁dog\nb a r k s\n")
    assert shown(capsys, str(file)) == ["a dog", "barks"], "a model may leave them out"


def test_a_dropped_token_leaves_one_space(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = "▁a ▁ <sep> ▁ <sep> ▁b\n▁ <sep> ▁a ▁ <sep> b ▁ <sep>\n▁a <sep> ▁b\n"
    (tmp_path / "text").write_text(lines, encoding="utf-8")
    assert shown(capsys, str(tmp_path / "text"), "--drop", "<sep>") == ["a b"] * 3


def test_no_break_spaces_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "text"
    file.write_text(" 10\u00a0000  <sep> Kč .\n", encoding="utf-8")
    words = (str(file), "--subwords", "none", "--drop", "<sep>")
    assert shown(capsys, *words) == ["10\u00a0000 Kč ."]
    assert shown(capsys, *words, "--moses", "cs") == ["10\u00a0000 Kč."]
