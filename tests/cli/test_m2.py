"""``fairseq-ssl m2``: to text and back, merged, counted and applied, and what is rejected."""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from fairseq_ssl.cli.main import main
from tests.cli.rewriting import given, refused, shown
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
    expected = {"step": "to-text", "file": "gold.m2", "annotator": 0, "drop_overlaps": False}
    assert json.loads((folder / "dev.src.json").read_text()).items() >= expected.items()
    shown(capsys, "m2", "to-text", "gold.m2", "-o", "b", "--annotator", "1", "-t", "en", "-s", "er")
    assert json.loads((folder / "b.er.json").read_text())["annotator"] == 1
    assert (folder / "b.er").read_text() == SOURCE
    assert (folder / "b.en").read_text() == SECOND
    message = refused(capsys, 1, "m2", "to-text", "gold.m2", "-o", "c", "--annotator", "2")
    assert "gold.m2 has no annotator 2. Its annotators: 0, 1." in message
    for name, text in {"empty": "", "pairs.tsv": "a cat\ta dog\n"}.items():
        (folder / name).write_text(text, encoding="utf-8")
        for annotator in ("0", "all"):
            words = ("m2", "to-text", name, "-o", "c", "--annotator", annotator)
            assert f"{name} has no line that begins with 'S '" in refused(capsys, 1, *words)
    message = refused(capsys, 1, "m2", "stats", "empty")
    assert "empty has no line that begins with 'S '. Is this an M2 file?" in message
    assert not list(folder.glob("c.*"))


