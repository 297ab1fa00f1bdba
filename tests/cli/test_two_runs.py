"""Two runs with the same output: the second is rejected, and the first completes.

The first run reads a pipe, which the test fills after the second run.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.killing import contents
from tests.cli.rewriting import shown

WRONG, RIGHT = "the cats sits on mat , and sleep .\n", "the cat sits on a mat and sleeps .\n"
TEXTS = {
    "wrong": WRONG * 50,
    "right": RIGHT * 50,
    "list": f"0 ||| {RIGHT[:-1]} ||| l2r= -0.5 ||| -0.5\n",
    "counts": "the 100\ncat 90\nthan 30\n",
}
COMMANDS = {
    "tokenize": "tokenize {wrong} --moses en -o {out}",
    "detokenize": "detokenize {wrong} --subwords none --moses en -o {out}",
    "postprocess": "postprocess {wrong} --remove-brackets -o {out}",
    "tag": "tag <BT> {wrong} -o {out}",
    "truecase train": "truecase train {wrong} -o {out}",
    "confusion-sets": "confusion-sets --counts {counts} --checker symspell -o {out}",
    "edits dictionary": "edits dictionary {wrong} {right} --jobs 1 -o {out}",
    "learner-errors": "learner-errors {wrong} {right} -o {out}",
    "filter": "filter {wrong} {right} --filter clean --jobs 1 -o {out} {out}2",
    "merge": "rerank merge l2r={list} --subwords none -o {out}",
    "spelling": "spelling count {wrong} -o {out}",
    "sentencepiece": "subwords train {wrong} --size 40 -o {out}",
    "subword-nmt": "subwords train {wrong} --kind subword-nmt --size 10 -o {out}",
}
RUN = "import sys; from fairseq_ssl.cli.main import main; sys.exit(main(sys.argv[1:]))"


@pytest.mark.parametrize("name", COMMANDS)
def test_a_second_run_is_rejected(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for text in TEXTS:
        (tmp_path / text).write_text(TEXTS[text])
    piped = next(text for text in TEXTS if f"{{{text}}}" in COMMANDS[name])
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def words(folder: str, **inputs: Path) -> list[str]:
        (tmp_path / folder).mkdir(exist_ok=True)
        names = {text: tmp_path / text for text in TEXTS} | inputs
        return COMMANDS[name].format(out=tmp_path / folder / "out", **names).split()

    both = tmp_path / "both"
    first = subprocess.Popen(
        [sys.executable, "-c", RUN, *words("both", **{piped: pipe})], stderr=subprocess.PIPE
    )
    while not (both / "out.lock").exists():
        assert first.poll() is None, first.stderr and first.stderr.read()
        time.sleep(0.01)
    second = subprocess.run(
        [sys.executable, "-c", RUN, *words("both")], capture_output=True, text=True, check=False
    )
    assert f"error: Another run is writing {both / 'out'}. Wait" in second.stderr
    assert second.returncode == 2
    fill(pipe, TEXTS[piped], first)
    _, told = first.communicate(timeout=60)
    assert first.returncode == 0, told
    shown(capsys, *words("alone"))
    expected, found = (contents(tmp_path / name) for name in ("alone", "both"))
    assert len(found) == len(expected)
    for path, data in expected.items():
        if not path.endswith(".json"):
            there = found[path.replace("alone", "both")]
            assert there.replace(bytes(pipe), bytes(tmp_path / piped)) == data


def fill(pipe: Path, text: str, reader: subprocess.Popen[bytes]) -> None:
    """Write text to a pipe that a process reads."""
    while reader.poll() is None:
        try:
            descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # the process has not opened the pipe yet
            time.sleep(0.01)
            continue
        os.write(descriptor, text.encode())
        os.close(descriptor)
        return
