"""Path checks and progress reports for jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol, TypeVar

from fairseq_ssl.errors import UsageError
from fairseq_ssl.io.fingerprints import file_fingerprint
from fairseq_ssl.io.outputs import is_device, real_path
from fairseq_ssl.io.remote import as_path
from fairseq_ssl.io.text_files import is_glob, optional_path

Fingerprints = tuple[int, ...]
"""Sizes and modification times of files, as part of a cache key."""

Item = TypeVar("Item")


class Progress(Protocol):
    """Progress callback of a task."""

    def __call__(self, count: int, fraction: float | None = None, note: str = "") -> None:
        """Report progress.

        Args:
            count: number of units done since the last call
            fraction: fraction of the task that is done, 0 to 1, if the total is unknown
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
    return lambda count, fraction=None, note="": None


def counted(items: Iterable[Item], report: Progress) -> Iterator[Item]:
    """Yield the items, and report one unit of progress after each item."""
    for item in items:
        yield item
        report(1)


def resolve_paths(paths: Iterable[Path | None]) -> list[Path]:
    """Return absolute paths with symbolic links resolved, without items that are None."""
    return [real_path(path) for path in paths if path is not None]


def check_distinct(inputs: Iterable[Path | None], outputs: Iterable[Path]) -> None:
    """Raise UsageError if an output, or an auxiliary file, overlaps an input or another output."""
    read, written = resolve_paths(inputs), resolve_paths(outputs)
    for index, output in enumerate(written):
        if output in (*read, *written[:index]):
            raise UsageError(
                f"{output} is an input or another output. The inputs and the outputs must be "
                "different files."
            )
        check_beside(output, {*read, *written} - {output})


def check_new(path: Path, overwrite: bool) -> None:
    """Raise UsageError if an output exists, is not a device, and `overwrite` is False."""
    if path.exists() and not is_device(path) and not overwrite:
        raise UsageError(f"{path} exists. Set `overwrite` to replace it, or choose another output.")


def check_read_twice(path: str | Path) -> None:
    """Raise UsageError if an input that is read twice is a pipe or a device."""
    if is_device(as_path(path)):
        raise UsageError(
            f"{path} is a device or a pipe. Expected a file, because it is read twice."
        )


def check_beside(output: Path, inputs: Iterable[Path | None]) -> None:
    """Raise UsageError if an output, or an auxiliary file such as a lock, overlaps an input."""
    path = real_path(output)
    names = {f"{path.name}{end}" for end in (".tmp", ".json", ".progress", ".lock")}
    names.add(f"{path.stem}.tmp{path.suffix}")
    for source in resolve_paths(inputs):
        if source == path or (is_glob(source) and path.match(str(source))):
            raise UsageError(f"{output} is an input. Choose another output.")
        if source in path.parents or path in source.parents:
            raise UsageError(
                f"{output} is in the input or output {source}, or contains it. Choose another path."
            )
        if source.parent == path.parent and source.name in names:
            raise UsageError(
                f"{source.name} would be overwritten, since {output.name} needs a file with this "
                "name next to it. Rename the file, or choose another output."
            )


def check_outside(folder: Path, inputs: Iterable[str | Path | None]) -> None:
    """Raise UsageError if an output folder, which will be replaced, is or contains an input."""
    output = real_path(folder)
    replaced = {as_path(f"{output}{end}") for end in ("", ".tmp", ".tmp.old")}
    for path in resolve_paths(map(optional_path, inputs)):
        if not replaced.isdisjoint((path, *path.parents)):
            raise UsageError(f"{folder} would replace the input {path}. Choose a different folder.")


def fingerprints(*paths: str | Path | None) -> Fingerprints:
    """Return the sizes and modification times of files and folders. Skip paths that are None."""
    return tuple(part for path in paths if path is not None for part in file_fingerprint(path))
