"""Killed commands leave no output, and a second run is not affected.

Commands that resume are tested in their own files: noise, filter, back-translate, rerank
features, learned-filter apply, classify label, and training.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.killing import contents
from tests.cli.rewriting import shown

LINES = 30_000
WRONG, RIGHT = "the cats sits on mat , and sleep .\n", "the cats sit on a mat and sleep .\n"
COMMANDS = {
    "postprocess": "postprocess {wrong} --moses en -o {out}",
    "dictionary": "edits dictionary {wrong} {right} -o {out} --jobs 1",
    "edits-prepare": "edits prepare {few} {some} -o {out} --jobs 1",
    "m2-from-text": "m2 from-text {few} {some} --untyped -o {out}",
    "report": "report a={few} --reference {few} --source {few} --metric accuracy -o {out}",
    "merge": "rerank merge l2r={list} --subwords none -o {out}",
    "position-data": "position-data interpolate {folder} {out} --sentences 2",
    "prepare": "classify prepare {classes} --subword-vocab-size 500 --valid-size 0.2 "
    "--test-size 0.2 -o {out}",
}
"""Commands for each way to write: lines, a file at the end, a folder."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Input files of the commands."""
    folder = tmp_path_factory.mktemp("files")
    texts = {
        "wrong": WRONG * LINES,
        "right": RIGHT * LINES,
        "list": "".join(f"{n} ||| {RIGHT[:-1]} ||| l2r= -0.5 ||| -0.5\n" for n in range(LINES)),
        "few": WRONG * (LINES // 50),
        "some": RIGHT * (LINES // 50),
        "classes": "".join(f"{n % 2}\t{n} {WRONG}" for n in range(LINES // 6)),
        "folder/train.en": WRONG * LINES,
        "folder/train.de": RIGHT * LINES,
        "folder/valid.en": WRONG * 4,
        "folder/valid.de": RIGHT * 4,
    }
    (folder / "folder").mkdir()
    for name, text in texts.items():
        (folder / name).write_text(text)
    return {path.name: path for path in folder.iterdir()}


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.slow
def test_killed_command_leaves_no_output(
    name: str, files: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def words(folder: Path) -> list[str]:
        places = {**files, "out": folder / "out"}
        return COMMANDS[name].format(**places).split()

    killed, whole = tmp_path / "killed", tmp_path / "whole"
    killed.mkdir()
    whole.mkdir()
    run = f"from fairseq_ssl.cli.main import main; main({words(killed)})"
    process = subprocess.Popen([sys.executable, "-c", run], stderr=subprocess.DEVNULL)
    begun = time.monotonic()
    while not any(killed.iterdir()) and time.monotonic() < begun + 0.5:
        assert process.poll() is None, "it ended before it was killed"
        time.sleep(0.001)
    process.kill()
    process.wait()
    if not (
        killed / "out"
    ).exists():  # a fast command may have finished: then its output must be complete
        shown(capsys, *words(killed))
    shown(capsys, *words(whole))
    assert contents(killed / "out") == contents(whole / "out")
