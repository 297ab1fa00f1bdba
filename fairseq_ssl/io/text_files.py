"""Paths, reading and writing of plain or gzip text files, and parsing of untrusted JSON.

Byte-order marks and Windows line ends are removed from all text.
"""

from __future__ import annotations

import codecs
import gzip
import io
import json
import logging
import re
import shutil
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from numbers import Real
from pathlib import Path
from typing import IO, Any, TextIO, TypeVar, cast

from fairseq_ssl.errors import DataError
from fairseq_ssl.signature import plain_number

OTHER_MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",  # before UTF-16, whose mark is a prefix of it
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
MAX_LINE_BYTES = 2**24
"""Max length of a line in bytes. A file with longer lines is probably not text."""
MAX_DOCUMENT_BYTES = 2**28
"""Max size in bytes of a JSON or YAML file, which is parsed as a whole."""
SURROGATE = re.compile("[\ud800-\udfff]")
BUFFER = 2**16
"""Buffer size of the conversion in bytes."""

Item = TypeVar("Item")
log = logging.getLogger(__name__)


def optional_path(path: str | Path | None) -> Path | None:
    """Return a path as a `Path` object, or None."""
    return None if path is None else Path(path)


def path_list(paths: Iterable[str | Path]) -> list[Path]:
    """Return paths as `Path` objects. Raise TypeError for a single path."""
    return list(map(Path, _several(paths)))


def convert_fields(config: object, paths: Iterable[str], lists: Iterable[str] = ()) -> None:
    """Convert fields of a frozen dataclass to `Path` objects. Paths can be None, also in lists.

    Fields that are numbers of numpy become numbers of Python, which fairseq's options need.

    Args:
        config: dataclass
        paths: names of fields that are paths
        lists: names of fields that are lists of paths, which become tuples
    """
    for name in paths:
        object.__setattr__(config, name, optional_path(getattr(config, name)))
    for name in lists:
        if (value := getattr(config, name)) is not None:
            object.__setattr__(config, name, tuple(map(optional_path, _several(value))))
    for name, value in list(vars(config).items()):
        if isinstance(value, Real):
            object.__setattr__(config, name, plain_number(value))


def check_strings(lines: Iterable[object], name: str) -> None:
    """Raise TypeError unless all lines are strings. `name` is the name of the text in messages."""
    for _ in checked_lines(lines, name):
        pass


def checked_lines(lines: Iterable[object], name: str) -> Iterator[str]:
    """Yield the lines of a text. Raise TypeError for a string, or other values."""
    if isinstance(lines, str):
        raise TypeError("Expected a list of lines, not a string.")
    try:
        iterator = iter(lines)
    except TypeError:
        raise TypeError(f"Expected a list of lines, not {lines!r}.") from None
    for number, line in enumerate(iterator, 1):
        if not isinstance(line, str):
            kind = type(line).__name__
            raise TypeError(f"Line {number} of {name} is {line!r}, a {kind}. Expected a string.")
        yield line


def line_list(lines: Iterable[str], name: str) -> list[str]:
    """Return `checked_lines` as a list."""
    return list(checked_lines(lines, name))


def checked_pairs(pairs: Iterable[object]) -> Iterator[tuple[str, str]]:
    """Yield pairs of lines. Raise TypeError for an item that is not a pair of strings."""
    for number, pair in enumerate(pairs, 1):
        sides = pair if isinstance(pair, tuple | list) else ()
        if len(sides) != 2 or not all(isinstance(side, str) for side in sides):
            raise TypeError(f"Pair {number} is {pair!r}. Expected two strings.")
        yield sides[0], sides[1]


def join_lines(lines: Iterable[str], name: str) -> str:
    """Return lines as the text of a file. Raise an error unless each of them is one line of text.

    Args:
        lines: the lines
        name: name of the text in messages
    """
    texts = line_list(lines, name)
    for number, line in enumerate(texts, 1):
        if "\n" in line:
            raise DataError(f"Line {number} contains a line end. Expected one sentence per line.")
    return "".join(f"{line}\n" for line in texts)


