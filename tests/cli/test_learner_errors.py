"""``fairseq-ssl learner-errors``: count errors in corrected text."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import pytest

from fairseq_ssl import __version__
from fairseq_ssl.cli.main import main
from fairseq_ssl.noise.learner_errors import LearnerErrors
from tests.cli.rewriting import refused
from tests.conftest import Run

WRITTEN = ["I like the nature .", "It is in the Monday .", "He go to home", "", "We agree ."] * 3
CORRECT = ["I like nature .", "It is on Monday .", "He goes home", "x", "We agree !"] * 3


@pytest.fixture
def corpus(tmp_path: Path) -> list[str]:
    """Write the two sides, one of them compressed, and return their names."""
    source, target = tmp_path / "train.src", tmp_path / "train.trg.gz"
    source.write_text("\n".join([*WRITTEN, ""]))
    target.write_bytes(gzip.compress("\n".join([*CORRECT, ""]).encode()))
    return [str(source), str(target)]


def test_counts_are_not_replaced_by_the_signature_of_the_noise(
    corpus: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    counts = tmp_path / "noisy.json"
    assert main(["learner-errors", *corpus, "-o", str(counts)]) == 0
    before = counts.read_bytes()
    words = ["noise", corpus[0], "--method", "learner", "--learner-errors", str(counts)]
    told = refused(capsys, 2, *words, "-o", str(tmp_path / "noisy"))
    assert "noisy.json would be overwritten" in told
    assert counts.read_bytes() == before


def test_errors_of_a_corpus_are_counted(
    corpus: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "words.json"
    assert main(["learner-errors", *corpus, "-o", str(output)]) == 0
    assert LearnerErrors.read(output) == LearnerErrors(
        deleted={"the": 3},  # and not next to another changed word
        missing={},
        replaced={"!": {".": 3}},
        errors=(0, 6, 6, 0, 0),
        kinds={"append": 0, "verb": 3, "replace": 6, "delete": 9},
    )
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.splitlines()[0] == (
        "12 pairs, 1.50 errors each (append 0%, verb 17%, replace 33%, delete 50%), 3 with a blank "
        "side skipped; 1 words deleted, 0 missing, 1 replaced"
    )
    assert f"version:{__version__}\nwrote {output}\n" in shown.err
    content = json.loads(output.read_text())
    assert (content["min_count"], content["pairs"], content["source"]) == (2, 12, corpus[0])


def test_min_count(corpus: list[str], tmp_path: Path) -> None:
    output = tmp_path / "words.json"
    assert main(["learner-errors", *corpus, "-o", str(output), "--min-count", "3"]) == 0
    assert LearnerErrors.read(output).deleted == {"the": 3}


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--min-count", "0"], 2, "Expected 1 or more"),
        (["--min-count", "4"], 1, "is deleted 4 times or more"),
        (["-o", "{source}"], 2, "must be different files"),
    ],
)
def test_wrong_options_are_rejected(
    words: list[str],
    code: int,
    message: str,
    corpus: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = Path(corpus[0]).read_bytes()
    filled = [word.format(source=corpus[0]) for word in words]
    command = ("learner-errors", *corpus, "-o", str(tmp_path / "w.json"), *filled)
    assert message in refused(capsys, code, *command)
    assert Path(corpus[0]).read_bytes() == before
    assert not (tmp_path / "w.json").exists()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "train.src is empty. Expected one sentence or more."),
        ("a b\n\nc\n", "are equal in all 2 pairs"),
        ("\n \n", "were skipped: 2 have a blank line, 0 have more than 1000 tokens"),
    ],
)
def test_sides_without_an_error_are_reported(
    text: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sides = [tmp_path / "train.src", tmp_path / "train.trg"]
    for side in sides:
        side.write_text(text)
    assert main(["learner-errors", *map(str, sides), "-o", str(tmp_path / "w.json")]) == 1
    assert told in capsys.readouterr().err
    assert not (tmp_path / "w.json").exists()


def test_unequal_sides_are_an_error(
    corpus: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Path(corpus[0]).open("a") as file:
        file.write("one more\n")
    assert main(["learner-errors", *corpus, "-o", str(tmp_path / "w.json")]) == 1
    assert "ends after line 15, but" in capsys.readouterr().err


def test_the_command_needs_no_torch_and_no_fairseq(
    run: Run, corpus: list[str], tmp_path: Path
) -> None:
    script = tmp_path / "without.py"
    script.write_text(
        "import sys\n"
        "sys.modules['torch'] = None\n"
        "from fairseq_ssl.cli.main import main\n"
        "assert main(sys.argv[1:]) == 0\n"
        "assert 'fairseq' not in sys.modules\n"
    )
    run(sys.executable, script, "learner-errors", *corpus, "-o", tmp_path / "w.json")
    assert LearnerErrors.read(tmp_path / "w.json").deleted
