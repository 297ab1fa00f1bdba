"""Jobs: interrupted, complete and overwritten outputs, shards, and checks of paths."""

from __future__ import annotations

import errno
import gzip
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

import pytest

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.io.blocks import ByteBlock, row_blocks
from fairseq_ssl.io.executors import LocalExecutor
from fairseq_ssl.io.jobs import (
    BlockResult,
    Chunks,
    JobState,
    TextInput,
    TextJob,
    check_beside,
    check_distinct,
    check_outside,
    run_job,
    silent_progress,
)
from fairseq_ssl.io.outputs import journal
from fairseq_ssl.io.text_files import compress_chunk, open_text
from fairseq_ssl.signature import Signature

TEXT = "".join(f"line {'x' * (n % 9)} {n}\n" for n in range(40))


def upper(block: ByteBlock) -> BlockResult:
    counts = Counter(lines=block.data.count(b"\n"))
    return BlockResult((block.data.upper(),), block.end, counts)


class UpperJob(TextJob):
    """A job that converts a text to upper case in blocks of 32 bytes."""

    name = "upper"

    def __init__(self, text: TextInput, seed: int = 1) -> None:
        super().__init__(text, [], None, silent_progress)
        self.params = {"seed": seed}
        self.shares: list[float | None] = []
        self.stop: BaseException | None = None

    def write(self, output: Path, stop: BaseException | None = None, **options: Any) -> bool:
        """Run the job. Raise `stop` after four blocks, or before the first one if it has none."""
        self.stop = stop
        return run_job([output], self.params, self._chunks, self.signature, **options)

    def prepare(self) -> Callable[[Any], BlockResult]:
        return upper

    def map_blocks(
        self, function: Callable[[Any], BlockResult]
    ) -> Iterator[tuple[BlockResult, float | None]]:
        for result, share in super().map_blocks(function):
            if self.stop and len(self.shares) == 4:
                raise self.stop
            self.shares.append(share)
            yield result, share

    def signature(self) -> Signature:
        return Signature("upper", {**self.params, **self.totals})


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "text").write_text(TEXT)
    return tmp_path / "text"


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "output"


def job(source: Path, shard: tuple[int, int] = (1, 1), seed: int = 1) -> UpperJob:
    return UpperJob(TextInput(source, shard, size=32), seed)