def _several(paths: Iterable[Item]) -> Iterable[Item]:
    if isinstance(paths, str | Path):
        raise TypeError(f"Expected a list of paths, not {paths!r}.")
    return paths


def unix_text(file: IO[bytes], name: str) -> IO[bytes]:
    """Remove a byte-order mark and Windows line ends while reading. Reject UTF-16 and UTF-32.

    Args:
        file: binary file at its beginning
        name: name of the file in messages

    Returns:
        The file if it needs no conversion and is seekable. Otherwise a reader of the converted
        text, with positions in it, which seeks forward only.
    """
    start = file.tell() if file.seekable() else None
    head = read_line(file, name)
    for mark, encoding in OTHER_MARKS.items():
        if head.startswith(mark):
            raise DataError(
                f"{name} begins with the byte-order mark of {encoding}. Expected UTF-8. Convert "
                f"it: iconv -f {encoding} -t UTF-8 FILE > NEW"
            )
    has_mark, is_windows = head.startswith(codecs.BOM_UTF8), head.endswith(b"\r\n")
    removed = ["a UTF-8 byte-order mark"] * has_mark + ["Windows line ends (CRLF)"] * is_windows
    if removed:
        log.warning("%s: removed %s", name, " and ".join(removed))
    elif start is not None:
        file.seek(start)
        return file
    conversion = _Conversion(file, head.removeprefix(codecs.BOM_UTF8), is_windows)
    # A subclass of BufferedReader would be slow to iterate over.
    return cast("IO[bytes]", io.BufferedReader(conversion, BUFFER))


def is_converted(file: Any) -> bool:
    """Return True if `unix_text` returned a reader instead of the file itself."""
    return isinstance(getattr(file, "raw", None), _Conversion)


def file_on_disk(file: Any) -> Any:
    """Return the file below a converted or compressed text, for its position on disk."""
    while isinstance(raw := getattr(file, "raw", None), _Conversion | _CheckedFile):
        file = raw.file
    return getattr(file, "fileobj", file)


class _Conversion(io.RawIOBase):
    """Reader of the rest of a text with Unix line ends. Each block is converted when it is read.

    Args:
        file: binary file, of which the first line has been read
        head: first line without a byte-order mark
        is_windows: replace CR LF by LF
    """

    def __init__(self, file: IO[bytes], head: bytes, is_windows: bool) -> None:
        super().__init__()
        self.file: Any = file
        self._is_windows = is_windows
        self._ready = self._convert(head)
        """Converted bytes that have not been read."""
        self._position = 0

    def readable(self) -> bool:
        """Return True, as `io.RawIOBase` requires."""
        return True

    def seekable(self) -> bool:
        """Return True, because the reader can seek forward."""
        return True

    def tell(self) -> int:
        """Return the position in the converted text."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Skip the converted text before an offset."""
        if whence != io.SEEK_SET or offset < self._position:
            raise io.UnsupportedOperation("A converted text can seek forward only.")
        while self._position < offset and self.read(min(BUFFER, offset - self._position)):
            pass
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Read up to `len(buffer)` bytes, 0 only at the end of the file."""
        if not self._ready:
            self._ready = self._convert(self.file.read1(len(buffer)))
        data, self._ready = self._ready[: len(buffer)], self._ready[len(buffer) :]
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def _convert(self, data: bytes) -> bytes:
        if not self._is_windows:
            return data
        if data.endswith(b"\r"):  # the next byte can be LF
            data += self.file.readline(MAX_LINE_BYTES)
        return data.replace(b"\r\n", b"\n")


def read_lines(path: str | Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 file without newlines, gzip if the name ends with ``.gz``."""
    with open_text(path) as file:
        yield from decoded_lines(file, str(path))


def utf8_error(place: str, data: bytes, start: int) -> DataError:
    """Return the error for the first byte that is not UTF-8.

    Args:
        place: ``FILE:LINE`` of the byte
        data: one or more lines
        start: position of the byte in `data`
    """
    line = data.rfind(b"\n", 0, start) + 1
    return DataError(
        f"{place} is not valid UTF-8: byte {start - line + 1} of the line is 0x{data[start]:02x}. "
        "Convert the file to UTF-8."
    )


