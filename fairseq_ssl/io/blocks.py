"""Large files in blocks of whole lines: of one file, or of the same lines of several."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from fairseq_ssl.errors import DataError
from fairseq_ssl.io.text_files import MAX_LINE_BYTES, file_on_disk, open_text

BLOCK_SIZE = 2**18
"""Bytes from the start of one block to that of the next; with more, arrays outgrow caches."""


@dataclass(frozen=True)
class ByteBlock:
    """The lines that begin in the bytes from number * size to (number + 1) * size of a text.

    So a text has the same blocks for every reader, and no line is in two of them.
    """

    number: int
    start: int
    """Byte at which its first line begins."""
    data: bytes

    @property
    def end(self) -> int:
        """Byte after its last."""
        return self.start + len(self.data)


def byte_blocks(
    file: IO[bytes], position: int = 0, end: int | None = None, size: int | None = None
) -> Iterator[ByteBlock]:
    """Yield the blocks of a file that is at `position`, a line's beginning, until byte `end`."""
    size = size or BLOCK_SIZE
    while end is None or position < end:
        number = position // size
        data = file.read((number + 1) * size - position)
        if data and not data.endswith(b"\n"):
            rest = file.readline(MAX_LINE_BYTES)
            if len(rest) == MAX_LINE_BYTES:
                raise DataError(
                    f"A line around byte {position} is longer than {MAX_LINE_BYTES} bytes. "
                    "Is this text?"
                )
            data += rest
        if not data:
            return
        yield ByteBlock(number, position, data)
        position += len(data)


def read_block(path: Path, number: int) -> ByteBlock | None:
    """Return block `number` of a file; None where no line begins in its bytes."""
    with path.open("rb") as file:
        start = seek_block(file, number)
        if start >= (number + 1) * BLOCK_SIZE:
            return None
        return next(byte_blocks(file, start), None)


def seek_block(file: IO[bytes], number: int, size: int | None = None) -> int:
    """Go to the first line that begins in block `number` or later; returns its byte."""
    if number == 0:
        return 0
    file.seek(number * (size or BLOCK_SIZE) - 1)
    file.readline()
    return file.tell()


def shard_bounds(total: int, shard: int, shards: int, size: int | None = None) -> tuple[int, int]:
    """Return the first block of a shard, counted from 1, and the first of the next."""
    blocks = -(-total // (size or BLOCK_SIZE))
    return blocks * (shard - 1) // shards, blocks * shard // shards


@dataclass(frozen=True)
class RowBlock:
    """The same lines of all files, which are its sides."""

    names: tuple[str, ...]
    """What messages call the files."""
    first: int
    """The number of the first of the lines, from 1."""
    data: tuple[bytes, ...]
    ends: tuple[int, ...]
    """The byte after its last, in each file."""
    share: float
    """How much of the first file is read, this block included; 0 where that is unknown."""

    @property
    def count(self) -> int:
        """How many lines each side has."""
        return self.data[0].removesuffix(b"\n").count(b"\n") + 1

    def place(self, side: int, number: int) -> str:
        """Return file and line of the row of that number in the block, from 0."""
        return f"{self.names[side]}:{self.first + number}"

    def raw_lines(self, side: int) -> list[bytes]:
        """Return the lines of a side as they are in the file, without their newlines."""
        return self.data[side].removesuffix(b"\n").split(b"\n")

    def lines(self, side: int) -> list[str]:
        """Return the lines of a side, which must be UTF-8, without their newlines."""
        data = self.data[side].removesuffix(b"\n")
        try:
            return data.decode("utf-8").split("\n")
        except UnicodeDecodeError as error:
            number = data.count(b"\n", 0, error.start)
            line = data.rfind(b"\n", 0, error.start) + 1
            raise DataError(
                f"{self.place(side, number)} is not valid UTF-8: byte {error.start - line + 1} of "
                f"the line is 0x{data[error.start]:02x}. Convert the file to UTF-8."
            ) from None


def row_blocks(
    files: Sequence[IO[bytes]],
    names: Sequence[str],
    starts: Sequence[int] | None = None,
    first: int = 1,
    size: int | None = None,
) -> Iterator[RowBlock]:
    """Yield the blocks of open files; all must have equally many lines.

    `starts` are the bytes, unpacked, that the files are to be entered at, and `first` is the
    number of the line that begins there. `size` is that of the first file's blocks in bytes.
    """
    ends = list(starts or [0] * len(files))
    for file, start in zip(files, ends, strict=True):
        if start:
            file.seek(start)
    for block in byte_blocks(files[0], ends[0], None, size):
        count = block.data.removesuffix(b"\n").count(b"\n") + 1
        data = [block.data]
        for file, name in zip(files[1:], names[1:], strict=True):
            lines = [_line(file, name) for _ in range(count)]
            if not lines[-1]:
                raise _unequal(name, first + lines.index(b"") - 1, names[0])
            data.append(b"".join(lines))
        ends = [end + len(piece) for end, piece in zip(ends, data, strict=True)]
        yield RowBlock(tuple(names), first, tuple(data), tuple(ends), share_read(files[0]))
        first += count
    for file, name in zip(files[1:], names[1:], strict=True):
        if _line(file, name):
            raise _unequal(names[0], first - 1, name)


def _line(file: IO[bytes], name: str) -> bytes:
    line = file.readline(MAX_LINE_BYTES)
    if len(line) == MAX_LINE_BYTES:
        raise DataError(f"{name} has a line longer than {MAX_LINE_BYTES} bytes. Is this text?")
    return line


def _unequal(ended: str, lines: int, longer: str) -> DataError:
    return DataError(
        f"{ended} ends after line {lines}, but {longer} goes on. Parallel files must have equally "
        "many lines."
    )


def share_read(file: Any) -> float:
    """Return the share of a file that is read, roughly for a compressed one; 0 if unknown."""
    raw = file_on_disk(file)
    try:
        status = os.fstat(raw.fileno())
    except OSError:  # a file in memory
        return 0.0
    if not stat.S_ISREG(status.st_mode):
        return 0.0
    return min(float(raw.tell()) / max(1, status.st_size), 1.0)


@dataclass(frozen=True)
class PairBlock(RowBlock):
    """The same lines of both files."""

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield the lines side by side, without their newlines."""
        return zip(self.lines(0), self.lines(1), strict=True)


def pair_blocks(left: Path, right: Path) -> Iterator[PairBlock]:
    """Yield the blocks of two files, unpacked if .gz; both must have equally many lines."""
    with open_text(left) as file, open_text(right) as other:
        for block in row_blocks((file, other), (str(left), str(right))):
            yield PairBlock(block.names, block.first, block.data, block.ends, block.share)
