"""Jobs that process the blocks of a text of any size in parallel and write files or folders.

A `TextJob` maps a function over the blocks of a `Corpus` with an executor. Its outputs are files,
which the calling process writes in order, or folders of parts, which the workers write.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import InitVar, dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, Any, ClassVar

from fairseq_ssl._version import __version__
from fairseq_ssl.errors import DataError, OutputError, UsageError
from fairseq_ssl.io.blocks import Block, Span
from fairseq_ssl.io.corpus import Corpus
from fairseq_ssl.io.executors import Executor, LocalExecutor
from fairseq_ssl.io.jobs import (
    Progress,
    ProgressFactory,
    check_distinct,
    check_read_twice,
    silent_progress,
)
from fairseq_ssl.io.outputs import (
    ResumableFiles,
    complete,
    exclusive,
    is_device,
    is_done,
    output_error,
)
from fairseq_ssl.io.parts import (
    BlockFunction,
    BlockResult,
    JobFolder,
    PartFolder,
    PartResults,
    PartWriter,
    Tally,
    map_blocks,
)
from fairseq_ssl.io.remote import URL, RemotePath, as_path
from fairseq_ssl.io.text_files import MANIFEST, compress_chunk, optional_path
from fairseq_ssl.signature import Signature

Output = str | Path | PartFolder | IO[bytes]
"""A file, a folder of parts (also as a string that ends with ``/``), or a binary stream."""
LineFunction = Callable[[str], str]
"""Picklable function that rewrites a line. Lines have no newline."""
COMPLETE = "%s is complete, written by an earlier run of this job"
RESUME = "Run the same job again to resume it."
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Outputs:
    """The outputs of a job: files, folders of parts, or a stream."""

    paths: tuple[Path, ...] = ()
    stream: IO[bytes] | None = None
    folders: PartFolder | None = None
    """Shard and part size if the outputs are folders of parts, otherwise None."""

    @classmethod
    def of(cls, *outputs: Output) -> Outputs:
        """Parse the outputs of a job: paths or, for a single output, a binary stream.

        A string that ends with ``/``, the URL of a store, and a `PartFolder` are folders of parts.
        """
        paths: list[Path] = []
        kinds: set[PartFolder | None] = set()
        for output in outputs:
            if not isinstance(output, str | Path | PartFolder):
                if len(outputs) == 1 and hasattr(output, "write"):
                    return cls(stream=output)
                raise TypeError(
                    f"An output is {output!r}. Expected paths, or a single binary stream."
                )
            if not isinstance(output, PartFolder) and is_folder(output):
                output = PartFolder(output)
            if isinstance(output, PartFolder):
                paths.append(as_path(output.path))
                kinds.add(replace(output, path=""))
                continue
            paths.append(as_path(output))
            kinds.add(None)
            if not paths[-1].name:
                raise UsageError(
                    f"`output` is {str(output)!r}, a folder. Pass the path of a new file or folder."
                )
        if len(kinds) > 1:
            raise UsageError(
                f"The outputs are of different kinds: {', '.join(map(str, paths))}. Expected only "
                "files, or only folders of parts with the same shard and part size."
            )
        return cls(tuple(paths), None, kinds.pop())

    @property
    def suffixes(self) -> tuple[str, ...]:
        """Suffix of each output, such as ``.gz``."""
        return tuple(path.suffix for path in self.paths) or ("",)


def is_folder(output: str | Path) -> bool:
    """Return True if an output is a folder of parts: a path that ends with ``/``, or a URL."""
    if isinstance(output, Path):
        return isinstance(output, RemotePath)
    return output.endswith("/") or URL.match(output) is not None


def _map_block(
    function: BlockFunction, suffixes: Sequence[str], block: Block
) -> tuple[BlockResult, dict[str, Any], float]:
    """Return a block's compressed result, the position after it, and the fraction read so far."""
    result = _compressed(function(block), suffixes)
    before = (block.span.before or 0) + block.first + block.count
    position = {"file": block.span.file, "starts": block.ends, "before": before}
    return result, position, block.fraction


