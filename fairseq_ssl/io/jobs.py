"""Jobs on text files of any size: read blocks, map them in parallel, write resumable outputs.

A `TextJob` maps the blocks of a `TextInput` with an executor. `run_job` writes the outputs of any
job, and resumes interrupted runs.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, Protocol, TypeVar

from fairseq_ssl.errors import DataError, OutputError, UsageError
from fairseq_ssl.io.blocks import ByteBlock, byte_blocks, seek_block, shard_bounds, share_read
from fairseq_ssl.io.executors import Executor, LocalExecutor
from fairseq_ssl.io.fingerprints import file_fingerprint
from fairseq_ssl.io.outputs import (
    ResumableFiles,
    complete,
    exclusive,
    is_device,
    is_done,
    journal,
    output_error,
    real_path,
)
from fairseq_ssl.io.remote import as_path
from fairseq_ssl.io.text_files import (
    COMPRESSIONS,
    is_converted,
    is_glob,
    open_text,
    optional_path,
    stdin_text,
)
from fairseq_ssl.signature import Signature

Chunks = Sequence[bytes]
"""The next bytes of each output."""
JobState = Mapping[str, Any]
"""State for resuming a job, as JSON types."""
Fingerprints = tuple[int, ...]
"""Sizes and times of files. As part of a cache key, they let changed files be read again."""

Item = TypeVar("Item")
LINES = 1000
"""Number of lines that `parallel_map` sends to a worker process at a time."""
logger = logging.getLogger(__name__)


class Progress(Protocol):
    """Progress callback of a task."""

    def __call__(self, count: int, share: float | None = None, note: str = "") -> None:
        """Report progress.

        Args:
            count: number of units done since the last call
            share: share of the task that is done, 0 to 1, if the total is unknown
            note: text to show, such as a score
        """


class ProgressFactory(Protocol):
    """Function that starts the progress report of a task."""

    def __call__(self, task: str, unit: str, total: int | None = None) -> Progress:
        """Return the progress callback of a task.

        Args:
            task: name of the task
            unit: name of the units, such as ``lines``
            total: number of units, None if unknown
        """


def silent_progress(task: str, unit: str, total: int | None = None) -> Progress:
    """Return a progress function that reports nothing."""
    return lambda count, share=None, note="": None


def counted(items: Iterable[Item], report: Progress) -> Iterator[Item]:
    """Yield the items. Report one unit of progress after each item."""
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
    """Write the outputs of a job. Return False if they are already complete.

    Args:
        outputs: output files; if empty, the first output is written to `stdout`
        params: all parameters that the outputs depend on, as JSON types
        chunks: function from the state of an interrupted run, or from an empty state, to an
            iterator of the next bytes of each output and the state after them
        signature: called at the end; returns the signature to write next to the first output
        overwrite: replace existing outputs instead of resuming
        from_stdin: the input is stdin, so the job cannot resume
        stdout: binary stream for jobs without output files
    """
    if not outputs:
        assert stdout is not None
        for chunk, _ in chunks({}):
            stdout.write(chunk[0])
        stdout.flush()
        return True
    fresh = overwrite or from_stdin
    with ExitStack() as locks:
        if fresh or not is_complete(outputs, params):
            for path in outputs:
                locks.enter_context(exclusive(path))
            complete(outputs)
        if not fresh and is_complete(outputs, params):
            logger.warning("%s is complete, written by an earlier run of this job", outputs[0])
            return False
        for path in outputs:
            if is_device(path) or path.is_dir():
                kind = "a folder" if path.is_dir() else "a device or a pipe"
                raise UsageError(f"{path} is {kind}. Expected the name of a file.")
            if path.exists() and not overwrite:
                raise UsageError(
                    f"{path} exists, and is not an output of this job. Set `overwrite` to replace "
                    "it, or choose another output."
                )
        _write(outputs, params, chunks, signature, fresh)
    return True


def is_complete(outputs: Sequence[Path], params: Mapping[str, Any]) -> bool:
    """Return True if an earlier run of the same job has written all outputs."""
    return not journal(outputs[0]).exists() and is_done(outputs, params)


def _write(
    outputs: Sequence[Path],
    params: Mapping[str, Any],
    chunks: Callable[[JobState], Iterable[tuple[Chunks, JobState]]],
    signature: Callable[[], Signature],
    fresh: bool,
) -> None:
    files = ResumableFiles(outputs, params, fresh)
    try:
        with files:
            if files.state:
                logger.warning("resuming %s", outputs[0])
            for chunk, state in chunks(files.state):
                files.append(chunk, state)
            files.finish(signature())
    except OSError as error:
        resume = " Run the same job again to resume it." if files.journal.exists() else ""
        raise OutputError(f"{output_error(files.current, error)}{resume}") from None


def resolve_paths(paths: Iterable[Path | None]) -> list[Path]:
    """Return the absolute paths of files, without links, for comparison. None is skipped."""
    return [real_path(path) for path in paths if path is not None]


def file_or_stream(output: str | Path | IO[bytes]) -> tuple[Path | None, IO[bytes] | None]:
    """Return the path and the binary stream of an output. One of them is None."""
    if isinstance(output, str | Path):
        output = as_path(output)
        if not output.name:
            raise UsageError(f"`output` is the folder {output}. Expected a new path in it.")
        return output, None
    if not hasattr(output, "write"):
        raise TypeError(f"Expected a path or a binary stream for `output`, not {output!r}.")
    return None, output


def check_distinct(inputs: Iterable[Path | None], outputs: Iterable[Path]) -> None:
    """Raise UsageError if an output, or a file next to it, is an input or another output."""
    read, written = resolve_paths(inputs), resolve_paths(outputs)
    for index, output in enumerate(written):
        if output in (*read, *written[:index]):
            raise UsageError(
                f"{output} is an input or another output. The inputs and the outputs must be "
                "different files."
            )
        check_beside(output, {*read, *written} - {output})


def check_read_twice(path: str | Path) -> None:
    """Raise UsageError if an input that is opened more than once is a pipe or a device."""
    if is_device(as_path(path)):
        raise UsageError(f"{path} is a device or a pipe. Expected a file, which is read twice.")


def check_beside(output: Path, inputs: Iterable[Path | None]) -> None:
    """Raise UsageError if an output, its temporary file or its signature is an input."""
    path = real_path(output)
    names = {f"{path.name}{end}" for end in (".tmp", ".json", ".progress", ".lock")}
    names.add(f"{path.stem}.tmp{path.suffix}")
    for source in resolve_paths(inputs):
        if source == path or (is_glob(source) and path.match(str(source))):
            raise UsageError(f"{output} is an input. Choose another output.")
        if source in path.parents or path in source.parents:
            raise UsageError(
                f"{output} is in the input {source}, or contains it. Choose another output."
            )
        if source.parent == path.parent and source.name in names:
            raise UsageError(
                f"{source.name} would be overwritten, since {output.name} needs a file of this "
                "name next to it. Rename the file, or choose another output."
            )


def check_outside(folder: Path, inputs: Iterable[str | Path | None]) -> None:
    """Raise UsageError if an output folder, which will be replaced, is or contains an input."""
    output = real_path(folder)
    replaced = {as_path(f"{output}{end}") for end in ("", ".tmp", ".tmp.old")}
    for path in resolve_paths(map(optional_path, inputs)):
        if not replaced.isdisjoint((path, *path.parents)):
            raise UsageError(f"{folder} would replace the input. Choose a different folder.")


def check_shard(shard: tuple[int, int]) -> None:
    """Raise UsageError unless the index of a shard is from 1 to the number of shards."""
    index, total = shard
    if not 1 <= index <= total:
        raise UsageError(f"`shard` is {shard}. Expected (i, n), with i from 1 to n.")


@dataclass(frozen=True)
class BlockResult:
    """The outputs of a block of a text, and its counts."""

    outputs: tuple[bytes, ...]
    """Bytes to append to each output."""
    end: int
    """Offset after the block in the text, in bytes."""
    counts: Counter[str]
    """Counts by name. `lines` is the number of lines."""
    share: float | None = None
    """Share of the text that is done, 0 to 1, if the function of the block knows it."""


@dataclass
class TextInput:
    """A text file, or a shard of it, that is read in blocks of lines."""

    path: Path | None
    """Text file, gzip if the name ends with ``.gz``; None for stdin."""
    shard: tuple[int, int] = (1, 1)
    """Index of the shard, from 1, and number of shards."""
    position: int = 0
    """Offset of the next line in the decompressed text, in bytes."""
    size: int | None = None
    """Block size in bytes (default: `blocks.BLOCK_SIZE`)."""
    shard_size: int | None = None
    """Shards begin at multiples of it, in bytes (default: `size`)."""

    def __post_init__(self) -> None:
        check_shard(self.shard)
        if self.shard == (1, 1):
            return
        if self.path is None or self.path.suffix in COMPRESSIONS or is_device(self.path):
            raise UsageError(
                "`shard` needs an input file that is not compressed and not a pipe. Decompress the "
                "file, or do not use shards."
            )
        if self.path.is_dir() or is_glob(self.path):
            raise UsageError(f"{self.path} has several files. `shard` needs one file.")
        if self.path.is_file() and not self.is_seekable:
            raise UsageError(
                f"{self.path} has a byte-order mark or Windows line ends. `shard` needs UTF-8 text "
                "without a byte-order mark and with Unix line ends. Convert it: "
                f"sed '1s/^\\xEF\\xBB\\xBF//; s/\\r$//' {self.path} > NEW"
            )

    def __str__(self) -> str:
        return "stdin" if self.path is None else str(self.path)

    @property
    def fingerprint(self) -> list[int] | None:
        """Size and modification time of the file, None for stdin."""
        return None if self.path is None else file_fingerprint(self.path)

    @property
    def is_seekable(self) -> bool:
        """True for a regular, uncompressed file whose text needs no conversion."""
        if self.path is None or self.path.suffix in COMPRESSIONS or not self.path.is_file():
            return False
        with open_text(self.path) as file:
            return not is_converted(file)

    def map_blocks(
        self, executor: Executor, function: Callable[[ByteBlock], BlockResult]
    ) -> Iterator[tuple[BlockResult, float | None]]:
        """Yield the result of each block, in order, and the share of the blocks that is done.

        The share is None if the size of the input is unknown. A resumed job starts at 0 again.
        """
        with ExitStack() as stack:
            file = stack.enter_context(open_text(self.path)) if self.path else stdin_text()
            start, end = self._seek(file)
            begun = share_read(file) if self.position else 0.0
            blocks = byte_blocks(file, start, end, self.size, str(self))
            # In Python 3.10, the generator would be closed by the garbage collector only.
            for result in stack.enter_context(closing(executor.imap(function, blocks))):
                share = share_read(file, begun) or None
                if end is not None:
                    share = (result.end - start) / (end - start)
                yield result, share

    def resume(self, state: JobState, totals: Counter[str]) -> None:
        """Move to the position of an interrupted run, and add its counts to `totals`.

        Do nothing for an empty state.
        """
        if state:
            self.position = state["position"]
            totals.update(state["totals"])
            logger.warning("resuming after line %s", totals["lines"])

    def shard_path(self, path: Path) -> Path:
        """Insert ``.I-of-N`` into the name of an output, before ``.gz``.

        I is padded with zeros, so that sorted names are in the order of the shards.
        """
        number, total = self.shard
        if total == 1:
            return path
        stem, gz = (path.name[:-3], ".gz") if path.suffix == ".gz" else (path.name, "")
        return path.with_name(f"{stem}.{number:0{len(str(total))}}-of-{total}{gz}")

    def _seek(self, file: IO[bytes]) -> tuple[int, int | None]:
        """Seek to the next line. Return its offset, and the end of the shard if it is known."""
        if self.path is None:
            return 0, None
        if not self.is_seekable:
            if self.position:
                file.seek(self.position)
            return self.position, None
        size, total = self.shard_size or self.size, self.path.stat().st_size
        first, after = shard_bounds(total, *self.shard, size)
        start = self.position or seek_block(file, first, size)
        end = min(seek_block(file, after, size), total)
        file.seek(start)
        return start, end


class TextJob(ABC):
    """A job that maps the blocks of a text, and its counts.

    Subclasses set `params` and define `signature` and `prepare`.
    """

    name: str
    """Name of the task in progress reports."""
    unit: str = "lines"
    may_be_empty: bool = False
    """True to accept a text without lines."""
    params: dict[str, Any]
    """Parameters that determine the content of the outputs, as JSON types."""

    def __init__(
        self,
        text: TextInput,
        outputs: Sequence[Path],
        executor: Executor | None,
        progress: ProgressFactory,
    ) -> None:
        """Describe a job.

        Args:
            text: text to read
            outputs: output files; if empty, the first output is written to a stream
            executor: executor of the blocks (None: this process)
            progress: called with the number of lines done
        """
        self.text, self.outputs, self.progress = text, list(outputs), progress
        self.executor = executor or LocalExecutor(1)
        self.totals: Counter[str] = Counter()
        """Sums of the counts of all blocks, including those of interrupted runs."""
        self.seconds = 0.0
        """Time of the job, including interrupted runs."""

    @abstractmethod
    def signature(self) -> Signature:
        """Return the signature of the outputs, with the counts of all blocks."""

    @abstractmethod
    def prepare(self) -> Callable[[Any], BlockResult]:
        """Load the models and resources. Return the picklable function of a block."""

    def note(self) -> str:
        """Return a text for the progress report."""
        return ""

    def map_blocks(
        self, function: Callable[[Any], BlockResult]
    ) -> Iterator[tuple[BlockResult, float | None]]:
        """Yield the result of each block, and the share of the text that is done."""
        return self.text.map_blocks(self.executor, function)

    def run(self, stdout: IO[bytes] | None, overwrite: bool) -> bool:
        """Write the outputs with `run_job`. Return False if they are already complete."""
        return run_job(
            self.outputs,
            self.params,
            self._chunks,
            self.signature,
            overwrite=overwrite,
            from_stdin=self.text.path is None,
            stdout=stdout,
        )

    def _chunks(self, state: JobState) -> Iterator[tuple[Chunks, JobState]]:
        self.text.resume(state, self.totals)
        function = self.prepare()
        report = self.progress(self.name, self.unit)
        self.seconds = state.get("time", 0.0)
        begin = time.monotonic() - self.seconds
        for block, share in self.map_blocks(function):
            self.totals.update(block.counts)
            self.seconds = time.monotonic() - begin
            report(block.counts["lines"], share, self.note())
            now = {"position": block.end, "totals": self.totals, "time": self.seconds}
            yield block.outputs, now
        if not (self.totals["lines"] or self.may_be_empty) and self.text.shard == (1, 1):
            raise DataError(f"{self.text} is empty. Expected one line or more.")


def fingerprints(*paths: str | Path | None) -> Fingerprints:
    """Return the sizes and the times of files and folders. None is skipped."""
    return tuple(part for path in paths if path is not None for part in file_fingerprint(path))


def parallel_map(
    lines: Iterable[str], jobs: int, build: Callable[..., Callable[[str], str]], *options: Any
) -> Iterator[str]:
    """Yield `build(*options)(line)` for each line, in order.

    Args:
        lines: lines
        jobs: number of processes, 1 or more
        build: picklable function that returns the function for lines; called once per process
        options: arguments of `build`; a path among them cannot be a pipe with several jobs
    """
    for option in options if jobs > 1 else ():
        if isinstance(option, Path):
            check_read_twice(option)
    rewrite = build(*options)  # raise errors of a model before any work
    if jobs == 1:
        return map(rewrite, lines)
    iterator = iter(lines)
    blocks = iter(lambda: list(islice(iterator, LINES)), [])
    return chain.from_iterable(LocalExecutor(jobs).imap(_LineMapper(build, options), blocks))


@dataclass(frozen=True)
class _LineMapper:
    """Picklable function that rewrites a block of lines."""

    build: Callable[..., Callable[[str], str]]
    options: tuple[Any, ...]

    def __call__(self, block: list[str]) -> list[str]:
        return list(map(_build_cached(self.build, self.options), block))


@lru_cache(maxsize=1)
def _build_cached(
    build: Callable[..., Callable[[str], str]], options: tuple[Any, ...]
) -> Callable[[str], str]:
    return build(*options)
