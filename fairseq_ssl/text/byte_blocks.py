"""A large text cut into blocks of whole lines, wherever one begins to read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from fairseq_ssl.errors import DataError

SIZE = 2**18
"""Bytes from the start of one block to that of the next; with more, arrays outgrow caches."""
LONGEST = 2**24
"""Bytes a line may have; more is a sign that the file is none of text."""


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
    size = size or SIZE
    while end is None or position < end:
        number = position // size
        data = file.read((number + 1) * size - position)
        if data and not data.endswith(b"\n"):
            rest = file.readline(LONGEST)
            if len(rest) == LONGEST:
                raise DataError(
                    f"A line around byte {position} is longer than {LONGEST} bytes. Is this text?"
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
        if start >= (number + 1) * SIZE:
            return None
        return next(byte_blocks(file, start), None)


def seek_block(file: IO[bytes], number: int, size: int | None = None) -> int:
    """Go to the first line that begins in block `number` or later; returns its byte."""
    if number == 0:
        return 0
    file.seek(number * (size or SIZE) - 1)
    file.readline()
    return file.tell()


def bounds(total: int, shard: int, shards: int, size: int | None = None) -> tuple[int, int]:
    """Return the first block of a shard, counted from 1, and the first of the next."""
    blocks = -(-total // (size or SIZE))
    return blocks * (shard - 1) // shards, blocks * shard // shards
