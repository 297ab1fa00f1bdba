"""Reading of files in blocks of lines, and of parallel files by line."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path
from typing import IO, Any

from fairseq_ssl.errors import DataError
from fairseq_ssl.io.remote import as_path
from fairseq_ssl.io.text_files import file_on_disk, open_text, read_line, read_lines, utf8_error

BLOCK_SIZE = 2**18
"""Block size in bytes. Arrays of larger blocks do not fit into CPU caches."""


@dataclass(frozen=True)
class ByteBlock:
    """The lines that begin between the bytes number * size and (number + 1) * size of a file.

    All readers of a file therefore get the same blocks, and each line is in one block.
    """

    number: int
    start: int
    """Offset of the first line, in bytes."""
    data: bytes

    @property
    def end(self) -> int:
        """Offset after the block, in bytes."""
        return self.start + len(self.data)


def byte_blocks(
    file: IO[bytes],
    position: int = 0,
    end: int | None = None,
    size: int | None = None,
    name: str = "The text",
) -> Iterator[ByteBlock]:
    """Yield the blocks of an open file.

    Args:
        file: binary file
        position: current offset of the file, the start of a line
        end: offset to stop at, the start of a line (default: end of the file)
        size: block size in bytes (default: `BLOCK_SIZE`)
        name: name of the file in messages
    """
    size = size or BLOCK_SIZE
    while end is None or position < end:
        number = position // size
        stop = (number + 1) * size
        data = file.read((stop if end is None else min(stop, end)) - position)
        if data and not data.endswith(b"\n"):
            data += read_line(file, name)
        if not data:
            return
        yield ByteBlock(number, position, data)
        position += len(data)


def block_lines(block: ByteBlock, path: Path | None) -> list[str]:
    """Decode the lines of a block of a file (None: stdin). Raise DataError for invalid UTF-8."""
    try:
        return block.data.removesuffix(b"\n").decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        place = line_place(block, path, block.data.count(b"\n", 0, error.start))
        raise utf8_error(place, block.data, error.start) from None


def line_place(block: ByteBlock, path: Path | None, index: int) -> str:
    """Return ``FILE:LINE`` of the line with an index in a block of a file (None: stdin).

    In a later block of a pipe, which cannot be read again, the number is that in the block.
    """
    number = 1 + index
    if path is None or not path.is_file():
        return f"{path or 'stdin'}:{number}{f', after byte {block.start}' if block.start else ''}"
    with open_text(path) as file:
        number += sum(before.data.count(b"\n") for before in byte_blocks(file, 0, block.start))
    return f"{path}:{number}"


def seek_block(file: IO[bytes], number: int, size: int | None = None) -> int:
    """Seek to the first line that begins in block `number` or later. Return its offset."""
    if number == 0:
        return 0
    file.seek(number * (size or BLOCK_SIZE) - 1)
    file.readline()
    return file.tell()


def shard_bounds(total: int, shard: int, shards: int, size: int | None = None) -> tuple[int, int]:
    """Return the index of the first block of a shard, and of the first block of the next shard.

    Args:
        total: file size in bytes
        shard: index of the shard, from 1
        shards: number of shards
        size: block size in bytes (default: `BLOCK_SIZE`)
    """
    blocks = -(-total // (size or BLOCK_SIZE))
    return blocks * (shard - 1) // shards, blocks * shard // shards


@dataclass(frozen=True)
class RowBlock:
    """A block of lines of one or more parallel files. `side` is the index of a file."""

    names: tuple[str, ...]
    """Names of the files in messages."""
    first: int
    """Line number of the first line, from 1."""
    data: tuple[bytes, ...]
    """Bytes of the lines of each side."""
    ends: tuple[int, ...]
    """Offset after the block in each file, in bytes."""
    share: float
    """Share of the first file, from the first block, that is read after this block, 0 to 1; 0 if
    unknown."""

    @property
    def count(self) -> int:
        """Number of lines per side."""
        return self.data[0].removesuffix(b"\n").count(b"\n") + 1

    def place(self, side: int, number: int) -> str:
        """Return ``FILE:LINE`` of a row, where `number` is its index in the block."""
        return f"{self.names[side]}:{self.first + number}"

    def raw_lines(self, side: int) -> list[bytes]:
        """Return the lines of a side as bytes, without newlines."""
        return self.data[side].removesuffix(b"\n").split(b"\n")

    def lines(self, side: int) -> list[str]:
        """Decode the lines of a side, without newlines. Raise DataError for invalid UTF-8."""
        return self.text(side).split("\n")

    def text(self, side: int) -> str:
        """Decode a side, without the last newline. Raise DataError for invalid UTF-8."""
        data = self.data[side].removesuffix(b"\n")
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            place = self.place(side, data.count(b"\n", 0, error.start))
            raise utf8_error(place, data, error.start) from None

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield pairs of a line of the first file and a line of the second one."""
        return zip(self.lines(0), self.lines(1), strict=True)


