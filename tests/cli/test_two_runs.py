"""A run is rejected while another one writes the same output."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fairseq_ssl.io.outputs import exclusive
from tests.cli.rewriting import refused, shown

WRONG, RIGHT = "the cats sits on mat , and sleep .\n", "the cat sits on a mat and sleeps .\n"
TEXTS = {
    "wrong": WRONG * 50,
    "right": RIGHT * 50,
    "list": f"0 ||| {RIGHT[:-1]} ||| l2r= -0.5 ||| -0.5\n",
}
COMMANDS = (
    "tokenize wrong --moses en -o out",
    "postprocess wrong --remove-brackets -o out",
    "tag <BT> wrong -o out",
    "tokenize wrong --train-truecase out",
    "confusion-sets right -o out",
    "edits dictionary wrong right --jobs 1 -o out",
    "learner-errors wrong right -o out",
    "filter wrong right --filter clean --jobs 1 -o out out2",
    "rerank merge l2r=list --subwords none -o out",
    "spelling count wrong -o out",
    "subwords train wrong --size 40 -o out",
    "subwords train wrong --kind subword-nmt --size 10 -o out",
)


@pytest.mark.parametrize("words", COMMANDS)
def test_a_second_run_is_rejected(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in TEXTS.items():
        Path(name).write_text(text)
    first = exclusive(Path("out"))
    with ThreadPoolExecutor(1) as thread:  # a lock belongs to a thread
        thread.submit(first.__enter__).result()
        assert "Another run is writing" in refused(capsys, 2, *words.split())
        assert {path.name for path in tmp_path.iterdir()} == {*TEXTS, "out.lock"}
        thread.submit(first.__exit__, None, None, None).result()
    shown(capsys, *words.split())
