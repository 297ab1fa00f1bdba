"""``fairseq-ssl postprocess``: single steps, all steps in order, rejected options."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairseq_ssl.cli.main import main
from tests.cli.rewriting import given, shown

GENERATED = """\
S-1\t▁A ▁dog .
T-1\t▁Ein ▁H und .
H-1\t-0.5\t▁Ein ▁Hund ▁.
D-1\t-0.5\t▁Ein ▁Hund ▁.
H-1\t-0.9\t▁second ▁best
S-0\t▁Yes
T-0\t▁Ja
H-0\t-0.1\t▁Ja <sep> ▁J <unk>
P-0\t-0.1
"""


@pytest.fixture
def copying(tmp_path: Path) -> list[str]:
    """Options of --copy-unknown for two lines, the first with a rare word."""
    (tmp_path / "source").write_text("▁the ▁δ ▁line .\n▁a\n", encoding="utf-8")
    (tmp_path / "dict.en.txt").write_text("▁the 3\n. 2\n▁line 2\n▁δ 1\n▁a 1\n", encoding="utf-8")
    (tmp_path / "dict.de.txt").write_text("▁the 3\n. 2\n▁line 2\n▁a 1\n", encoding="utf-8")
    return [
        *("--copy-unknown", "--source", str(tmp_path / "source")),
        *("--source-dict", str(tmp_path / "dict.en.txt")),
        *("--target-dict", str(tmp_path / "dict.de.txt")),
    ]


def test_all_steps_in_their_order(
    copying: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, output = tmp_path / "hyp", tmp_path / "out"
    file.write_text("▁die <unk> - L inie <unk> ▁, ▁&quot; ▁gut ▁&quot; ▁.\n<unk>\n", "utf-8")
    words = ["--moses", "de", "--detruecase", "--replace-unk", "|", *copying]
    command = ["postprocess", str(file), *words, "--subwords", "sentencepiece", "-o", str(output)]
    assert main(command) == 0
    assert output.read_text(encoding="utf-8") == 'Die δ-Linie|, "gut".\n|\n'
    assert "1 <unk> replaced by source tokens, 2 <unk> kept" in capsys.readouterr().err
    signature = json.loads(output.with_name("out.json").read_text(encoding="utf-8"))
    assert signature["replace_unk"] == "|"
    assert "japanese_punctuation" not in signature


def test_each_step_alone(
    copying: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = "das <unk> ▁Haus@@ tor , マダム (Madam). ja . nein"
    for words, wanted in {
        ("--replace-unk", "|"): line.replace("<unk>", "|"),
        ("--replace-unk", "none"): line.replace("<unk>", "none"),
        ("--replace-unk", ""): line.replace("<unk>", ""),
        ("--subwords", "subword-nmt"): line.replace("@@ ", ""),
        ("--subwords", "sentencepiece"): "das<unk> Haus@@tor,マダム(Madam).ja.nein",
        ("--drop", "<unk>"): line.replace("<unk> ", ""),
        ("--detruecase",): line.replace("das", "Das").replace("nein", "Nein"),
        ("--moses", "de"): line.replace(" ,", ",").replace(" .", "."),
        ("--japanese-punctuation",): "das <unk> ▁Haus@@ tor、マダム (Madam)。ja。nein",
        ("--remove-brackets",): line.replace(" (Madam)", ""),
        tuple(copying): line.replace("<unk>", "▁δ"),
    }.items():
        given(monkeypatch, f"{line}\n\n")
        assert shown(capsys, "postprocess", *words) == f"{wanted}\n\n", words


def test_japanese(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    given(monkeypatch, "▁マダム (M ad am ▁Nee djan )は,\u2028 3.14 です .\n")
    words = ("--japanese-punctuation", "--remove-brackets", "--subwords", "sentencepiece")
    assert shown(capsys, "postprocess", *words) == "マダムは、\u20283.14です。\n"


def test_hypotheses_come_best_first_and_in_order(
    copying: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "generate.txt"
    file.write_text(GENERATED, encoding="utf-8")
    words = ("postprocess", file, "--fairseq-lines")
    assert shown(capsys, *words, "S") == "▁Yes\n▁A ▁dog .\n"
    joined = ("--subwords", "sentencepiece")
    assert shown(capsys, *words, "T", *joined) == "Ja\nEin Hund.\n"
    assert (
        shown(capsys, *words, "H", *joined, *copying, "--drop", "<sep>") == "Ja J δ\nEin Hund .\n"
    )


def test_subword_nmt_and_moses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "bpe"
    file.write_text("Er sag@@ te : &quot; Ja , so@@ fort . &quot;\nein Rand @-@ Fall@@\n")
    words = ("postprocess", file, "--subwords", "subword-nmt", "--moses", "de")
    assert shown(capsys, *words) == 'Er sagte: "Ja, sofort."\nein Rand-Fall\n'


def test_a_dropped_token_leaves_one_space(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = "▁a ▁ <sep> ▁ <sep> ▁b\n▁ <sep> ▁a ▁ <sep> b ▁ <sep>\n▁a <sep> ▁b\n"
    given(monkeypatch, lines)
    words = ("--subwords", "sentencepiece", "--drop", "<sep>")
    assert shown(capsys, "postprocess", *words) == "a b\n" * 3


def test_no_break_spaces_are_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, wanted in (((), "10\u00a0000 Kč .\n"), (("--moses", "cs"), "10\u00a0000 Kč.\n")):
        given(monkeypatch, " 10\u00a0000  <sep> Kč .\n")
        assert shown(capsys, "postprocess", "--drop", "<sep>", *words) == wanted
