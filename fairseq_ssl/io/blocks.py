"""Readers of files in blocks of lines, and of parallel files line by line."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import islice, zip_longest
from pathlib import Path
from typing import IO, Any

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.io.outputs import is_device
from fairseq_ssl.io.remote import as_path
from fairseq_ssl.io.text_files import (
    COMPRESSIONS,
    file_on_disk,
    is_converted,
    open_text,
    raw_lines,
    read_line,
    read_lines,
    stdin_text,
    utf8_error,
)

BLOCK_SIZE = 2**18
"""Default block size in bytes. Arrays of larger blocks do not fit into CPU caches."""


@dataclass(frozen=True)
class Span:
    """All lines, or the lines between two offsets, in a file or in parallel files.

    A line of the first file is in the span if it begins at or after `starts[0]` and before `end`.
    """

    paths: tuple[Path | None, ...]
    """File of each side, or None for stdin and for a text in memory."""
    file: int = 0
    """Index of the file in a text that consists of several files."""
    starts: tuple[int, ...] = ()
    """Start offset in each decompressed file, in bytes (default: 0).

    In parallel files, each offset is the start of a line.
    """
    end: int | None = None
    """End offset in the first file: a multiple of the block size or the start of a line.

    None means the end of the file.
    """
    before: int | None = 0
    """Number of lines before the span in each file, or None if unknown."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the files, for messages."""
        return tuple("stdin" if path is None else str(path) for path in self.paths)


