"""Resumable outputs of jobs of any kind, checks of their paths, and reports of their progress.

`run_job` writes the outputs of any job, and resumes interrupted runs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, Protocol, TypeVar

from fairseq_ssl.errors import OutputError, UsageError
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
from fairseq_ssl.io.text_files import is_glob, optional_path
from fairseq_ssl.signature import Signature

Chunks = Sequence[bytes]
"""The next bytes of each output."""
JobState = Mapping[str, Any]
"""State for resuming a job, as JSON types."""
Fingerprints = tuple[int, ...]
"""Sizes and times of files. As part of a cache key, they let changed files be read again."""

Item = TypeVar("Item")
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


def fingerprints(*paths: str | Path | None) -> Fingerprints:
    """Return the sizes and the times of files and folders. None is skipped."""
    return tuple(part for path in paths if path is not None for part in file_fingerprint(path))
