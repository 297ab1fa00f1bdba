"""``fairseq-ssl spelling``: count words and correct misspelled ones."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from fairseq_ssl.cli.main import main

pytest.importorskip("symspellpy")
pytest.importorskip("lemminflect")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write two texts, one of them compressed, into the current folder."""
    monkeypatch.chdir(tmp_path)
    Path("one").write_text("the people receive a letter\n" * 20)
    Path("two.gz").write_bytes(gzip.compress(b"we believe the people\n" * 20))
    Path("text").write_text("we recieve a leter\n\nthe poeple\n")
    Path("empty").write_text("\n")
    return tmp_path


def test_words_are_counted_and_corrected(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["spelling", "count", "one", "two.gz", "-o", "counts.gz"]) == 0
    shown = capsys.readouterr()
    assert "180 words, 7 of them different, and 10 pairs that occur at least twice" in shown.err
    assert Path("counts.gz.json").exists()
    words = ["spelling", "correct", "text", "--counts", "counts.gz"]
    assert main(words) == 0
    assert capsys.readouterr().out == "we receive a letter\n\nthe people\n"
    assert main([*words, "-o", "out"]) == 0
    assert Path("out").read_text() == "we receive a letter\n\nthe people\n"


def test_an_output_of_another_job_is_replaced_only_if_asked(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The counts are a part of the job, like the text."""
    for counts, texts in (("first", ["one"]), ("second", ["one", "two.gz"])):
        assert main(["spelling", "count", *texts, "-o", counts]) == 0
    words = ["spelling", "correct", "text", "-o", "out", "--counts"]
    assert main([*words, "first"]) == main([*words, "first"]) == 0
    assert "out is complete" in capsys.readouterr().err
    assert main([*words, "second"]) == 2
    assert "out exists, and is not an output of this job" in capsys.readouterr().err
    assert main([*words, "second", "--force"]) == 0
    assert Path("out").read_text().splitlines()[0] == "we receive a letter"