def read_line(file: IO[bytes], name: str) -> bytes:
    """Read a line, with its newline. `name` is the name of the file in messages."""
    line = file.readline(MAX_LINE_BYTES)
    if len(line) == MAX_LINE_BYTES:
        raise DataError(
            f"{name} has a line longer than {MAX_LINE_BYTES} bytes. Expected a text file."
        )
    return line


def raw_lines(file: IO[bytes], name: str) -> Iterator[bytes]:
    """Yield the lines of a file with `read_line`."""
    while line := read_line(file, name):
        yield line


def decoded_lines(file: IO[bytes], name: str) -> Iterator[str]:
    """Decode lines as UTF-8, without newlines. `name` is the name of the file in messages."""
    for number, line in enumerate(raw_lines(file, name), 1):
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise utf8_error(f"{name}:{number}", line, error.start) from None
        yield text.removesuffix("\n")


def stdin_lines() -> Iterator[str]:
    """Return an iterator over the lines of stdin (UTF-8), without newlines.

    The call itself reads the first line, for the byte-order mark.
    """
    return decoded_lines(stdin_text(), "stdin")


def write_parallel(paths: Sequence[Path], rows: Iterable[Sequence[str]]) -> int:
    """Write the i-th item of each row to the i-th file. Return the number of rows."""
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
    """Open a UTF-8 text file for writing, gzip if the name ends with ``.gz``.

    Gzip files are reproducible: they have no file name and no time.
    """
    with ExitStack() as stack:
        file: IO[bytes] = stack.enter_context(path.open("wb"))
        if path.suffix == ".gz":
            packed = gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0)
            file = cast(IO[bytes], stack.enter_context(packed))
        yield stack.enter_context(io.TextIOWrapper(file, encoding="utf-8", newline="\n"))


COMPRESSED = (".gz",)


def compress_chunk(data: bytes, suffix: str) -> bytes:
    """Return the data, compressed for ``.gz``. Compressed chunks can be concatenated."""
    return gzip.compress(data, compresslevel=6, mtime=0) if suffix == ".gz" else data


@contextmanager
def open_text(path: str | Path) -> Iterator[IO[bytes]]:
    """Open a text file for reading bytes, gzip if the name ends with ``.gz``; see `unix_text`."""
    with open_bytes(path) as file:
        yield unix_text(file, str(path))


def stdin_text() -> IO[bytes]:
    """Return stdin as a binary file; see `unix_text`."""
    if sys.stdin is None:  # the caller has closed it
        raise DataError("stdin is closed. Name a file.")
    return unix_text(sys.stdin.buffer, "stdin")


@contextmanager
def open_bytes(path: str | Path, compressed: bool | None = None) -> Iterator[IO[bytes]]:
    """Open a file for reading bytes; see `open_text` for text. Convert errors to `DataError`.

    Args:
        path: file
        compressed: decompress with gzip (default: if the name ends with ``.gz``)
    """
    path = Path(path)
    compressed = path.suffix == ".gz" if compressed is None else compressed
    try:
        file = gzip.open(path) if compressed else path.open("rb", buffering=0)  # noqa: SIM115
    except OSError as error:
        raise DataError(_reading_error(error, path)) from None
    with file:
        yield cast("IO[bytes]", io.BufferedReader(_CheckedFile(file, path), BUFFER))


def require_file(path: str | Path, expected: str) -> None:
    """Raise DataError unless a path is a regular file. `expected` says what it should be."""
    path = Path(path)
    if not path.is_file():
        kind = "is a folder" if path.is_dir() else "is a device or a pipe"
        problem = kind if path.exists() else "does not exist"
        raise DataError(f"{path} {problem}. Expected {expected}.")