def _compressed(result: BlockResult, suffixes: Sequence[str]) -> BlockResult:
    return replace(result, outputs=tuple(map(compress_chunk, result.outputs, suffixes)))


@dataclass
class TextJob(ABC):
    """A job that applies a function to each block of a corpus.

    Subclasses are dataclasses. The function depends only on the block and on the job's fields.
    """

    corpus: Corpus
    """Text to read."""
    outputs: Outputs
    """Files, folders of parts, or a stream."""
    workers: InitVar[Executor | None]
    """Executor that processes the blocks or parts. None runs the job in the current process."""
    progress: ProgressFactory
    """Function that creates the progress report, which receives the number of processed lines."""

    unit: ClassVar[str] = "lines"
    may_be_empty: ClassVar[bool] = False
    """True to accept a text without lines."""

    def __post_init__(self, workers: Executor | None) -> None:
        inputs = [*self.corpus.paths, *map(optional_path, self.reads())]
        check_distinct(inputs, self.outputs.paths)
        self.executor = workers or LocalExecutor(1)
        self.params = {**self.parameters(), "version": __version__}
        """Parameters that determine the content of the outputs."""
        self.tally = Tally()
        """Counts and examples of all blocks, including those of interrupted runs."""
        self.seconds = 0.0
        """Duration of the job in seconds. For files, it includes interrupted runs."""
        self.in_order: Callable[[BlockResult], BlockResult] | None = None
        """Function that the calling process applies to the result of each block in order.

        To write folders of parts, a job with such a function runs stages in `part_results`.
        """

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the task in progress reports."""

    @property
    def part_size(self) -> int:
        """Default input size per part in bytes."""
        return 2**26

    def reads(self) -> Iterable[str | Path | None]:
        """Return the files that the job reads besides the corpus. Outputs cannot replace them."""
        return ()

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Return JSON-serializable parameters that determine the content of the outputs."""

    @property
    def totals(self) -> Counter[str]:
        """Sums of the counts of all blocks."""
        return self.tally.counts

    @abstractmethod
    def signature(self) -> Signature:
        """Return the signature of the outputs, with the counts of all blocks."""

    @abstractmethod
    def prepare(self) -> BlockFunction:
        """Load the models and resources. Return the picklable function that processes blocks."""

    def part_results(self, folder: JobFolder, spans: Sequence[Span]) -> PartResults | None:
        """Return the function that processes parts, or None while other shards run a stage."""
        return partial(map_blocks, self.prepare(), self.corpus.block_size)

    def run_stage(
        self, folder: JobFolder, stage: str, items: Sequence[Any], results: PartResults
    ) -> bool:
        """Process this shard's items of a stage. Return False if other shards are unfinished."""
        writer = PartWriter(results, (folder.first,), stage)
        report = self.progress(f"{self.name}: {stage}", "parts", len(folder.share(len(items))))
        for _ in folder.run_stage(stage, items, writer, self.executor):
            report(1)
        return folder.records(stage, len(items)) is not None

    def note(self) -> str:
        """Return a text for the progress report, such as the speed."""
        return ""

    def check(self) -> None:  # noqa: B027  # optional
        """Raise DataError if the counts so far show invalid input. By default, do nothing."""

    def run(self, overwrite: bool) -> bool:
        """Write the outputs. Return False if they were complete or other shards are unfinished."""
        if self.outputs.folders is not None:
            return self._run_folders(self.outputs.folders, overwrite)
        if (stream := self.outputs.stream) is not None:
            for outputs, _ in self._results({}):
                stream.write(outputs[0])
            stream.flush()
            return True
        return self._run_files(self.outputs.paths, overwrite)

    def _run_files(self, paths: Sequence[Path], overwrite: bool) -> bool:
        fresh = overwrite or self.corpus.is_stdin
        with ExitStack() as locks:
            if fresh or not is_done(paths, self.params):
                for path in paths:
                    locks.enter_context(exclusive(path))
                complete(paths)
            if not fresh and is_done(paths, self.params):
                logger.warning(COMPLETE, paths[0])
                return False
            for path in paths:
                if is_device(path) or path.is_dir():
                    kind = "a folder" if path.is_dir() else "a device or a pipe"
                    raise UsageError(f"{path} is {kind}. Expected the name of a file.")
                if path.exists() and not overwrite:
                    raise UsageError(
                        f"{path} exists, and is not an output of this job. Set `overwrite` to "
                        "replace it, or choose another output."
                    )
            self._write_files(paths, fresh)
        return True

    def _write_files(self, paths: Sequence[Path], fresh: bool) -> None:
        files = ResumableFiles(paths, self.params, fresh)
        try:
            with files:
                if files.state:
                    logger.warning("resuming %s", paths[0])
                for outputs, state in self._results(files.state):
                    files.append(outputs, state)
                files.finish(self.signature())
        except OSError as error:
            resume = f" {RESUME}" if files.journal.exists() else ""
            raise OutputError(f"{output_error(files.current, error)}{resume}") from None

    def _results(
        self, state: Mapping[str, Any]
    ) -> Iterator[tuple[Sequence[bytes], dict[str, Any]]]:
        """Yield the next bytes of each output and the state after them, for resuming."""
        after = None
        if state:
            position = state["position"]
            paths = self.corpus.spans()[position["file"]].paths
            after = Span(paths, position["file"], tuple(position["starts"]), None)
            after = replace(after, before=position["before"])
            self.tally.add(**state["tally"])
            logger.warning("resuming after line %s", self.totals["lines"])
        suffixes = self.outputs.suffixes
        early = [""] * len(suffixes) if self.in_order else suffixes
        work = partial(_map_block, self.prepare(), early)
        report = self.progress(self.name, self.unit)
        self.seconds = state.get("time", 0.0)
        begin, files = time.monotonic() - self.seconds, len(self.corpus.spans())
        # In Python 3.10, the generator would be closed by the garbage collector only.
        with closing(self.executor.imap(work, self.corpus.blocks(after))) as results:
            for result, position, fraction in results:
                if self.in_order:
                    result = _compressed(self.in_order(result), suffixes)
                fraction = (position["file"] + fraction) / files
                self._add(result.counts, result.examples, report, fraction, begin)
                state = {"position": position, "time": self.seconds, "tally": self.tally.as_json()}
                yield result.outputs, state
        self.check_end()

    def _add(
        self,
        counts: Mapping[str, int],
        examples: Mapping[str, Sequence[Mapping[str, Any]]],
        report: Progress,
        fraction: float,
        begin: float,
    ) -> None:
        self.tally.add(counts, examples)
        self.seconds = time.monotonic() - begin
        report(counts.get("lines", 0), fraction or None, self.note())
        self.check()

    def check_end(self) -> None:
        """Raise DataError if the input is empty and `may_be_empty` is False."""
        if not (self.totals["lines"] or self.may_be_empty):
            raise DataError(f"{self.corpus} is empty. Expected at least one line.")

    def is_complete(self) -> bool:
        """Return True if an earlier run of this job has written all outputs."""
        if self.outputs.folders is None:
            return is_done(self.outputs.paths, self.params)
        with suppress(UsageError):  # the folder of another job
            return self._job_folder(self.outputs.folders).check()
        return False

    def _job_folder(self, own: PartFolder) -> JobFolder:
        params = {**self.params, "part_size": own.part_size or self.part_size}
        return JobFolder(self.outputs.paths, params, own.shard)

    def _run_folders(self, own: PartFolder, overwrite: bool) -> bool:
        if self.corpus.is_stdin:
            raise UsageError(
                "stdin cannot be split into a folder of parts. Pass a file as input, or choose an "
                "output file."
            )
        size = own.part_size or self.part_size
        folder = self._job_folder(own)
        with folder.locked():
            is_complete = folder.check(overwrite)
            wrong = folder.wrong_parts(self.executor) if is_complete else None
            if wrong == []:
                logger.warning(COMPLETE, folder.first)
                return False
            try:
                return self._make_parts(folder, size, wrong)
            except (DataError, FileNotFoundError) as error:
                if not is_complete and (folder.first / MANIFEST).exists():  # by another shard
                    logger.warning(COMPLETE, folder.first)
                    return False
                if isinstance(error, OutputError):
                    raise OutputError(f"{error} {RESUME}") from None
                raise
            finally:
                folder.discard_plan()

    def _make_parts(self, folder: JobFolder, size: int, wrong: list[int] | None) -> bool:
        """Write this shard's parts, or only rewrite the wrong parts of a complete folder.

        Return True if this shard completes the job. After rewriting parts, return False.
        """
        spans = folder.plan(lambda: self.corpus.parts(size, self.executor))
        results = self.part_results(folder, spans)
        if results is None:
            return False
        writer = PartWriter(results, folder.folders)
        made = folder.run_stage("part", spans, writer, self.executor, wrong)
        if wrong is not None:
            folder.replace_parts(dict(zip(wrong, made, strict=True)))
            return False
        report, begin = self.progress(self.name, self.unit), time.monotonic()
        for done, record in enumerate(made, 1):
            fraction = done * folder.shard[1] / len(spans)
            self._add(record["counts"], record["examples"], report, fraction, begin)
        records = folder.records("part", len(spans))
        if records is None:
            return False
        self.tally, written = Tally(), list(records)
        for record in written:
            self.tally.add(record["counts"], record["examples"])
        self.check_end()
        folder.finish(self.signature(), written)
        return True


