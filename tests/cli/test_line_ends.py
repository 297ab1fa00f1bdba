"""Byte-order marks and Windows line endings do not change the output of any command."""

from __future__ import annotations

import gzip
import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from fairseq_ssl.cli.main import main
from fairseq_ssl.io import blocks
from fairseq_ssl.noise.block_noise import CorpusNoise
from tests.conftest import ROOT

MARK = b"\xef\xbb\xbf"
NOTICE = ": removed a UTF-8 byte-order mark"
LINE_ENDS = " and Windows line endings (CRLF)"


def targets() -> dict[str, Any]:
    """Return the commands of the fuzzer that only read text."""
    path = ROOT / "scripts/fuzz/targets.py"
    spec = importlib.util.spec_from_file_location("fuzz_targets", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # required by its dataclass
    spec.loader.exec_module(module)
    found: dict[str, Any] = module.TARGETS
    return {
        name: target
        for name, target in found.items()
        if all(isinstance(sample, bytes) for sample in target.files.values())
    }


TARGETS = targets()
PARSED = (".json", "config", "errors")
"""Endings of files in JSON and YAML, whose parsers accept both."""


def windows(data: bytes) -> bytes:
    return MARK + data.replace(b"\n", b"\r\n")


def outputs(target: Any, convert: bool, capsys: pytest.CaptureFixture[str]) -> dict[str, bytes]:
    """Run a command in this folder. Return its files and its stdout."""
    words, wanted = target.words, []
    for name, sample in target.files.items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".svg":  # a picture, which a report embeds as it is
            path.write_bytes(sample)
            continue
        data = windows(sample) if convert else sample
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
        before = words
        for key in (name, path.stem, name.partition("/")[0]):
            words = words.replace(f"{{{key}}}", key if key in name.split("/") else name)
        if words != before or "/" in name:
            wanted.append(f"{name}{NOTICE}" + LINE_ENDS * (b"\n" in sample))
    capsys.readouterr()
    assert main(words.replace("{out}", "out").split()) == 0
    captured = capsys.readouterr()
    reported = [line for line in captured.err.splitlines() if NOTICE in line]
    parsed = tuple(f"{name}{NOTICE}" for name in PARSED)
    wanted = [line for line in wanted if not any(name in line for name in parsed)]
    assert sorted(reported) == (sorted(wanted) if convert else [])
    inputs = {Path(name) for name in target.files}
    made = {path for path in Path().rglob("*") if path.is_file()} - inputs
    signatures = {path for path in made if path.suffix == ".json"}
    found = {str(path): path.read_bytes() for path in made - signatures}
    return {**found, "stdout": captured.out.encode()}


@pytest.mark.parametrize("name", TARGETS)
def test_every_verb_reads_windows_text(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = []
    for convert in (False, True):
        folder = tmp_path / str(convert)
        folder.mkdir()
        monkeypatch.chdir(folder)
        found.append(outputs(TARGETS[name], convert, capsys))
    assert found[0] == found[1]


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A text of several small blocks, and a copy with Windows line endings."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(blocks, "BLOCK_SIZE", 4096)
    monkeypatch.setattr("fairseq_ssl.io.outputs.PAUSE", 0.0)
    data = "".join(f"w{n % 7} b{n % 11} c\rd x{n % 1000} .\n" for n in range(2000)).encode()
    Path("unix").write_bytes(data)
    Path("windows").write_bytes(windows(data))
    return tmp_path


def test_blocks_are_those_of_unix_text(text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each file is named once."""
    for name in ("unix", "windows"):
        sides = ["-o", f"{name}.left", f"{name}.right", "--jobs", "1"]
        assert main(["filter", name, "unix", "--filter", "clean,duplicates", *sides]) == 0
        words = ["noise", name, "--method", "direct", "--jobs", "1", "-o", f"{name}.noisy"]
        assert main(words) == 0
        reported = [line for line in capsys.readouterr().err.splitlines() if NOTICE in line]
        assert reported == [f"windows{NOTICE}{LINE_ENDS}"] * 2 * (name == "windows")
    for end in ("noisy", "left", "right"):
        assert Path(f"unix.{end}").read_bytes() == Path(f"windows.{end}").read_bytes()


def test_processes_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Worker processes read blocks of Unix text themselves. Windows text is read for them."""
    monkeypatch.chdir(tmp_path)
    data = b"a b c d e f g h i j k l m\n" * (3 * blocks.BLOCK_SIZE // 26)
    for name, content in (("unix", data), ("windows", windows(data))):
        Path(name).write_bytes(content)
        words = ["noise", name, "--method", "characters:rate=0.3", "-o", f"{name}.noisy"]
        assert main([*words, "--jobs", "2"]) == 0
        assert capsys.readouterr().err.count(NOTICE) == (name == "windows")
    assert Path("unix.noisy").read_bytes() == Path("windows.noisy").read_bytes()


def test_an_interrupted_run_resumes_in_windows_text(
    text: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["noise", "windows", "--method", "direct", "--jobs", "1", "-o"]
    assert main([*words, "whole"]) == 0
    work, calls = CorpusNoise.__call__, 0

    def interrupted(self: CorpusNoise, block: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 5:
            raise KeyboardInterrupt
        return work(self, block)

    monkeypatch.setattr(CorpusNoise, "__call__", interrupted)
    assert main([*words, "part"]) == 130
    capsys.readouterr()
    assert main([*words, "part"]) == 0
    assert "resuming after line" in capsys.readouterr().err
    assert Path("part").read_bytes() == Path("whole").read_bytes()