def row_blocks(
    files: Sequence[IO[bytes]],
    names: Sequence[str],
    starts: Sequence[int] | None = None,
    first: int = 1,
    size: int | None = None,
) -> Iterator[RowBlock]:
    """Yield the blocks of open parallel files.

    Raise DataError if the files have different numbers of lines.

    Args:
        files: binary files
        names: names of the files in messages
        starts: offset in the decompressed text of each file to start at (default: 0)
        first: line number at these offsets, from 1
        size: block size of the first file in bytes (default: `BLOCK_SIZE`)
    """
    ends = list(starts or [0] * len(files))
    for file, start in zip(files, ends, strict=True):
        if start:
            file.seek(start)
    begun = share_read(files[0]) if ends[0] else 0.0
    for block in byte_blocks(files[0], ends[0], None, size, names[0]):
        count = block.data.removesuffix(b"\n").count(b"\n") + 1
        data = [block.data]
        for file, name in zip(files[1:], names[1:], strict=True):
            lines = [read_line(file, name) for _ in range(count)]
            if not lines[-1]:
                raise unequal_lines(name, first + lines.index(b"") - 1, names[0])
            data.append(b"".join(lines))
        ends = [end + len(lines) for end, lines in zip(ends, data, strict=True)]
        yield RowBlock(tuple(names), first, tuple(data), tuple(ends), share_read(files[0], begun))
        first += count
    for file, name in zip(files[1:], names[1:], strict=True):
        if read_line(file, name):
            raise unequal_lines(names[0], first - 1, name)


def share_read(file: Any, begun: float = 0.0) -> float:
    """Return the share of a file that has been read, 0 to 1; 0 if unknown.

    The share of a compressed file is approximate.

    Args:
        file: binary file
        begun: share of the file before the first block, which does not count
    """
    raw = file_on_disk(file)
    try:
        status = os.fstat(raw.fileno())
    except OSError:  # an in-memory file
        return 0.0
    if not stat.S_ISREG(status.st_mode):
        return 0.0
    share = min(float(raw.tell()) / max(1, status.st_size), 1.0)
    return share if begun >= 1 else max(share - begun, 0.0) / (1 - begun)


def pair_blocks(left: str | Path, right: str | Path) -> Iterator[RowBlock]:
    """Yield the blocks of two parallel files, gzip if the name ends with ``.gz``."""
    with open_text(left) as file, open_text(right) as other:
        yield from row_blocks((file, other), (str(left), str(right)))


def read_parallel(paths: Sequence[str | Path]) -> Iterator[tuple[str, ...]]:
    """Yield one tuple of lines per line number. Raise DataError if a file has fewer lines."""
    readers = [read_lines(path) for path in paths]
    for number, row in enumerate(zip_longest(*readers)):
        if None in row:
            ended = [path for path, line in zip(paths, row, strict=True) if line is None]
            longer = [path for path in paths if path not in ended]
            raise unequal_lines(ended[0], number, longer[0])
        yield row


def unequal_lines(ended: str | Path, lines: int, longer: str | Path) -> DataError:
    """Return the error of parallel files of which one ends after `lines` lines."""
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
