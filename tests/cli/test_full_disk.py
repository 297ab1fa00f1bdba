"""A full disk is reported, existing files are kept, and finished parts are complete."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from tests.cli.rewriting import refused, shown

TEXT = "one small line of words that will not all fit\n"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 640 KiB, which only root can mount."""
    folder = tmp_path / "disk"
    folder.mkdir()
    made = ["mount", "-t", "tmpfs", "-o", "size=640k", "tmpfs", str(folder)]
    try:
        subprocess.run(made, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs CAP_SYS_ADMIN: run as root, in a container with --privileged")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A text of 2.7 MB: two of its parts of 256 KiB fit on the disk."""
    file = tmp_path / "text"
    file.write_text(TEXT * 60_000)
    return file


SMALL = (
    "tokenize {text} --moses en -o {out}",
    "noise {text} --method characters -o {out}",
    "filter {text} {other} --filter clean -o {other}.clean {out}",
    "tokenize {text} --train-truecase {out}",
    "edits dictionary {text} {other} --jobs 1 -o {out}",
    "m2 to-text {gold} -o {out}",
    "edits prepare {text} {other} --jobs 1 -o {out}",
    "report a={text} --source {text} --reference {other} -o {out}",
    "rerank vectors {text} --dimensions 2 --buckets 9 --epochs 1 -o {out}.vec",
    "classify prepare {classes} --subword-vocab-size 40 --valid-size 0.2 -o {out}",
    "subwords train {text} --kind subword-nmt --size 9 -o {out}",
    "subwords train {text} --size 40 -o {out}",
    "position-data vanilla {folder} {out}",
    "average {model} {model} -o {out}",
)


@pytest.mark.parametrize("words", SMALL)
def test_a_disk_without_any_room_is_named(
    words: str, small_disk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    right, wrong = "a bat and a cat sit here\n", "a bat and a so cat sit here\n"
    inputs = {"text": wrong * 9, "other": right * 9}
    inputs["gold"] = "S a bat sit\nA 2 3|||R|||sits|||REQUIRED|||-NONE-|||0\n"
    inputs["classes"] = "".join(f"{n % 2}\t{n} {wrong}" for n in range(40))
    names = {name: tmp_path / name for name in (*inputs, "folder", "model")}
    for name, content in inputs.items():
        names[name].write_text(content)
    names["folder"].mkdir()
    for name in ("train.en", "train.de", "valid.en", "valid.de"):
        (names["folder"] / name).write_text(right)
    if "{model}" in words:
        model = {"_name": "transformer", "arch": "transformer"}
        state = {"model": {"weight": torch.zeros(2**16)}, "cfg": {"model": model}, "args": None}
        torch.save(state, names["model"])
    with (small_disk / "filler").open("wb", buffering=0) as filler, suppress(OSError):
        while True:
            filler.write(bytes(4096))
    message = refused(capsys, 1, *words.format(out=small_disk / "out", **names).split())
    assert f"{small_disk / 'out'}" in message
    assert " could not be written: No space left on device" in message
    assert [path.name for path in small_disk.iterdir()] == ["filler"]


def test_finished_parts_are_complete_and_others_resume(
    text: Path, small_disk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    noise: list[str | Path] = ["noise", text, "--method", "characters", "--jobs", "1", "-o"]
    parts = [*noise, f"{small_disk}/out/", "--part-size", "256K"]
    message = refused(capsys, 1, *parts)
    assert "No space left on device. The disk of" in message
    before = {path: path.read_bytes() for path in small_disk.glob("out/part-*")}
    assert sum(map(len, before.values())) > 250_000
    subprocess.run(["mount", "-o", "remount,size=8m", str(small_disk)], check=True)
    times = {path: path.stat().st_mtime_ns for path in before}
    shown(capsys, *parts)
    assert {path: path.stat().st_mtime_ns for path in before} == times
    shown(capsys, *noise, tmp_path / "out")
    written = sorted(small_disk.glob("out/part-*"))
    assert b"".join(part.read_bytes() for part in written) == (tmp_path / "out").read_bytes()
