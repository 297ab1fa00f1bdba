"""Jobs on texts with one file as output: interrupted, complete and overwritten outputs."""

from __future__ import annotations

import errno
import gzip
import io
import os
import random
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.io.blocks import Block, Span, span_blocks
from fairseq_ssl.io.corpus import Corpus
from fairseq_ssl.io.jobs import Progress
from fairseq_ssl.io.outputs import journal
from fairseq_ssl.io.parts import BlockFunction, BlockResult
from fairseq_ssl.io.text_files import compress_chunk
from fairseq_ssl.io.text_jobs import Output, Outputs, TextJob
from fairseq_ssl.signature import Signature

TEXT = "".join(f"line {'x' * (n % 9)} {n}\n" for n in range(40))


def upper(block: Block) -> BlockResult:
    """Convert a block to upper case. Its second line is an example."""
    counts = Counter(lines=block.count)
    examples = {"second": [{"line": 2, "text": block.lines()[1]}] if block.count > 1 else []}
    return BlockResult((block.data[0].upper(),), counts, examples)


class UpperJob(TextJob):
    """A job that converts a text to upper case in blocks of 32 bytes."""

    name = "upper"

    def __init__(self, source: Path, output: Output, seed: int = 1) -> None:
        self.seed = seed
        super().__init__(Corpus((source,), 32), Outputs.of(output), None, self._progress)
        self.shares: list[float | None] = []
        self.stop: BaseException | None = None

    def parameters(self) -> dict[str, Any]:
        return {"seed": self.seed, "input_is": self.corpus.fingerprint}

    def _progress(self, task: str, unit: str, total: int | None = None) -> Progress:
        return lambda count, fraction=None, note="": self.shares.append(fraction)

    def write(self, stop: BaseException | None = None, overwrite: bool = False) -> bool:
        """Run the job. Raise `stop` after four blocks."""
        self.stop = stop
        return self.run(overwrite)

    def check(self) -> None:
        if self.stop and len(self.shares) == 5:
            raise self.stop

    def prepare(self) -> BlockFunction:
        return upper

    def signature(self) -> Signature:
        return Signature("upper", {**self.params, **self.totals})


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "text").write_text(TEXT)
    return tmp_path / "text"


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "output"


@pytest.mark.parametrize("name", ["text", "text.gz", "windows"])
def test_an_interrupted_job_resumes(
    name: str, source: Path, output: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source.with_name("text.gz").write_bytes(gzip.compress(TEXT.encode()))
    source.with_name("windows").write_text(TEXT.replace("\n", "\r\n"))
    source = source.with_name(name)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            UpperJob(source, output).write(KeyboardInterrupt())
    assert not output.exists()
    last = UpperJob(source, output)
    assert last.write()
    assert output.read_text() == TEXT.upper()
    assert last.totals["lines"] == 40
    whole = UpperJob(source, output.with_name("whole"))
    whole.write()
    assert last.tally == whole.tally
    assert len(last.shares) == len(whole.shares) - 8
    assert last.shares[-1] == 1.0
    assert not UpperJob(source, output).write()
    messages = [message for message in caplog.messages if "CRLF" not in message]
    assert messages == [
        f"resuming {output}",
        f"resuming after line {lines_of(whole, 4)}",
        f"resuming {output}",
        f"resuming after line {lines_of(whole, 8)}",
        f"{output} is complete, written by an earlier run of this job",
    ]


def lines_of(whole: UpperJob, blocks: int) -> int:
    """Return the number of lines of the first blocks."""
    return sum(block.count for block in islice(whole.corpus.blocks(), blocks))


def test_stdin_cannot_resume(source: Path, output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stdin(text: str) -> UpperJob:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        job = UpperJob(source, output)
        job.corpus = Corpus((None,), 32)
        return job

    with pytest.raises(KeyboardInterrupt):
        stdin(TEXT).write(KeyboardInterrupt())
    assert stdin("another\n").write()
    assert output.read_text() == "ANOTHER\n"
    with pytest.raises(UsageError, match="output exists"):
        stdin("another\n").write()


def test_an_existing_output_is_kept_or_overwritten(source: Path, output: Path) -> None:
    output.write_text("older\n")
    for path in (output, output.parent, Path(os.devnull)):
        with pytest.raises(UsageError, match=path.name):
            UpperJob(source, path).write()
    assert output.read_text() == "older\n"
    for _ in range(2):
        again = UpperJob(source, output)
        assert again.write(overwrite=True)
        assert again.shares
        assert output.read_text() == TEXT.upper()
    with pytest.raises(UsageError, match="output exists"):
        UpperJob(source, output, seed=2).write()


@pytest.mark.parametrize("older", [False, True])
def test_a_job_killed_before_the_renames_is_completed(
    older: bool, source: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if older:
        output.write_text("older\n")
    with monkeypatch.context() as patch:
        patch.setattr("fairseq_ssl.io.outputs.complete", lambda paths: None)
        UpperJob(source, output).write(overwrite=older)
    assert output.exists() == older
    again = UpperJob(source, output)
    assert not again.write()
    assert not again.shares
    assert output.read_text() == TEXT.upper()


ERRORS = {
    "no space": (OSError(errno.ENOSPC, "No space left"), "output could not be written"),
    "not permitted": (PermissionError(errno.EACCES, "no"), "output could not be written"),
    "model": (FileNotFoundError(errno.ENOENT, "No such file", "model.bin"), r"model\.bin"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_names_its_file_and_the_job_can_resume(
    name: str, source: Path, output: Path
) -> None:
    error, culprit = ERRORS[name]
    with pytest.raises(DataError, match=culprit) as raised:
        UpperJob(source, output).write(error)
    assert str(source) not in str(raised.value)
    assert "to resume" in str(raised.value)
    assert journal(output).exists()
    early = UpperJob(source, output, seed=2)
    early.shares = [None] * 4
    with pytest.raises(DataError, match=culprit) as raised:
        early.write(error, overwrite=True)
    assert "to resume" not in str(raised.value)


@pytest.mark.parametrize("name", ["text", "text.gz", "windows.gz"])
def test_progress_of_a_resumed_job_counts_from_its_start(name: str, tmp_path: Path) -> None:
    """Half of the text is left. gzip reads up to a quarter of that ahead, depending on Python."""
    numbers, end = random.Random(1), "\r\n" if "windows" in name else "\n"
    data = "".join(f"{numbers.getrandbits(4092):01023x}{end}" for _ in range(2**11)).encode()
    path = tmp_path / name
    path.write_bytes(compress_chunk(data, path.suffix))
    found = list(span_blocks(Span((path,), 0, (2**20,), None, 1024), 2**16))
    expected = [n / 16 for n in range(1, 17)]
    assert [block.fraction for block in found] == pytest.approx(expected, abs=0.3)
    assert found[-1].fraction == 1


def test_an_output_without_lines_is_a_gzip_file(
    source: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.write_text("")
    path = output.with_suffix(".gz")
    monkeypatch.setattr(UpperJob, "may_be_empty", True)
    assert UpperJob(source, path).write()
    assert path.read_bytes()[:2] == b"\x1f\x8b"
    assert gzip.decompress(path.read_bytes()) == b""