@pytest.mark.parametrize("languages", [("en", "en"), ("m2", "en"), ("en", "m2")])
def test_text_does_not_replace_the_input(
    languages: tuple[str, str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = languages
    words = ("m2", "to-text", "gold.m2", "-o", "gold", "-s", source, "-t", target)
    assert "must be different files" in refused(capsys, 2, *words)
    assert (folder / "gold.m2").read_text(encoding="utf-8") == GOLD
    assert not list(folder.glob("gold.en*"))


def test_text_of_all_annotators(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["m2", "to-text", "gold.m2", "-o", "dev", "--annotator", "all"]) == 0
    assert (folder / "dev.trg.0").read_text() == FIRST
    assert (folder / "dev.trg.1").read_text() == SECOND
    printed = capsys.readouterr().err
    assert "dev.trg.0: 3 of 4 edits of annotator 0 in 3 sentences\n" in printed
    assert "1 sentences without this annotator are unchanged" in printed


def test_overlapping_edits(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("m2", "to-text", "overlap.m2", "-o", "dev")
    message = refused(capsys, 1, *words)
    assert "overlap.m2:1 has two edits of annotator 0 at word 2" in message
    assert "Set --drop-overlaps" in message
    assert not list(folder.glob("dev*"))
    shown(capsys, *words, "--drop-overlaps")
    assert (folder / "dev.trg").read_text() == FIRST.replace("on the mat", "on mat")


def test_applied_edits_of_some_types(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    apply = ("m2", "apply", "gold.m2")
    assert shown(capsys, *apply) == FIRST
    assert shown(capsys, *apply, "--annotator", "1") == SECOND
    verbs = SOURCE.replace("sit ", "sits ")
    assert shown(capsys, *apply, "--types", "VERB:*") == verbs
    assert shown(capsys, *apply, "--types", "R,U", "--exclude-types", "NOUN") == verbs
    assert shown(capsys, *apply, "--exclude-types", "R:VERB:SVA,M:DET,U") == SOURCE
    given(monkeypatch, GOLD)
    assert shown(capsys, "m2", "apply") == FIRST
    assert shown(capsys, *apply, "-o", "out", "--drop-overlaps") == ""
    assert json.loads((folder / "out.json").read_text())["drop_overlaps"] is True
    assert (folder / "out").read_text() == FIRST
    assert "applied" not in refused(capsys, 2, *apply, "-o", "gold.m2")
    message = refused(capsys, 1, "m2", "apply", "bad.m2", "-o", "out2")
    assert "bad.m2:7 has the span 1 22, but its sentence has 5 words" in message


def test_merged_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown(capsys, "m2", "merge", "gold.m2", "gold.m2", "-o", "both.m2")
    blocks = (folder / "both.m2").read_text().split("\n\n")
    lines = GOLD.split("\n\n")[0].splitlines()
    again = [line[:-1] + {"0": "2", "1": "3"}[line[-1]] for line in lines[1:]]
    assert blocks[0].splitlines() == lines + again
    assert [line[-1] for line in blocks[1].splitlines()[1:]] == ["0", "0", "2", "2"]
    assert refused(capsys, 2, "m2", "merge", "gold.m2")
    message = refused(capsys, 1, "m2", "merge", "gold.m2", "other.m2", "-o", "no.m2")
    assert "other.m2:6 has other words than gold.m2:6" in message
    for order in (("gold.m2", "short.m2"), ("short.m2", "gold.m2")):
        message = refused(capsys, 1, "m2", "merge", *order, "-o", "no.m2")
        assert "short.m2 has fewer sentences than the other files" in message
    assert not (folder / "no.m2").exists()


def test_pipes_are_not_read_twice(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo("pipe")
    for step in (("to-text", "pipe"), ("merge", "gold.m2", "pipe")):
        assert "pipe is a device or a pipe" in refused(capsys, 2, "m2", *step, "-o", "new")
    assert not list(folder.glob("new*"))


def test_fields_after_the_annotator_are_ignored(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("more.m2").write_text(GOLD.replace("|||0\n", "|||0|||7\n"), encoding="utf-8")
    expected = shown(capsys, "m2", "merge", "gold.m2", "gold.m2")
    assert shown(capsys, "m2", "merge", "more.m2", "more.m2") == expected
    assert main(["m2", "to-text", "more.m2", "-o", "dev", "--annotator", "all"]) == 0
    assert Path("dev.trg.0").read_text() == FIRST
    assert not Path("dev.trg.7").exists()


def test_counts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = json.loads(shown(capsys, "m2", "stats", "gold.m2", "--format", "json"))
    assert (content["sentences"], content["tokens"]) == (3, 14)
    assert content["annotators"]["0"] == {
        "sentences": 3,
        "unchanged": 1,
        "edits": 4,
        "operations": {"R": 1, "M": 1, "U": 1, "UNK": 1},
        "types": {"R:VERB:SVA": 1, "M:DET": 1, "U:NOUN": 1, "UNK": 1},
    }
    assert content["annotators"]["1"]["sentences"] == 2
    lines = shown(capsys, "m2", "stats", "gold.m2").splitlines()
    assert lines[:2] == ["sentences  tokens", "3          14"]
    assert lines[3].split() == ["annotator", "sentences", "unchanged", "edits", "M", "R", "U"]
    assert [line.split() for line in lines[4:6]] == [
        ["0", "3", "1", "4", "1", "1", "1"],
        ["1", "2", "1", "1", "0", "1", "0"],
    ]
    assert "VERB:TENSE  1      20.0  0  1  0  0            1" in lines


def test_edits_of_text_are_those_of_errant_parallel(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in (
        ("source", "\n" + SOURCE),
        ("first", "\n" + FIRST),
        ("second", "\n" + SECOND),
    ):
        Path(name).write_text(text)
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
    shown(capsys, *words, "--model", model, "--jobs", "2", "-o", "ours.m2")
    assert (folder / "ours.m2").read_text() == expected
    untyped = shown(capsys, *words, "--untyped")
    main(["m2", *words[1:], "--untyped"])
    assert "source: dropped 1 empty lines" in capsys.readouterr().err
    assert "A 2 3|||NA|||sits|||" in untyped
    assert "Drop one" in refused(capsys, 2, *words, "--untyped", "--model", model)


def test_text_that_m2_cannot_hold(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("m2", "from-text", "source", "bars", "--untyped", "-o", "no.m2")
    for token in ("|||", "||", "-NONE-", "x |"):
        Path("bars").write_text(FIRST.replace("a mat", f"a {token} mat"))
        message = refused(capsys, 1, *words)
        assert f"source:3 has the correction {token!r}, which an M2 file cannot contain" in message
    Path("bars").write_text(FIRST.replace("a mat", "a | x mat"))
    shown(capsys, *words)
    assert shown(capsys, "m2", "apply", "no.m2").endswith("\na | x mat .\n")
    Path("no.m2").unlink()
    Path("less").write_text("a\n")
    message = refused(capsys, 1, "m2", "from-text", "source", "less", "--untyped", "-o", "no.m2")
    assert "less ends after line 1" in message


def essays(folder: Path, *essays: object) -> str:
    path = folder / "essays.json"
    path.write_text("".join(json.dumps(essay) + "\n" for essay in essays))
    return str(path)


def test_essays(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edits = [[8, 11, "sits"], [14, 14, " the"]]
    first = {"text": "the cat sit on mat.\nA dog.", "edits": [[0, edits], [3, []]]}
    words = ("m2", "from-json", essays(folder, first, {"text": "It works", "edits": []}))
    expected = """\
S the cat sit on mat .
A 2 3|||NA|||sits|||REQUIRED|||-NONE-|||0
A 4 4|||NA|||the|||REQUIRED|||-NONE-|||0
A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||3

S A dog .
A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||0
A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||3

S It works
A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||0

"""
    assert shown(capsys, *words, "--untyped") == expected
    assert shown(capsys, *words, "--untyped", "--jobs", "2") == expected
    model = str(small_pipeline(folder))
    typed = expected.replace("NA|||sits", "R:VERB:SVA|||sits").replace("NA|||the", "M:DET|||the")
    assert shown(capsys, *words, "--model", model, "--presplit") == typed
    assert shown(capsys, *words, "--model", model, "--presplit", "--auto") == typed
    assert shown(capsys, *words, "--model", model, "--presplit", "--keep-types") == expected
    message = refused(capsys, 2, *words, "--model", model, "-o", "no.m2")
    assert "does not split sentences. Set --spacy-model to a pipeline with a parser" in message


def test_long_conversions_report_progress(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairseq_ssl.cli.console.SECONDS_BETWEEN_LINES", 0)
    essay = essays(folder, {"text": "It works", "edits": []})
    for words, done in (
        (("from-text", "source", "first"), "m2 from-text: 3 sentences, "),
        (("from-json", essay), "m2 from-json: 1 essays, "),
    ):
        assert main(["m2", *words, "--untyped", "-o", "out.m2"]) == 0
        assert done in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "essays.json:2 is not JSON"),
        ("[1]", "essays.json:2 is not an essay of BEA-2019"),
        ('{"edits": []}', "essays.json:2 is not an essay"),
        ('{"text": 3, "edits": []}', "essays.json:2 is not an essay"),
        ('{"text": "a", "edits": 3}', "essays.json:2 is not an essay"),
        ('{"text": "a", "edits": [["x", []]]}', "essays.json:2 is not an essay"),
        ('{"text": "a", "edits": [[0, [[0, 2, "b"]]]]}', "essays.json:2 is not an essay"),
        ('{"text": "a", "edits": [[0, [[0, 1, 5]]]]}', "essays.json:2 is not an essay"),
        ('{"text": "a", "edits": [[0, [[true, 1, "b"]]]]}', "essays.json:2 is not an essay"),
        ('{"text": "a", "edits": [[0, [[0, 1, "b", "R|||"]]]]}', "essays.json:2 is not an essay"),
        ('{"text": "a", "edits": [[0, [[0, 1, "b", 4]]]]}', "essays.json:2 is not an essay"),
        ('{"text": "a", "edits": [[0, [[0, 1, "|||"]]]]}', "essays.json:2 has the correction"),
        (json.dumps({"text": "a" * 500_001}), "essays.json:2 has a text or a correction of more"),
    ],
)
def test_malformed_essays(
    folder: Path, capsys: pytest.CaptureFixture[str], line: str, message: str
) -> None:
    (folder / "essays.json").write_text(f"\n{line}\n")
    words = ("m2", "from-json", "essays.json", "--untyped", "-o", "no.m2")
    found = refused(capsys, 1, *words)
    assert message in found
    assert found.count("\n") == 1
    assert not (folder / "no.m2").exists()
