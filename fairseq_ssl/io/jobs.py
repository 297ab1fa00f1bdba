"""Jobs on texts of any size: read blocks, map them in parallel, write resumable outputs.

A job is one function. It opens a `TextInput`, maps its blocks with an executor, and hands the
chunks of its outputs to `run_job`, which writes them and lets an interrupted run resume.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, Protocol, TypeVar

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.io.blocks import ByteBlock, byte_blocks, seek_block, shard_bounds, share_read
from fairseq_ssl.io.executors import Executor, LocalExecutor
from fairseq_ssl.io.outputs import (
    ResumableFiles,
    complete,
    exclusive,
    file_fingerprint,
    is_device,
    is_done,
    journal,
    write_chunk,
)
from fairseq_ssl.io.text_files import is_converted, open_text, stdin_text
from fairseq_ssl.signature import Signature

Chunks = Sequence[bytes | Path]
"""The next bytes of each output, or files that hold them."""
JobState = Mapping[str, Any]
"""What a job needs to resume, as JSON."""

Item = TypeVar("Item")
LINES = 1000
"""Lines that a process rewrites at a time."""
logger = logging.getLogger(__name__)


class Progress(Protocol):
    """Called by a job after each part of its work."""

    def __call__(self, count: int, share: float | None = None, note: str = "") -> None:
        """Report `count` more units. `share` of all work is done, where the total is unknown."""


class ProgressFactory(Protocol):
    """Called by a job before its work."""

    def __call__(self, task: str, unit: str, total: int | None = None) -> Progress:
        """Return the function that reports the units of this task."""


def silent_progress(task: str, unit: str, total: int | None = None) -> Progress:
    """Return a progress function that reports nothing."""
    return lambda count, share=None, note="": None


def counted(items: Iterable[Item], report: Progress) -> Iterator[Item]:
    """Pass the items on, and report each."""
    for item in items:
        yield item
        report(1)


def run_job(
    outputs: Sequence[Path],
    params: Mapping[str, Any],
    chunks: Callable[[JobState], Iterable[tuple[Chunks, JobState]]],
    signature: Callable[[], Signature],
    *,
    overwrite: bool = False,
    from_stdin: bool = False,
    stdout: IO[bytes] | None = None,
) -> bool:
    """Write the outputs of a job. Return False if an earlier run has written them.

    Args:
        outputs: files to write; if empty, the first output goes to `stdout`
        params: everything that determines the bytes of the outputs, as JSON
        chunks: called with the state of the interrupted run, or with an empty state; yields the
            next bytes of each output, and the state with which the job can resume after them
        signature: called at the end; what is written beside the first output
        overwrite: replace outputs, and do not resume
        from_stdin: the input cannot be read again, so there is nothing to resume
        stdout: a binary stream for jobs without output files
    """
    if not outputs:
        assert stdout is not None
        for made, _ in chunks({}):
            write_chunk(stdout, made[0])
        stdout.flush()
        return True
    fresh = overwrite or from_stdin
    with ExitStack() as locks:
        if fresh or not _is_complete(outputs, params):
            for path in outputs:
                locks.enter_context(exclusive(path))
            complete(outputs)
        if not fresh and _is_complete(outputs, params):
            logger.warning("%s is complete, written by an earlier run of this job", outputs[0])
            return False
        for path in outputs:
            if is_device(path):
                raise UsageError(f"{path} is a device or a pipe. Expected a file.")
            if path.exists() and not overwrite:
                raise UsageError(
                    f"{path} exists, and is not an output of this job. Set `overwrite` to replace "
                    "it, or choose another output."
                )
        _write(outputs, params, chunks, signature, fresh)
    return True


def _is_complete(outputs: Sequence[Path], params: Mapping[str, Any]) -> bool:
    return not journal(outputs[0]).exists() and is_done(outputs, params)


def _write(
    outputs: Sequence[Path],
    params: Mapping[str, Any],
    chunks: Callable[[JobState], Iterable[tuple[Chunks, JobState]]],
    signature: Callable[[], Signature],
    fresh: bool,
) -> None:
    try:
        with ResumableFiles(outputs, params, fresh) as files:
            if files.state:
                logger.warning("resuming %s", outputs[0])
            for made, state in chunks(files.state):
                files.append(made, state)
            files.finish(signature())
    except PermissionError:
        raise DataError(f"{outputs[0]} cannot be written: permission denied.") from None
    except OSError as error:
        raise DataError(
            f"{outputs[0]} could not be written: {error.strerror or error}. Free some space, and "
            "run the same job again: it resumes."
        ) from None


def check_distinct(source: Path | None, outputs: Iterable[Path]) -> None:
    """Reject outputs that are one file, or the input itself."""
    paths = [path.resolve() for path in (source, *outputs) if path]
    if len(set(paths)) < len(paths):
        raise UsageError("The input and the outputs must be different files.")


class BlockResult(Protocol):
    """The outcome of a job for one block."""

    @property
    def end(self) -> int:
        """The byte after the block."""


Result = TypeVar("Result", bound=BlockResult)


@dataclass
class TextInput:
    """A text or a shard of it, read in blocks of lines."""

    path: Path | None
    """None: stdin."""
    shard: tuple[int, int] = (1, 1)
    """Its number, from 1, and the number of shards."""
    position: int = 0
    """Bytes of the text, decompressed, that are done."""
    size: int | None = None
    """Bytes of a block (default: `blocks.BLOCK_SIZE`)."""

    def __post_init__(self) -> None:
        if self.shard == (1, 1):
            return
        if self.path is None or self.path.suffix == ".gz":
            raise UsageError(
                "`shard` needs an input file that is not compressed: only such a file can be read "
                "from its middle."
            )
        if self.path.is_file() and not self.is_seekable:
            raise UsageError(
                "`shard` needs UTF-8 text without byte-order mark and with Unix line ends, and "
                f"{self.path} has one or the other: it can only be read from its beginning. "
                f"Convert it: sed '1s/^\\xEF\\xBB\\xBF//; s/\\r$//' {self.path} > NEW"
            )

    def __str__(self) -> str:
        return "stdin" if self.path is None else str(self.path)

    @property
    def fingerprint(self) -> list[int] | None:
        """Size and time of modification of the file."""
        return None if self.path is None else file_fingerprint(self.path)

    @property
    def is_seekable(self) -> bool:
        """True for a file on the disk that is read byte by byte as it is."""
        if self.path is None or self.path.suffix == ".gz" or not self.path.is_file():
            return False
        with open_text(self.path) as file:
            return not is_converted(file)

    def map_blocks(
        self, executor: Executor, function: Callable[[ByteBlock], Result]
    ) -> Iterator[tuple[Result, float | None]]:
        """Yield the outcome of each block, in order, and the share of the input that is done.

        The share is None where the size of the input is unknown.
        """
        with ExitStack() as stack:
            file = stack.enter_context(open_text(self.path)) if self.path else stdin_text()
            start, end = self._seek(file)
            for done in executor.imap(function, byte_blocks(file, start, end, self.size)):
                share = share_read(file) or None
                if end is not None:
                    share = (done.end - start) / (end - start)
                yield done, share

    def lines_before(self) -> int:
        """Count the lines before the shard."""
        if self.path is None or self.shard[0] == 1:
            return 0
        with open_text(self.path) as file:
            before = seek_block(file, self.shard_blocks()[0], self.size)
            file.seek(0)
            return sum(block.data.count(b"\n") for block in byte_blocks(file, 0, before))

    def shard_blocks(self) -> tuple[int, int]:
        """Return the first block of the shard, and the first block of the next shard."""
        assert self.path is not None
        return shard_bounds(self.path.stat().st_size, *self.shard, self.size)

    def shard_path(self, path: Path) -> Path:
        """Put the shard into the name of an output, before a ``.gz``.

        The names sort in the order of the shards.
        """
        number, total = self.shard
        if total == 1:
            return path
        stem, gz = (path.name[:-3], ".gz") if path.suffix == ".gz" else (path.name, "")
        return path.with_name(f"{stem}.{number:0{len(str(total))}}-of-{total}{gz}")

    def _seek(self, file: IO[bytes]) -> tuple[int, int | None]:
        """Go to the first line that is not done. Return its byte, and the end if it is known."""
        if self.path is None:
            return 0, None
        if not self.is_seekable:
            if self.position:
                file.seek(self.position)
            return self.position, None
        first, after = self.shard_blocks()
        end = min(seek_block(file, after, self.size), self.path.stat().st_size)
        start = self.position or seek_block(file, first, self.size)
        file.seek(start)
        return start, end


def parallel_map(
    lines: Iterable[str], jobs: int, build: Callable[..., Callable[[str], str]], *options: Any
) -> Iterator[str]:
    """Rewrite each line by the function that `build` returns for the options.

    Each of `jobs` processes builds the function once: it need not be picklable.
    """
    rewrite = build(*options)  # in this process too: errors of a model come before any work
    if jobs == 1:
        return map(rewrite, lines)
    iterator = iter(lines)
    blocks = iter(lambda: list(islice(iterator, LINES)), [])
    return chain.from_iterable(LocalExecutor(jobs).imap(_LineMapper(build, options), blocks))


@dataclass(frozen=True)
class _LineMapper:
    """Rewrites a block of lines in a process."""

    build: Callable[..., Callable[[str], str]]
    options: tuple[Any, ...]

    def __call__(self, block: list[str]) -> list[str]:
        return list(map(_built(self.build, self.options), block))


@lru_cache(maxsize=1)
def _built(
    build: Callable[..., Callable[[str], str]], options: tuple[Any, ...]
) -> Callable[[str], str]:
    return build(*options)
