"""``fairseq-ssl m2``: to text and back, merged and counted, and what is rejected."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from fairseq_ssl.cli.main import main
from tests.cli.rewriting import refused, shown
from tests.unit.metrics.small_pipeline import small_pipeline

GOLD = """\
S the cat sit on mat .
A 2 3|||R:VERB:SVA|||sits|||REQUIRED|||-NONE-|||0
A 4 4|||M:DET|||the|||REQUIRED|||-NONE-|||0
A 2 3|||R:VERB:TENSE|||sat|||REQUIRED|||-NONE-|||1

S a dog dog sat .
A 1 2|||U:NOUN||||||REQUIRED|||-NONE-|||0
A 3 4|||UNK|||sat|||REQUIRED|||-NONE-|||0

S a mat .
A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||0
A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||1

"""
SOURCE = "the cat sit on mat .\na dog dog sat .\na mat .\n"
FIRST = "the cat sits on the mat .\na dog sat .\na mat .\n"
SECOND = "the cat sat on mat .\na dog dog sat .\na mat .\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    texts = {
        "gold.m2": GOLD,
        "source": SOURCE,
        "first": FIRST,
        "second": SECOND,
        "bad.m2": GOLD.replace("A 1 2", "A 1 22"),
        "overlap.m2": GOLD.replace("A 4 4", "A 2 4"),
        "short.m2": GOLD.partition("S a mat")[0],
        "other.m2": GOLD.replace("dog dog", "dog cat"),
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_text_of_an_annotator(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, "m2", "to-text", "gold.m2", "-o", "dev") == ""
    assert (folder / "dev.src").read_text() == SOURCE
    assert (folder / "dev.trg").read_text() == FIRST
    expected = {"subcommand": "to-text", "file": "gold.m2", "annotator": 0, "drop_overlaps": False}
    assert json.loads((folder / "dev.src.json").read_text()).items() >= expected.items()
    shown(capsys, "m2", "to-text", "gold.m2", "-o", "b", "--annotator", "1")
    assert (folder / "b.src").read_text() == SOURCE
    assert (folder / "b.trg").read_text() == SECOND


def test_text_of_all_annotators(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["m2", "to-text", "gold.m2", "-o", "dev", "--annotator", "all"]) == 0
    assert (folder / "dev.trg.0").read_text() == FIRST
    assert (folder / "dev.trg.1").read_text() == SECOND
    printed = capsys.readouterr().err
    assert "dev.trg.0: 3 of 4 edits of annotator 0 in 3 sentences\n" in printed
    assert "1 sentences without this annotator are unchanged" in printed


def test_overlapping_edits_can_be_dropped(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown(capsys, "m2", "to-text", "overlap.m2", "-o", "dev", "--drop-overlaps")
    assert (folder / "dev.trg").read_text() == FIRST.replace("on the mat", "on mat")


def test_text_with_edits_of_some_types(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    verbs = SOURCE.replace("sit ", "sits ")
    for words, wanted in {
        ("--types", "VERB:*"): verbs,
        ("--types", "R,M:VERB"): verbs,
        ("--types", "SPELL"): SOURCE,
    }.items():
        shown(capsys, "m2", "to-text", "gold.m2", "-o", "dev", *words)
        assert (folder / "dev.trg").read_text() == wanted
    assert json.loads((folder / "dev.src.json").read_text())["types"]


def test_merged_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown(capsys, "m2", "merge", "gold.m2", "gold.m2", "-o", "both.m2")
    blocks = (folder / "both.m2").read_text().split("\n\n")
    lines = GOLD.split("\n\n")[0].splitlines()
    again = [line[:-1] + {"0": "2", "1": "3"}[line[-1]] for line in lines[1:]]
    assert blocks[0].splitlines() == lines + again
    assert [line[-1] for line in blocks[1].splitlines()[1:]] == ["0", "0", "2", "2"]


def test_counts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = json.loads(shown(capsys, "m2", "stats", "gold.m2", "--format", "json"))
    assert (content["sentences"], content["tokens"]) == (3, 14)
    assert content["annotators"]["0"] == {
        **{"sentences": 3, "unchanged": 1, "edits": 4},
        "operations": {"R": 1, "M": 1, "U": 1, "UNK": 1},
        "types": {"R:VERB:SVA": 1, "M:DET": 1, "U:NOUN": 1, "UNK": 1},
    }
    assert content["annotators"]["1"]["sentences"] == 2
    lines = shown(capsys, "m2", "stats", "gold.m2").splitlines()
    assert lines[4].split() == ["0", "3", "1", "4", "1", "1", "1"]
    assert "VERB:TENSE  1      20.0  0  1  0  0            1" in lines


def test_edits_of_text_are_those_of_errant_parallel(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in {"source": SOURCE, "first": FIRST, "second": SECOND}.items():
        Path(name).write_text(f"\n{text}")
    model = str(small_pipeline(folder))
    command: Any = import_module("errant.commands.parallel_to_m2")
    errant, spacy = import_module("errant"), import_module("spacy")
    load = spacy.load
    monkeypatch.setattr(errant.spacy, "load", lambda name, **more: load(model))
    argv = ["errant_parallel", "-orig", "source", "-cor", "first", "second", "-out", "theirs.m2"]
    monkeypatch.setattr(sys, "argv", argv)
    command.main()
    monkeypatch.setattr(errant.spacy, "load", load)
    expected = (folder / "theirs.m2").read_text()
    assert "A 2 3|||R:VERB:SVA|||sits|||" in expected
    words = ("m2", "from-text", "source", "first", "second")
    assert shown(capsys, *words, "--spacy-model", model) == expected
    shown(capsys, *words, "--spacy-model", model, "--jobs", "2", "-o", "ours.m2")
    assert (folder / "ours.m2").read_text() == expected
    untyped = shown(capsys, *words, "--untyped")
    main(["m2", *words[1:], "--untyped"])
    assert "source: dropped 1 empty lines" in capsys.readouterr().err
    assert "A 2 3|||NA|||sits|||" in untyped


def test_text_that_m2_cannot_hold(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("m2", "from-text", "source", "bars", "--untyped", "-o", "new.m2")
    for token in ("||", "-NONE-", "x |"):
        Path("bars").write_text(FIRST.replace("a mat", f"a {token} mat"))
        assert repr(token) in refused(capsys, 1, *words)
    Path("bars").write_text(FIRST.replace("a mat", "a | x mat"))
    shown(capsys, *words)
    shown(capsys, "m2", "to-text", "new.m2", "-o", "new")
    assert Path("new.trg").read_text().endswith("\na | x mat .\n")