@dataclass(frozen=True)
class Block:
    """Lines of a span whose offsets in the first file are between two multiples of the block size.

    All readers of a file therefore get the same blocks, and each line is in exactly one block. In
    the methods, `side` is the index of one of the parallel files.
    """

    span: Span
    number: int
    """Index of the block in the first file."""
    starts: tuple[int, ...]
    """Offset of the first line in each file, in bytes."""
    data: tuple[bytes, ...]
    """Lines of each side, as bytes."""
    first: int = 0
    """Number of lines before the block in the span."""
    fraction: float = 0.0
    """Fraction of the span that has been read at the end of the block, 0 to 1; 0 if unknown."""

    @property
    def ends(self) -> tuple[int, ...]:
        """End offset of the block in each file, in bytes."""
        return tuple(start + len(data) for start, data in zip(self.starts, self.data, strict=True))

    @property
    def seeds(self) -> tuple[int, int]:
        """Block index and file index, which seed the random numbers of a block."""
        return self.number, self.span.file

    @property
    def count(self) -> int:
        """Number of lines per side."""
        return self.data[0].removesuffix(b"\n").count(b"\n") + 1

    def place(self, index: int, side: int = 0) -> str:
        """Return ``FILE:LINE`` for the line with the index `index` in the block, from 0."""
        path, start, before = self.span.paths[side], self.starts[side], self.span.before
        number = 1 + index
        if before is not None:
            number += before + self.first
        elif path is not None:
            with open_text(path) as file:
                blocks = iter(lambda: file.read(min(BLOCK_SIZE, start - file.tell())), b"")
                number += sum(data.count(b"\n") for data in blocks)
        return f"{self.span.names[side]}:{number}"

    def raw_lines(self, side: int = 0) -> list[bytes]:
        """Return the lines of a side as bytes, without newlines."""
        return self.data[side].removesuffix(b"\n").split(b"\n")

    def lines(self, side: int = 0) -> list[str]:
        """Return the lines of a side, without newlines. Raise DataError for invalid UTF-8."""
        return self.text(side).split("\n")

    def text(self, side: int = 0) -> str:
        """Return a side as text, without the last newline. Raise DataError for invalid UTF-8."""
        data = self.data[side].removesuffix(b"\n")
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            place = self.place(data.count(b"\n", 0, error.start), side)
            raise utf8_error(place, data, error.start) from None

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield pairs of lines from the first and the second file."""
        return zip(self.lines(0), self.lines(1), strict=True)


def span_blocks(span: Span, size: int | None = None) -> Iterator[Block]:
    """Yield the blocks of a span. Raise DataError if its files have different numbers of lines.

    Args:
        span: files and offsets
        size: block size of the first file in bytes (default: `BLOCK_SIZE`)
    """
    with ExitStack() as stack:
        files = [
            stdin_text() if path is None else stack.enter_context(open_text(path))
            for path in span.paths
        ]
        yield from read_blocks(files, span, size)


def file_blocks(*paths: str | Path, size: int | None = None) -> Iterator[Block]:
    """Yield the blocks of a file, or of parallel files."""
    return span_blocks(Span(tuple(map(as_path, paths))), size)


def memory_blocks(data: bytes, size: int | None = None) -> Iterator[Block]:
    """Yield the blocks of a text in memory."""
    return read_blocks([io.BytesIO(data)], Span((None,)), size)


def read_blocks(files: Sequence[IO[bytes]], span: Span, size: int | None = None) -> Iterator[Block]:
    """Yield the blocks of a span whose files are open; see `span_blocks`."""
    size = size or BLOCK_SIZE
    starts = span.starts or (0,) * len(files)
    positions = tuple(seek_line(file, start) for file, start in zip(files, starts, strict=True))
    begun = fraction_read(files[0]) if positions[0] else 0.0
    lines = 0
    while span.end is None or positions[0] < span.end:
        number = positions[0] // size
        stop = (number + 1) * size if span.end is None else min((number + 1) * size, span.end)
        data = files[0].read(stop - positions[0])
        if data and not data.endswith(b"\n"):
            data += read_line(files[0], span.names[0])
        if not data:
            break
        count, sides = data.count(b"\n") + (not data.endswith(b"\n")), [data]
        for side in range(1, len(files)):
            rows = list(islice(raw_lines(files[side], span.names[side]), count))
            if len(rows) < count:
                raise _unequal(span, lines + len(rows), side, 0)
            sides.append(b"".join(rows))
        fraction = fraction_read(files[0], begun)
        if span.end is not None:
            fraction = min(1.0, (positions[0] + len(data) - starts[0]) / (span.end - starts[0]))
        block = Block(span, number, positions, tuple(sides), lines, fraction)
        yield block
        positions, lines = block.ends, lines + count
    for side in range(1, len(files) if span.end is None else 0):
        if read_line(files[side], span.names[side]):
            raise _unequal(span, lines, 0, side)


def _unequal(span: Span, lines: int, ended: int, longer: int) -> DataError:
    total = (span.before or 0) + lines
    return unequal_lines(span.names[ended], total, span.names[longer])


def seek_line(file: IO[bytes], position: int) -> int:
    """Seek to the first line that begins at or after a position. Return its offset."""
    if position == 0:
        return 0
    file.seek(position - 1)
    file.readline()
    return file.tell()


def fraction_read(file: Any, begun: float = 0.0) -> float:
    """Return the fraction of a file that has been read, 0 to 1; 0 if unknown.

    The fraction of a compressed file is approximate.

    Args:
        file: binary file
        begun: fraction of the file before the span; the result is a fraction of the remaining file
    """
    raw = file_on_disk(file)
    try:
        status = os.fstat(raw.fileno())
    except (OSError, AttributeError):  # not a file of this machine
        return 0.0
    if not stat.S_ISREG(status.st_mode):
        return 0.0
    fraction = min(float(raw.tell()) / max(1, status.st_size), 1.0)
    return fraction if begun >= 1 else max(fraction - begun, 0.0) / (1 - begun)


def split_files(span: Span, part: int, size: int | None = None) -> list[Span]:
    """Split the files of a span into spans of about `part` bytes of the first file.

    A single file is split without reading it. Parallel files are read to align their lines. Stdin,
    devices, compressed files and files that `unix_text` converts are not split.

    Args:
        span: span that contains whole files
        part: size of a span in bytes, rounded down to a multiple of the block size
        size: block size in bytes (default: `BLOCK_SIZE`)
    """
    size = size or BLOCK_SIZE
    part = max(part // size, 1) * size
    paths = [path for path in span.paths if path is not None and is_splittable(path)]
    if len(paths) < len(span.paths):
        return [span]
    if len(paths) == 1:
        bounds = range(0, max(paths[0].stat().st_size, 1), part)
        starts: list[tuple[int, ...]] = [(bound,) for bound in bounds]
        numbers: list[int | None] = [0, *(None for _ in starts[1:])]
    else:
        starts, numbers, last = [(0,) * len(paths)], [0], 0
        for block in span_blocks(span, size):
            if (index := block.starts[0] // part) > last:
                starts.append(block.starts)
                numbers.append(block.first)
                last = index
    ends = [*(offsets[0] for offsets in starts[1:]), None]
    return [
        Span(span.paths, span.file, offsets, end, before)
        for offsets, end, before in zip(starts, ends, numbers, strict=True)
    ]


def read_parallel(paths: Sequence[str | Path]) -> Iterator[tuple[str, ...]]:
    """Yield the aligned lines of parallel files. Raise DataError if a file has fewer lines."""
    readers = [read_lines(path) for path in paths]
    for number, row in enumerate(zip_longest(*readers)):
        if None in row:
            ended = [path for path, line in zip(paths, row, strict=True) if line is None]
            longer = [path for path in paths if path not in ended]
            raise unequal_lines(ended[0], number, longer[0])
        yield row


def unequal_lines(ended: str | Path, lines: int, longer: str | Path) -> DataError:
    """Return the error for the parallel file `ended`, which has fewer lines than `longer`."""
    return DataError(
        f"{ended} ends after line {lines}, but {longer} has more lines. Both must have the same "
        f"number of lines.{m2_hint(ended, longer)}"
    )


def m2_hint(*paths: str | Path) -> str:
    """Return a hint to convert the first M2 file among `paths`, or an empty string."""
    for path in paths:
        if as_path(path).is_file():  # a pipe cannot be read again
            with open_text(path) as file:
                head = list(islice(file, 1000))
            if head and head[0].startswith(b"S ") and any(line.startswith(b"A ") for line in head):
                return f" {path} is an M2 file. Convert it with: fairseq-ssl m2 to-text"
    return ""


def line_rows(path: str | Path, shard: tuple[int, int] = (1, 1)) -> Iterator[dict[str, Any]]:
    """Yield the lines of a text file as rows for an engine such as Ray Data.

    A row contains the line (`text`), the index of its block (`block`) and its index in the block
    (`line`), which are the arguments of `noise.LineNoise`.

    Args:
        path: text file
        shard: index of the shard to read, from 1, and number of shards. Compressed files and files
            with Windows line endings cannot be split into shards.
    """
    span = Span((as_path(path),))
    if shard != (1, 1):
        if not is_splittable(as_path(path)):
            raise UsageError(
                f"{path} cannot be split into shards. Expected a single uncompressed file with "
                "Unix line endings and without a byte-order mark."
            )
        parts = split_files(span, 1)
        first, after = (len(parts) * number // shard[1] for number in (shard[0] - 1, shard[0]))
        if first == after:
            return
        span = replace(parts[first], end=parts[after - 1].end)
    for block in span_blocks(span):
        for line, text in enumerate(block.lines()):
            yield {"text": text, "block": block.number, "line": line}


def is_splittable(path: Path) -> bool:
    """Return True for an uncompressed regular file that needs no conversion by `unix_text`."""
    if path.suffix in COMPRESSIONS or is_device(path):
        return False
    with open_text(path) as file:
        return not is_converted(file)
