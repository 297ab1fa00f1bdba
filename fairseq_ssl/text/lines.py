"""Lines of plain or ``.gz`` files, read alone or side by side, and written.

A line ends at a newline and nowhere else, so that U+2028, a form feed or a carriage return
inside a line cannot shift one side of a parallel corpus against the other. Byte-order marks and
Windows line ends are removed by the rule of `line_ends`.
"""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import IO, TextIO, cast

from fairseq_ssl.errors import DataError
from fairseq_ssl.text.line_ends import unix_text


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 file without their newline."""
    with open_text(path) as file:
        yield from decoded_lines(file, str(path))


def decoded_lines(file: Iterable[bytes], name: str) -> Iterator[str]:
    """Yield the lines of an open UTF-8 file, which messages call `name`, without their newline."""
    for number, line in enumerate(file, 1):
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{name}:{number} is not valid UTF-8: byte {error.start + 1} of the line is "
                f"0x{line[error.start]:02x}. Convert the file to UTF-8."
            ) from None
        yield text.removesuffix("\n")


def stdin_lines() -> Iterator[str]:
    """Return the lines of stdin, which must be UTF-8, without their newline.

    The first one is read at once.
    """
    return decoded_lines(stdin_text(), "stdin")


def read_parallel(paths: Sequence[Path]) -> Iterator[tuple[str, ...]]:
    """Yield the lines of several files side by side; all must have equally many."""
    readers = [read_lines(path) for path in paths]
    for number, row in enumerate(zip_longest(*readers)):
        if None in row:
            ended = [path for path, line in zip(paths, row, strict=True) if line is None]
            longer = [path for path in paths if path not in ended]
            raise DataError(
                f"{ended[0]} ends after line {number}, but {longer[0]} goes on. Parallel files "
                "must have equally many lines."
            )
        yield row


def write_parallel(paths: Sequence[Path], rows: Iterable[Sequence[str]]) -> int:
    """Write each row's lines to the files they belong to; returns the number of rows."""
    count = 0
    with ExitStack() as stack:
        files = [stack.enter_context(line_writer(path)) for path in paths]
        for row in rows:
            for file, line in zip(files, row, strict=True):
                file.write(f"{line}\n")
            count += 1
    return count


@contextmanager
def line_writer(path: Path) -> Iterator[TextIO]:
    """Open a file for lines in UTF-8; equal lines give equal bytes, compressed ones too."""
    with ExitStack() as stack:
        file: IO[bytes] = stack.enter_context(path.open("wb"))
        if path.suffix == ".gz":  # without its usual name and time of writing
            packed = gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0)
            file = cast(IO[bytes], stack.enter_context(packed))
        yield stack.enter_context(io.TextIOWrapper(file, encoding="utf-8", newline="\n"))


def packed(data: bytes, compressed: bool) -> bytes:
    """Compress a piece of a file, if it is to be; such pieces can be joined as they are."""
    return gzip.compress(data, compresslevel=6, mtime=0) if compressed else data


@contextmanager
def open_text(path: Path) -> Iterator[IO[bytes]]:
    """Open a text for reading bytes, unpacked if it is a ``.gz``, by the rule of `line_ends`."""
    with open_bytes(path) as file:
        yield unix_text(file, str(path))


def stdin_text() -> IO[bytes]:
    """Return the bytes of stdin, by the rule of `line_ends`."""
    return unix_text(sys.stdin.buffer, "stdin")


@contextmanager
def open_bytes(path: Path, compressed: bool | None = None) -> Iterator[IO[bytes]]:
    """Open a file as it is, unpacked if it is a ``.gz``; errors become a `DataError`.

    Text of users is opened by `open_text`. With `compressed`, the name does not decide.
    """
    compressed = path.suffix == ".gz" if compressed is None else compressed
    try:
        with gzip.open(path) if compressed else path.open("rb") as file:
            yield cast(IO[bytes], file)
    except FileNotFoundError:
        raise DataError(f"{path} does not exist.") from None
    except IsADirectoryError:
        raise DataError(f"{path} is a folder. Expected a file.") from None
    except PermissionError:
        raise DataError(f"{path} can not be read: permission denied.") from None
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} can not be read: {error}. Copy it again.") from None
