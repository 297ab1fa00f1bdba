"""``fairseq-ssl tag``: lines, dictionaries, rejected options."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from fairseq_ssl.cli.main import main
from tests.cli.rewriting import given, refused, shown

TEXT = "a b\n\nc\u2028d \r\n<BT> e"


def test_lines_get_the_tag(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given(monkeypatch, TEXT)
    tagged = shown(capsys, "tag", "<FT>")
    assert tagged == "<FT> a b\n<FT> \n<FT> c\u2028d \r\n<FT> <BT> e\n"


def test_hyphen_is_stdin_and_stdout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    given(monkeypatch, "a b\n")
    assert shown(capsys, "tag", "<BT>", "-", "-o", "-") == "<BT> a b\n"
    given(monkeypatch, "a b\n")
    words = ("filter", "-", "--filter", "clean", "--jobs", "1", "-o", "-")
    assert shown(capsys, *words) == "a b\n"
    assert not list(tmp_path.iterdir())


def test_existing_tags_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, output = tmp_path / "text.gz", tmp_path / "out.gz"
    file.write_bytes(gzip.compress(TEXT.encode()))
    assert main(["tag", "<BT>", str(file), "-o", str(output)]) == 0
    assert "1 of 4 lines already started with <BT>" in capsys.readouterr().err
    assert gzip.decompress(output.read_bytes()).endswith(b"\r\n<BT> <BT> e\n")
    assert output.with_name("out.gz.json").exists()


def test_dictionaries_alone_or_with_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", None)  # closed, and must not be read
    one, two, file = tmp_path / "dict.en.txt", tmp_path / "dict.de.txt", tmp_path / "text"
    one.write_text("b 2\na 1\n", encoding="utf-8")
    two.write_text("<BT> 3\nc 1\n", encoding="utf-8")
    file.write_text("a\n", encoding="utf-8")
    assert main(["tag", "<BT>", "--dictionary", str(one), str(two)]) == 0
    captured = capsys.readouterr()
    assert not captured.out
    assert captured.err == f"{one} has <BT> now, in line 3\n{two} already has <BT>\n"
    assert shown(capsys, "tag", "<BT>", file, "--dictionary", one, two) == "<BT> a\n"
    assert "stdin is closed" in refused(capsys, 1, "tag", "<BT>", "-", "--dictionary", one)
    given(monkeypatch, "b\n")
    assert shown(capsys, "tag", "<BT>", "-", "--dictionary", one) == "<BT> b\n"
    assert one.read_text(encoding="utf-8") == "b 2\na 1\n<BT> 1\n"
    assert two.read_text(encoding="utf-8") == "<BT> 3\nc 1\n"