@pytest.mark.parametrize("name", ["text", "text.gz", "windows"])
def test_an_interrupted_job_resumes(
    name: str, source: Path, output: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source.with_name("text.gz").write_bytes(gzip.compress(TEXT.encode()))
    source.with_name("windows").write_text(TEXT.replace("\n", "\r\n"))
    source = source.with_name(name)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            job(source).write(output, KeyboardInterrupt())
    assert not output.exists()
    last = job(source)
    assert last.write(output)
    assert output.read_text() == TEXT.upper()
    assert last.totals["lines"] == 40
    whole = job(source)
    whole.write(output.with_name("whole"))
    assert len(last.shares) == len(whole.shares) - 8
    assert last.shares[-1] == 1.0
    assert not job(source).write(output)
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
    results = whole.text.map_blocks(LocalExecutor(1), upper)
    return sum(result.counts["lines"] for result, _ in islice(results, blocks))


def test_stdin_cannot_resume(source: Path, output: Path) -> None:
    """The file stands for stdin, which begins with the next text."""
    with pytest.raises(KeyboardInterrupt):
        job(source).write(output, KeyboardInterrupt(), from_stdin=True)
    source.write_text("another\n")
    assert job(source).write(output, from_stdin=True)
    assert output.read_text() == "ANOTHER\n"
    with pytest.raises(UsageError, match="output exists"):
        job(source).write(output, from_stdin=True)


def test_an_existing_output_is_kept_or_overwritten(source: Path, output: Path) -> None:
    output.write_text("older\n")
    for path in (output, output.parent, Path(os.devnull)):
        with pytest.raises(UsageError, match=path.name):
            job(source).write(path)
    assert output.read_text() == "older\n"
    for _ in range(2):
        again = job(source)
        assert again.write(output, overwrite=True)
        assert again.shares
        assert output.read_text() == TEXT.upper()
    with pytest.raises(UsageError, match="output exists"):
        job(source, seed=2).write(output)


@pytest.mark.parametrize("older", [False, True])
def test_a_job_killed_before_the_renames_is_completed(
    older: bool, source: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if older:
        output.write_text("older\n")
    with monkeypatch.context() as patch:
        patch.setattr("fairseq_ssl.io.outputs.complete", lambda paths: None)
        job(source).write(output, overwrite=older)
    assert output.exists() == older
    again = job(source)
    assert not again.write(output)
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
        job(source).write(output, error)
    assert str(source) not in str(raised.value)
    assert "to resume" in str(raised.value)
    assert journal(output).exists()
    early = job(source, seed=2)
    early.shares = [None] * 4
    with pytest.raises(DataError, match=culprit) as raised:
        early.write(output, error, overwrite=True)
    assert "to resume" not in str(raised.value)


@pytest.mark.parametrize("name", ["text", "text.gz", "windows.gz"])
def test_progress_of_a_resumed_job_counts_from_its_start(name: str, tmp_path: Path) -> None:
    """Half of the text is left. gzip reads up to a quarter of that ahead, depending on Python."""
    numbers, end = random.Random(1), "\r\n" if "windows" in name else "\n"
    data = "".join(f"{numbers.getrandbits(4092):01023x}{end}" for _ in range(2**11)).encode()
    path = tmp_path / name
    path.write_bytes(compress_chunk(data, path.suffix))
    text = TextInput(path, position=2**20, size=2**16)
    shares = [share or 0.0 for _, share in text.map_blocks(LocalExecutor(1), upper)]
    expected = [n / 16 for n in range(1, 17)]
    assert shares == pytest.approx(expected, abs=0.3)
    with open_text(path) as file:
        blocks = list(row_blocks([file], [name], [2**20], 1025, 2**16))
    assert [block.share for block in blocks] == pytest.approx(expected, abs=0.3)
    assert shares[-1] == blocks[-1].share == 1


@pytest.mark.parametrize("shards", [1, 3, 12])
def test_shards(shards: int, source: Path, output: Path) -> None:
    texts: list[str] = []
    for index in range(1, shards + 1):
        one = job(source, (index, shards))
        path = one.text.shard_path(output)
        with suppress(KeyboardInterrupt):
            one.write(path, KeyboardInterrupt())
        again = job(source, (index, shards))
        again.write(path)
        texts.append(path.read_text().lower())
        read = list(accumulate(len(line) + 1 for line in texts[-1].splitlines()))
        assert {round(share * len(texts[-1])) for share in one.shares if share} <= set(read)
    assert "".join(texts) == TEXT


@pytest.mark.parametrize("size", [16, 64])
def test_shards_do_not_depend_on_blocks_if_they_have_a_size(size: int, source: Path) -> None:
    texts: list[str] = []
    for index in (1, 2, 3):
        for name, job_size in (("shard", size), ("equal", 64)):
            text = TextInput(source, (index, 3), size=job_size, shard_size=64)
            UpperJob(text).write(source.with_name(name), overwrite=True)
        texts.append(source.with_name("shard").read_text().lower())
        assert texts[-1] == source.with_name("equal").read_text().lower()
    assert "".join(texts) == TEXT


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_shard_without_lines_is_a_gzip_file(is_killed: bool, output: Path) -> None:
    path = output.with_suffix(".gz")

    def nothing(state: JobState) -> Iterator[tuple[Chunks, JobState]]:
        yield [b""], {"position": 0}
        if is_killed and not state:
            raise KeyboardInterrupt

    for _ in range(2):
        with suppress(KeyboardInterrupt):
            run_job([path], {}, nothing, lambda: Signature("none"))
    with path.open("rb") as file:
        assert file.read(2) == b"\x1f\x8b"
    assert gzip.decompress(path.read_bytes()) == b""


def test_shards_of_converted_text_are_rejected(source: Path) -> None:
    text = TextInput(source, (2, 12))
    assert text.shard_path(Path("a/b.en.gz")) == Path("a/b.en.02-of-12.gz")
    assert TextInput(source).shard_path(Path("a.gz")) == Path("a.gz")
    os.mkfifo(source.with_name("pipe"))
    source.with_name("windows").write_bytes(b"a\r\nb\r\n")
    wrong = (*map(source.with_name, ("text.gz", "text.zst", "pipe", "windows", "*")), source.parent)
    for path in (None, *wrong):
        with pytest.raises(UsageError, match="`shard`"):
            TextInput(path, (1, 2))


def test_outputs_next_to_inputs(tmp_path: Path) -> None:
    out, other = tmp_path / "out.gz", tmp_path / "folder" / "out.gz.json"
    check_distinct([tmp_path / "in", tmp_path / "in", None, other], [out, tmp_path / "b"])
    for inputs, outputs in (([out], [out]), ([], [out, out])):
        with pytest.raises(UsageError, match="must be different"):
            check_distinct(inputs, outputs)
    (tmp_path / "link").symlink_to(out)
    with pytest.raises(UsageError, match="must be different"):
        check_distinct([tmp_path / "link"], [out])
    with pytest.raises(UsageError, match=r"out\.gz is an input"):
        check_beside(out, [out])
    names = ("out.gz.tmp", "out.gz.json", "out.gz.progress", "out.gz.lock", "out.tmp.gz")
    for name in names:
        for inputs, outputs in (([tmp_path / name], [out]), ([], [out, tmp_path / name])):
            with pytest.raises(UsageError, match=f"{name} would be overwritten, since out.gz"):
                check_distinct(inputs, outputs)


def test_folders_that_contain_an_input(tmp_path: Path) -> None:
    check_outside(tmp_path / "a", [tmp_path / "ab", None, str(tmp_path / "b" / "a")])
    for name in ("a", "a/b/c", "a.tmp/b", "a.tmp.old/b"):
        with pytest.raises(UsageError, match="a would replace the input"):
            check_outside(tmp_path / "a", [tmp_path / name])
