"""``fairseq-ssl confusion-sets``: confusion sets of a text with each spell checker."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fairseq_ssl.cli.main import main
from fairseq_ssl.noise.confusion_sets import read_confusion_sets
from tests.conftest import ROOT, environment

FAKE = ROOT / "tests/unit/noise/fake_aspell.py"
TEXT = "their house is there\n\nthe houses are theirs , 3rd of them\nTheir house is in London\n"


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "clean.en"
    path.write_text(TEXT)
    return path


@pytest.fixture
def aspell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a fake aspell in PATH."""
    program = tmp_path / "bin" / "aspell"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{FAKE}" "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/bin:/usr/bin")


def make(*words: str | Path, output: Path) -> int:
    return main(["confusion-sets", *map(str, words), "-o", str(output)])


def test_sets_are_not_replaced_unless_asked(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "sets.tsv"
    output.write_text("by hand\n")
    assert make(text, "--jobs", "1", output=output) == 2
    assert f"{output} exists. Set --force to replace it" in capsys.readouterr().err
    assert output.read_text() == "by hand\n"
    assert make(text, "--jobs", "1", "--force", output=output) == 0
    assert output.read_text().startswith("Their\t")


def test_the_words_of_a_text_are_confused_with_each_other(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text.write_text("their there theirs\n\nthe theirs , 3rd a\nLondon\n")
    output = tmp_path / "deep" / "sets.tsv"
    assert make(text, "--jobs", "1", output=output) == 0
    assert output.read_text() == (  # by distance, then count, then alphabet
        "the\ttheir there\ntheir\ttheirs the there\ntheirs\ttheir there\nthere\ttheirs the their\n"
    )
    assert capsys.readouterr().err.startswith("5 words, 4 with 10 confusions\nconfusion-sets|")
    signature = json.loads((tmp_path / "deep" / "sets.tsv.json").read_text())
    assert signature["checker"].startswith("symspellpy ")
    assert signature["inputs"] == [str(text)]


def test_the_bytes_do_not_depend_on_the_number_of_processes(tmp_path: Path) -> None:
    text = tmp_path / "text"
    words = [f"{a}{b}{c}{d}" for a in "abcde" for b in "aeiou" for c in "xyz" for d in "abcdefghij"]
    lines = [" ".join([word] * (len(words) - i)) for i, word in enumerate(words)]
    text.write_text("\n".join([*lines, ""]))
    outputs = [tmp_path / f"sets{jobs}.tsv.gz" for jobs in (1, 3)]
    for jobs, output in zip((1, 3), outputs, strict=True):
        assert make(text, "--jobs", str(jobs), output=output) == 0
    one, three = (output.read_bytes() for output in outputs)
    assert one == three
    sets = read_confusion_sets(outputs[0])
    assert list(sets) == sorted(words)
    assert {len(others) for others in sets.values()} == {20}
    assert gzip.decompress(one).startswith(b"aaxa\taaxb ")


@pytest.mark.usefixtures("aspell")
def test_aspell_suggestions_outside_the_text_are_dropped(text: Path, tmp_path: Path) -> None:
    output = tmp_path / "sets.tsv"
    assert make(text, "--aspell", "en", "--jobs", "2", output=output) == 0
    assert output.read_text() == "their\tthere theirs\nthere\ttheir\n"
    assert json.loads((tmp_path / "sets.tsv.json").read_text())["checker"] == "aspell 0.60.0 en"


@pytest.mark.usefixtures("aspell")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_killed_run_leaves_no_output(how: signal.Signals, text: Path, tmp_path: Path) -> None:
    text.write_text("their there sleep\n")
    output = tmp_path / "sets.tsv"
    words = ("-m", "fairseq_ssl", "confusion-sets", text, "-o", output, "--aspell", "en")
    started = subprocess.Popen(
        [sys.executable, *map(str, words), "--jobs", "1"],
        env=environment(PATH=os.environ["PATH"]),
        stderr=subprocess.PIPE,
        # background processes of a script, and their children, ignore Ctrl-C
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    while not (tmp_path / "sets.tsv.tmp").exists():
        assert started.poll() is None
        time.sleep(0.02)
    started.send_signal(how)
    started.communicate()
    assert started.returncode == (-how if how == signal.SIGKILL else 130)
    assert not output.exists()
    text.write_text("their there\n")
    assert make(text, "--aspell", "en", output=output) == 0
    assert sorted(path.name for path in tmp_path.glob("sets*")) == ["sets.tsv", "sets.tsv.json"]