def read_document(path: str | Path) -> bytes:
    """Return the bytes of a file that is parsed as a whole, such as YAML."""
    with open_bytes(path) as file:
        parts = iter(lambda: file.read(2**20), b"")
        data = b"".join(islice(parts, MAX_DOCUMENT_BYTES // 2**20 + 1))
    if len(data) > MAX_DOCUMENT_BYTES:
        raise DataError(f"{path} has more than {MAX_DOCUMENT_BYTES} bytes. Expected less.")
    return data


def read_json(path: str | Path) -> Any:
    """Parse an untrusted JSON file; see `parse_json`. Raise DataError if it is not valid."""
    try:
        return parse_json(read_document(path))
    except ValueError as error:
        raise DataError(f"{path} is not JSON: {error}. Write or copy it again.") from None


class _CheckedFile(io.RawIOBase):
    """Reader that converts errors of its own file to `DataError`, not those of its caller."""

    def __init__(self, file: Any, path: Path) -> None:
        super().__init__()
        self.file, self._path = file, path
        self._read = getattr(file, "readinto1", file.readinto)  # at most one read of a pipe

    def readable(self) -> bool:
        """Return True, as `io.RawIOBase` requires."""
        return True

    def seekable(self) -> bool:
        """Return True if the file is seekable."""
        return bool(self.file.seekable())

    def tell(self) -> int:
        """Return the position in the decompressed file."""
        return int(self.file.tell())

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Seek in the decompressed file."""
        return self._call(self.file.seek, offset, whence)

    def readinto(self, buffer: Any) -> int:
        """Read up to `len(buffer)` bytes, 0 only at the end of the file."""
        return self._call(self._read, buffer)

    def _call(self, function: Callable[..., int], *values: Any) -> int:
        try:
            return function(*values)
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(_reading_error(error, self._path)) from None


def _reading_error(error: Exception, path: Path) -> str:
    if isinstance(error, FileNotFoundError):
        return f"{path} does not exist."
    if isinstance(error, IsADirectoryError):
        return f"{path} is a folder. Expected a file."
    if isinstance(error, PermissionError):
        return f"{path} cannot be read: permission denied."
    return f"{path} cannot be read: {error}. Copy the file again."


MAX_BITS = 1000
"""Max number of bits of an integer in JSON, so that it can be converted to a float."""


def json_text(content: Any, indent: int | None = 2) -> str:
    r"""Return JSON that `parse_json` accepts, even if file names in it are not UTF-8.

    Numbers can be numpy's, such as a seed from an array.
    A byte of a name that is not UTF-8, such as E9, becomes the text ``\udce9`` with a backslash.
    """
    dumped = json.dumps(content, indent=indent, ensure_ascii=False, default=plain_number)
    text = decode_file_name(dumped)
    return SURROGATE.sub(lambda match: f"\\\\u{ord(match[0]):x}", text)


def decode_file_name(name: str) -> str:
    """Decode surrogate escapes that are valid UTF-8. They occur if the locale is not UTF-8."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")


def parse_json(text: str | bytes) -> Any:
    """Parse untrusted JSON.

    Raise ValueError for invalid JSON, deep nesting, integers that are too large for a float, and
    lone surrogates, which cannot be encoded as UTF-8.
    """
    text = text if isinstance(text, str) else text.decode("utf-8-sig")
    try:
        content = json.loads(text, parse_int=_integer)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if "\\ud" in text.lower():
        json.dumps(content, ensure_ascii=False).encode("utf-8")
    return content


def _integer(digits: str) -> int:
    number = int(digits)
    if number.bit_length() > MAX_BITS:
        raise ValueError("it has an integer that is too large")
    return number


# interim, until the branch remote is merged


def text_files(path: Path) -> list[Path]:
    """Return the files of a text."""
    if not path.is_dir():
        return [path]
    if (path / "_job").is_dir() and not (path / "manifest.json").exists():
        raise DataError(f"{path} is not complete. Run the job that writes it again.")
    return sorted(path.glob("part-*"))


def is_remote(path: Path) -> bool:
    """Return True for a path of a store."""
    return False


def as_path(path: str | Path) -> Path:
    """Return a path."""
    return Path(path)


def upload(local: Path, target: Path) -> None:
    """Rename a file."""
    local.replace(target)


def delete_folder(path: Path) -> None:
    """Delete a folder."""
    shutil.rmtree(path, ignore_errors=True)