@dataclass(frozen=True)
class LineSummary:
    """Signature, output path and line count of a rewritten text."""

    signature: Signature
    outputs: tuple[Path, ...]
    """Path of the output, or an empty tuple for a stream."""
    lines: int


def rewrite_file(
    source: str | Path | None,
    output: Output,
    build: Callable[[], LineFunction],
    signature: Signature,
    *,
    reads: Sequence[Path] = (),
    executor: Executor | None = None,
    overwrite: bool = False,
    progress: ProgressFactory = silent_progress,
) -> LineSummary | None:
    """Rewrite a text. Return None if the output was complete or other shards are unfinished.

    Args:
        source: text, or None for stdin
        output: a file, a folder of parts, or a binary stream
        build: function that returns the picklable function that rewrites a line
        signature: parameters of the function, with digests of its files
        reads: files that the function reads, which the output must not replace
        executor: executor that processes the blocks or parts (default: the current process)
        overwrite: whether to replace an existing output
        progress: creates the progress report, which receives the number of processed lines
    """
    corpus, outputs = Corpus((optional_path(source),)), Outputs.of(output)
    for path in reads:
        check_read_twice(path)
    job = _LineJob(corpus, outputs, executor, progress, build, signature, reads)
    if not job.run(overwrite):
        return None
    return LineSummary(job.signature(), outputs.paths, job.totals["lines"])


