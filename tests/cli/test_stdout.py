"""Stdout of commands: full disk, locale without UTF-8."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.rewriting import given

WRONG, RIGHT = "the cats sits on mat , and sleep .\n", "the cat sits on a mat and sleeps .\n"
RUN = "import sys; from fairseq_ssl.cli.main import main; sys.exit(main(sys.argv[1:]))"

PRINTING = (
    "--help",
    "tokenize --moses en",
    "noise - --method characters --jobs 1",
    "noise {wrong} --method characters --jobs 2",
    "score accuracy {wrong} --reference {right}",
    "rerank merge l2r={list} --subwords none",
    "subwords dictionary {codes}",
    "score bleu {wrong} --reference {right} --format json",
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Input files of the commands."""
    folder = tmp_path_factory.mktemp("files")
    texts = {"wrong": WRONG * 9, "right": RIGHT * 9, "list": "0 ||| a ||| l2r= -0.5 ||| -0.5\n"}
    names = {name: folder / name for name in (*texts, "edits", "codes")}
    for name, text in texts.items():
        names[name].write_text(text)
    for words in (
        "edits dictionary {wrong} {right} --jobs 1 -o {edits}",
        "subwords train {wrong} --kind subword-nmt --size 9 -o {codes}",
    ):
        filled = words.format(**names).split()
        subprocess.run([sys.executable, "-c", RUN, *filled], check=True, capture_output=True)
    return names


@pytest.mark.parametrize("words", PRINTING)
def test_full_stdout_ends_with_one_line(
    words: str,
    files: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from fairseq_ssl.cli.main import main

    given(monkeypatch, WRONG)
    with open(os.devnull.replace("null", "full"), "w") as full:  # noqa: PTH123
        monkeypatch.setattr("sys.stdout", full)
        assert main(words.format(**files).split()) == 1
        monkeypatch.undo()
    lines = [line for line in capsys.readouterr().err.splitlines() if "error" in line]
    assert len(lines) == 1
    assert lines[0].endswith("error: stdout could not be written: No space left on device.")


def test_full_stdout_exits_with_one(files: dict[str, Path]) -> None:
    words = [sys.executable, "-c", RUN, "tokenize", str(files["wrong"]), "--moses", "en"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 1
    assert done.stderr.count(b"\n") == 1
    assert b"stdout could not be written" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        "tokenize {text} --moses en -o {out}",
        "noise {text} --method characters --jobs 1 -o {out}",
        "subwords train {text} --size 40 -o {out}",
        "score accuracy {text} --reference {text} --format json",
    ],
)
def test_output_is_utf8_in_other_locales(words: str, tmp_path: Path) -> None:
    folder = tmp_path / "dé"
    folder.mkdir()
    names = {"text": folder / "texté", "out": folder / "é"}
    names["text"].write_text("the cat sat on a mat in a café .\n" * 9, "utf-8")
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-c", RUN, *words.format(**names).split()]
    found = []
    for locale in (plain, {"PYTHONUTF8": "1"}):
        env = {**os.environ, **locale}
        done = subprocess.run(command, env=env, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        written = {path: path.read_bytes() for path in folder.glob("é*")}
        for path in written:
            path.unlink()
        found.append((done.stdout, written))
    assert found[0] == found[1]
    assert not any(rb"\ud" in data for _, written in found for data in written.values())


def test_closed_streams(files: dict[str, Path], tmp_path: Path) -> None:
    def run(redirection: str, *more: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", RUN, "tokenize", *more, "--moses", "en"]
        shell = ["bash", "-c", f'"$@" {redirection}', "bash", *command]
        return subprocess.run(shell, check=False, capture_output=True, text=True)

    closed = run("<&-")
    assert (closed.returncode, closed.stdout) == (1, "")
    assert "stdin is closed" in closed.stderr
    text = str(files["wrong"])
    usual = run("", text)
    assert (usual.returncode, usual.stdout.count("\n")) == (0, WRONG.count("\n") * 9)
    silent = run("2>&-", text)
    assert (silent.returncode, silent.stdout, silent.stderr) == (0, usual.stdout, "")
    full = run(">&-", text)
    assert full.returncode == 1
    assert "stdout could not be written: Bad file descriptor" in full.stderr
    assert run(">&-", text, "-o", str(tmp_path / "out")).returncode == 0
    assert (tmp_path / "out").read_text() == usual.stdout


@pytest.mark.parametrize(
    "words",
    [
        "tokenize {wrong} --moses en -o",
        "edits dictionary {wrong} {right} --jobs 1 -o",
    ],
)
def test_an_output_can_be_a_process_substitution(
    words: str, files: dict[str, Path], tmp_path: Path
) -> None:
    run = f"{sys.executable} -c {shlex.quote(RUN)} {words.format(**files)}"
    command = f"{run} >(cat > received) && wait $!"
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "received").stat().st_size
    assert [path.name for path in tmp_path.iterdir()] == ["received"]
