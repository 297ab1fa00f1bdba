"""Two files of parallel lines, cut into blocks of whole lines that can be worked on apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from fairseq_ssl.errors import DataError
from fairseq_ssl.text.byte_blocks import LONGEST, byte_blocks
from fairseq_ssl.text.lines import open_bytes


@dataclass(frozen=True)
class PairBlock:
    """The same lines of both files."""

    paths: tuple[Path, Path]
    first: int
    """The number of the first of them, from 1."""
    data: tuple[bytes, bytes]
    share: float
    """How much of the first file is read, this block included."""

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield the lines side by side, without their newlines."""
        return zip(self._lines(0), self._lines(1), strict=True)

    def place(self, side: int, number: int) -> str:
        """Return file and line of the pair of that number in the block, from 0."""
        return f"{self.paths[side]}:{self.first + number}"

    def _lines(self, side: int) -> list[str]:
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


def pair_blocks(left: Path, right: Path) -> Iterator[PairBlock]:
    """Yield the blocks of two files, unpacked if .gz; both must have equally many lines."""
    first = 1
    with open_bytes(left) as file, open_bytes(right) as other:
        for block in byte_blocks(file):
            lines = block.data.removesuffix(b"\n").count(b"\n") + 1
            beside = [_line(other, right) for _ in range(lines)]
            if not beside[-1]:
                _unequal(right, first + beside.index(b"") - 1, left)
            data = block.data, b"".join(beside)
            yield PairBlock((left, right), first, data, _share(file, left))
            first += lines
        if _line(other, right):
            _unequal(left, first - 1, right)


def _line(file: IO[bytes], path: Path) -> bytes:
    line = file.readline(LONGEST)
    if len(line) == LONGEST:
        raise DataError(f"{path} has a line longer than {LONGEST} bytes. Is this text?")
    return line


def _unequal(ended: Path, lines: int, longer: Path) -> None:
    raise DataError(
        f"{ended} ends after line {lines}, but {longer} goes on. Parallel files must have equally "
        "many lines."
    )


def _share(file: Any, path: Path) -> float:
    """Tell how much of a file is read; of a packed one that is known well enough."""
    done = file.fileobj.tell() if path.suffix == ".gz" else file.tell()
    return min(float(done) / max(1, path.stat().st_size), 1.0)