@dataclass
class _LineJob(TextJob):
    """Resumable job that `rewrite_file` runs."""

    build: Callable[[], LineFunction]
    method: Signature
    files: Sequence[Path]
    may_be_empty = True

    @property
    def name(self) -> str:
        return self.method.method

    def reads(self) -> Sequence[Path]:
        return self.files

    def parameters(self) -> dict[str, Any]:
        return {
            **self.method.parameters,
            "input": str(self.corpus),
            "input_is": self.corpus.fingerprint,
            "output": str(self.outputs.paths[0] if self.outputs.paths else None),
        }

    def signature(self) -> Signature:
        details = {**self.method.details, **self.params, "lines": self.totals["lines"]}
        return Signature(self.method.method, self.method.parameters, details)

    def prepare(self) -> BlockFunction:
        return partial(_rewrite_block, self.build())


def _rewrite_block(rewrite: LineFunction, block: Block) -> BlockResult:
    lines = block.lines()
    output = "".join([f"{rewrite(line)}\n" for line in lines])
    return BlockResult((output.encode(),), Counter(lines=len(lines)))


def rewritten_lines(
    source: str | Path | None, rewrite: LineFunction, executor: Executor | None = None
) -> Iterator[str]:
    """Yield the rewritten lines of a text, as in `rewrite_file`. Read stdin if `source` is None."""
    blocks = Corpus((optional_path(source),)).blocks()
    work = partial(_rewrite_block, rewrite)
    with closing((executor or LocalExecutor(1)).imap(work, blocks)) as results:
        for result in results:
            yield from result.outputs[0].decode().split("\n")[:-1]
