"""Selection of pairs by scores from files."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.learned_filter import keep_best

PAIRS = ("en", "de")


@pytest.fixture(autouse=True)
def pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("en").write_text("a\nb\nc\nd\n")
    Path("de").write_text("A\nB\nC\nD\n")
    Path("scores").write_text("1\n-inf\n2\n1\n")


def test_outputs_of_different_names_are_not_complete() -> None:
    assert keep_best(PAIRS, "scores", ("kept.en", "kept.de"), 50)
    assert Path("kept.de").read_text() == "A\nC\n"
    Path("other.de").write_text("a file of another job\n")
    with pytest.raises(UsageError, match=r"kept\.en exists, and is not an output of this job"):
        keep_best(PAIRS, "scores", ("kept.en", "other.de"), 50)


def test_changed_scores_are_not_complete() -> None:
    Path("scores").write_text("4\n3\n1\n0\n")
    assert keep_best(PAIRS, "scores", ("kept.en", "kept.de"), 50)
    assert keep_best(PAIRS, "scores", ("kept.en", "kept.de"), 50) is None
    Path("scores").write_text("0\n1\n3\n4\n")
    with pytest.raises(UsageError, match="not an output of this job"):
        keep_best(PAIRS, "scores", ("kept.en", "kept.de"), 50)


@pytest.mark.parametrize("outputs", [("kept", "kept"), ("en", "kept"), ("scores", "kept")])
def test_outputs_are_different_files(outputs: tuple[str, str]) -> None:
    with pytest.raises(UsageError):
        keep_best(PAIRS, "scores", outputs, 50)
    assert not Path("kept").exists()
    assert Path("en").read_text() == "a\nb\nc\nd\n"


@pytest.mark.parametrize("bad", ["x", "", "1 2", "nan"])
def test_lines_that_are_not_numbers(bad: str) -> None:
    Path("scores").write_text(f"1\n{bad}\n2\n3\n")
    with pytest.raises(DataError, match="scores has"):
        keep_best(PAIRS, "scores", ("kept.en", "kept.de"), 50)


@pytest.mark.parametrize("signature", ["[]", "{}", "{"])
def test_signatures_of_other_files(signature: str) -> None:
    Path("scores.json").write_text(signature)
    assert keep_best(PAIRS, "scores", ("kept.en", "kept.de"), 25)
    assert Path("kept.en").read_text() == "c\n"


def test_a_share_is_not_a_percentage(caplog: pytest.LogCaptureFixture) -> None:
    assert keep_best(PAIRS, "scores", ("kept.en", "kept.de"), 0.5)
    assert "`keep` is a percentage: 0.5 keeps 0.5 % of the pairs" in caplog.text
