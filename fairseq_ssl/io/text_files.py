"""Functions that read and write plain or compressed texts and parse untrusted JSON.

A text is a file, a glob, or a folder of parts, local or in an object store; see `text_files`.
UTF-8 byte-order marks are removed, and Windows line endings are converted to LF.
"""

from __future__ import annotations

import codecs
import gzip
import io
import json
import logging
import re
import stat
import sys
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from itertools import islice
from numbers import Real
from pathlib import Path
from typing import IO, Any, NamedTuple, TextIO, TypeVar, cast

from fairseq_ssl.errors import DataError, import_optional
from fairseq_ssl.io.remote import CheckedFile, as_path, list_entries
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
"""Buffer size of readers in bytes."""
ZSTD_INPUT = 2**12
"""Chunk size for reading .zst files in bytes. A chunk decompresses to at most 2**27 bytes."""
MANIFEST = "manifest.json"
"""Name of the file that lists the parts of a complete folder."""
JOB = "_job"
"""Name of the subfolder with the plan and the part records of an unfinished folder."""
WILDCARD = re.compile("[*?[]")

Item = TypeVar("Item")
ByteChunks = Generator[bytes, None, None]
log = logging.getLogger(__name__)


def optional_path(path: str | Path | None) -> Path | None:
    """Convert a path to a `Path` object. Return None for None."""
    return None if path is None else as_path(path)


def path_list(paths: Iterable[str | Path]) -> list[Path]:
    """Return paths as `Path` objects. Raise TypeError for a single path."""
    return list(map(as_path, _several(paths)))


def convert_fields(config: object, paths: Iterable[str], lists: Iterable[str] = ()) -> None:
    """Convert fields of a frozen dataclass to `Path` objects. Paths can be None, even in lists.

    numpy numbers become Python numbers, which fairseq's options require.

    Args:
        config: dataclass instance, which is modified in place
        paths: names of the fields that are paths
        lists: names of the fields that are lists of paths, which become tuples
    """
    for name in paths:
        object.__setattr__(config, name, optional_path(getattr(config, name)))
    for name in lists:
        if (value := getattr(config, name)) is not None:
            object.__setattr__(config, name, tuple(map(optional_path, _several(value))))
    for name, value in list(vars(config).items()):
        if isinstance(value, Real):
            object.__setattr__(config, name, plain_number(value))


def checked_lines(lines: Iterable[object], name: str) -> Iterator[str]:
    """Yield the lines of a text. Raise TypeError unless `lines` is an iterable of strings."""
    if isinstance(lines, str):
        raise TypeError(f"Expected a list of lines for {name}, not a string.")
    try:
        iterator = iter(lines)
    except TypeError:
        raise TypeError(f"Expected a list of lines for {name}, not {lines!r}.") from None
    for number, line in enumerate(iterator, 1):
        if not isinstance(line, str):
            kind = type(line).__name__
            raise TypeError(
                f"Line {number} of {name} is {line!r}, of type {kind}. Expected a string."
            )
        yield line


def line_list(lines: Iterable[str], name: str) -> list[str]:
    """Return the lines of a text as a list; see `checked_lines`."""
    return list(checked_lines(lines, name))


def checked_pairs(pairs: Iterable[object]) -> Iterator[tuple[str, str]]:
    """Yield pairs of lines. Raise TypeError for an item that is not a pair of strings."""
    for number, pair in enumerate(pairs, 1):
        sides = pair if isinstance(pair, tuple | list) else ()
        if len(sides) != 2 or not all(isinstance(side, str) for side in sides):
            raise TypeError(f"Pair {number} is {pair!r}. Expected two strings.")
        yield sides[0], sides[1]


def join_lines(lines: Iterable[str], name: str) -> str:
    """Join lines into one text, with a newline after each line.

    Args:
        lines: strings without newlines; others raise TypeError or DataError
        name: name of the text in messages
    """
    texts = line_list(lines, name)
    for number, line in enumerate(texts, 1):
        if "\n" in line:
            raise DataError(
                f"Line {number} of {name} contains a line break. Expected one sentence per line."
            )
    return "".join(f"{line}\n" for line in texts)


def _several(paths: Iterable[Item]) -> Iterable[Item]:
    if isinstance(paths, str | Path):
        raise TypeError(f"Expected a list of paths, not {paths!r}.")
    return paths


def unix_text(file: IO[bytes], name: str) -> IO[bytes]:
    """Remove a byte-order mark and, if the first line ends with CRLF, convert CRLF to LF.

    Args:
        file: binary file at its beginning; UTF-16 and UTF-32 raise DataError
        name: name of the file in messages

    Returns:
        The file itself if it is seekable and needs no conversion, or a reader of the converted
        text. The reader seeks forward only, and its positions refer to the converted text.
    """
    start = file.tell() if file.seekable() else None
    head = read_line(file, name)
    for mark, encoding in OTHER_MARKS.items():
        if head.startswith(mark):
            raise DataError(
                f"{name} begins with a {encoding} byte-order mark. Expected UTF-8. Convert the "
                f"file with: iconv -f {encoding} -t UTF-8 FILE > NEW"
            )
    has_mark, is_windows = head.startswith(codecs.BOM_UTF8), head.endswith(b"\r\n")
    removed = ["a UTF-8 byte-order mark"] * has_mark + ["Windows line endings (CRLF)"] * is_windows
    if removed:
        log.warning("%s: removed %s", name, " and ".join(removed))
    elif start is not None:
        file.seek(start)
        return file
    chunks = _converted_chunks(file, head.removeprefix(codecs.BOM_UTF8), is_windows)
    return _buffered(_ChunkReader(chunks, file))


def _converted_chunks(file: Any, data: bytes, is_windows: bool) -> ByteChunks:
    """Yield the first line, `data`, and the rest of a file. Convert CRLF to LF if `is_windows`."""
    while data:
        if is_windows and data.endswith(b"\r"):  # the next byte can be LF
            data += file.readline(MAX_LINE_BYTES)
        yield data.replace(b"\r\n", b"\n") if is_windows else data
        data = file.read1(BUFFER)


def _joined_chunks(paths: Iterable[Path]) -> ByteChunks:
    """Yield the bytes of several files. Add a newline between two files if it is missing."""
    last = b"\n"
    for path in paths:
        with open_bytes(path) as file:
            text: Any = unix_text(file, str(path))
            if last != b"\n":
                last = b"\n"
                yield last
            while data := text.read1(BUFFER):
                last = data[-1:]
                yield data


def _buffered(file: io.RawIOBase) -> IO[bytes]:
    # A subclass of BufferedReader would be slow to iterate over.
    return cast("IO[bytes]", io.BufferedReader(file, BUFFER))


def is_converted(file: Any) -> bool:
    """Return True if a text from `open_text` is converted or consists of several files."""
    return isinstance(getattr(file, "raw", None), _ChunkReader)


def file_on_disk(file: Any) -> Any:
    """Return the file on disk from which a converted or compressed text is read."""
    while below := getattr(file, "raw", None) or getattr(file, "fileobj", None):
        file = below
    return file


class _ChunkReader(io.RawIOBase):
    """Binary reader of the bytes that a generator yields.

    Args:
        chunks: generator of the bytes
        fileobj: file from which the generator reads
        again: function that returns a new generator of the same bytes, for seeking backward
    """

    def __init__(
        self, chunks: ByteChunks, fileobj: Any = None, again: Callable[[], ByteChunks] | None = None
    ) -> None:
        super().__init__()
        self._chunks, self.fileobj, self._again = chunks, fileobj, again
        self._ready = memoryview(b"")
        """Unread bytes of the current chunk."""
        self._position = 0

    def readable(self) -> bool:
        """Return True, as `io.RawIOBase` requires."""
        return True

    def seekable(self) -> bool:
        """Return True if the reader is seekable."""
        return self._again is None or bool(self.fileobj.seekable())

    def tell(self) -> int:
        """Return the offset of the next byte to read."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Skip to an offset. Restart the generator to move backward, if possible."""
        if offset < self._position and self._again is not None:
            self._chunks, self._ready, self._position = self._again(), memoryview(b""), 0
        if whence != io.SEEK_SET or offset < self._position:
            raise io.UnsupportedOperation("only absolute forward seeks are supported")
        while self._position < offset and self.read(min(BUFFER, offset - self._position)):
            pass
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Read up to `len(buffer)` bytes. Return their number, 0 only at the end."""
        while not self._ready and (chunk := next(self._chunks, None)) is not None:
            self._ready = memoryview(chunk)
        data, self._ready = self._ready[: len(buffer)], self._ready[len(buffer) :]
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)


def read_lines(path: str | Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 text without newlines; see `text_files`."""
    for file_path in text_files(path):
        with open_bytes(file_path) as file:
            yield from decoded_lines(unix_text(file, str(file_path)), str(file_path))


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


def raw_lines(file: IO[bytes], name: str) -> Iterator[bytes]:
    """Yield the lines of a file, with newlines. `name` is the name of the file in messages."""
    while line := file.readline(MAX_LINE_BYTES):
        if len(line) == MAX_LINE_BYTES:
            raise DataError(
                f"{name} contains a line of {MAX_LINE_BYTES:,} bytes or more. Shorten it."
            )
        yield line


def read_line(file: IO[bytes], name: str) -> bytes:
    """Return the next line, or empty bytes at the end of the file; see `raw_lines`."""
    return next(raw_lines(file, name), b"")


def decoded_lines(file: IO[bytes], name: str) -> Iterator[str]:
    """Yield the lines of a UTF-8 file, without newlines. `name` is the file name in messages."""
    for number, line in enumerate(raw_lines(file, name), 1):
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise utf8_error(f"{name}:{number}", line, error.start) from None
        yield text.removesuffix("\n")


def stdin_lines() -> Iterator[str]:
    """Return an iterator over the lines of stdin (UTF-8), without newlines.

    The call itself reads the first line to detect a byte-order mark.
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
    """Open a UTF-8 text file for writing, compressed if its suffix is in `COMPRESSIONS`."""
    with ExitStack() as stack:
        file: IO[bytes] = stack.enter_context(path.open("wb"))
        if path.suffix in COMPRESSIONS:
            file = stack.enter_context(COMPRESSIONS[path.suffix].writer(file))
        yield stack.enter_context(io.TextIOWrapper(file, encoding="utf-8", newline="\n"))


def compress_chunk(data: bytes, suffix: str) -> bytes:
    """Compress data if `suffix` is in `COMPRESSIONS`. Compressed chunks can be concatenated."""
    return COMPRESSIONS[suffix].compress(data) if suffix in COMPRESSIONS else data


@contextmanager
def open_text(path: str | Path) -> Iterator[IO[bytes]]:
    """Open a text for reading in binary mode; see `text_files` and `unix_text`."""
    files = text_files(path)
    if len(files) == 1:
        with open_bytes(files[0]) as file:
            yield unix_text(file, str(files[0]))
    else:
        with closing(_joined_chunks(files)) as chunks:
            yield _buffered(_ChunkReader(chunks))


def text_files(path: str | Path) -> list[Path]:
    """Return the files of a text in order. Raise DataError for a glob or folder without files.

    A text is one of

    - a file,
    - a glob such as ``news.*.en.gz`` that is not a file name: the matching visible files, sorted,
    - a folder of parts with a manifest: the parts in the order of the manifest,
    - another folder: its files, sorted, except those whose names begin with ``.`` or ``_``.
    """
    path = as_path(path)
    with reading_errors(path):
        if path.is_dir():
            return _folder_files(path)
        if not is_glob(path):
            return [path]
        names = path.parts
        first = next(index for index, name in enumerate(names) if WILDCARD.search(name))
        root = type(path)(*names[:first])
        found = root.glob("/".join(names[first:]))
        files = sorted(file for file in found if not file.name.startswith("."))
    if not files:
        raise DataError(f"No file matches {path}. Check the path and the pattern.")
    return files


def is_glob(path: Path) -> bool:
    """Return True if a path contains wildcards and is not the name of an existing file."""
    return bool(WILDCARD.search(str(path))) and not path.exists()


def _folder_files(folder: Path) -> list[Path]:
    files = list_entries(folder)
    if MANIFEST not in files:
        if JOB in files:
            raise DataError(f"{folder} is not complete. First complete the job that writes it.")
        names = sorted(
            name
            for name, status in files.items()
            if stat.S_ISREG(status.st_mode) and not name.startswith((".", "_"))
        )
        if not names:
            raise DataError(f"{folder} contains no files. Files named .* or _* are skipped.")
        return [folder / name for name in names]
    manifest = read_json(folder / MANIFEST)
    try:
        sizes = {str(part["name"]): part["bytes"] for part in manifest["parts"]}
    except (KeyError, TypeError):
        raise DataError(
            f"{folder / MANIFEST} contains no valid list of parts. Write the folder again, or move "
            "this file elsewhere if fairseq-ssl did not write it."
        ) from None
    for name, size in sizes.items():
        if name not in files:
            raise DataError(
                f"{folder / name} does not exist, but is listed in {MANIFEST}. Copy the file "
                "again, or run the job again."
            )
        if files[name].st_size != size:
            raise DataError(
                f"{folder / name} has {files[name].st_size} bytes. Expected {size}, as listed in "
                f"{MANIFEST}. Copy the file again."
            )
    return [folder / name for name in sizes]


def stdin_text() -> IO[bytes]:
    """Return stdin as a binary file; see `unix_text`."""
    if sys.stdin is None:  # the caller has closed it
        raise DataError("stdin is closed. Pass the path of a file.")
    return unix_text(sys.stdin.buffer, "stdin")


@contextmanager
def open_bytes(path: str | Path, suffix: str | None = None) -> Iterator[IO[bytes]]:
    """Open a file for reading in binary mode. Convert errors to `DataError`. See also `open_text`.

    Args:
        path: file, which is decompressed if its suffix is in `COMPRESSIONS`
        suffix: suffix to use instead of the path's suffix
    """
    path = as_path(path)
    compression = COMPRESSIONS.get(path.suffix if suffix is None else suffix)
    with ExitStack() as stack:
        with reading_errors(path):
            file: Any = stack.enter_context(path.open("rb", buffering=-1 if compression else 0))
        if compression:
            file = stack.enter_context(compression.reader(file))
        yield _buffered(CheckedFile(file, partial(reading_errors, path)))


def require_file(path: str | Path, expected: str) -> None:
    """Raise DataError unless a path is a regular file. The message contains `expected`."""
    path = as_path(path)
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
        raise DataError(
            f"{path} has more than {MAX_DOCUMENT_BYTES} bytes. Expected a smaller file."
        )
    return data


def read_json(path: str | Path) -> Any:
    """Parse an untrusted JSON file; see `parse_json`. Raise DataError for invalid JSON."""
    try:
        return parse_json(read_document(path))
    except ValueError as error:
        raise DataError(f"{path} cannot be read as JSON: {error}. Correct or replace it.") from None


@contextmanager
def reading_errors(path: Path) -> Iterator[None]:
    """Convert errors of reading a file to `DataError`."""
    try:
        yield
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(_reading_error(error, path)) from None


def _reading_error(error: Exception, path: Path) -> str:
    if isinstance(error, FileNotFoundError):
        return f"{path} does not exist."
    if isinstance(error, IsADirectoryError):
        return f"{path} is a folder. Expected a file."
    if isinstance(error, PermissionError):
        return f"{path} cannot be read: permission denied."
    if isinstance(error, OSError) and error.strerror:
        return f"{path} cannot be read: {error.strerror.rstrip('.')}."
    return f"{path} cannot be read: {error}. Check its suffix, or copy the file again."


class Compression(NamedTuple):
    """Functions for a compression format. Compression is deterministic."""

    compress: Callable[[bytes], bytes]
    writer: Callable[[IO[bytes]], Any]
    reader: Callable[[IO[bytes]], Any]
    """`writer` and `reader` wrap a binary file, which they leave open."""


def _zstandard() -> Any:
    return import_optional("zstandard", "A text in a .zst file", "scale")


def _zstd_compressor() -> Any:
    return _zstandard().ZstdCompressor(level=3, write_checksum=True)


def _zstd_reader(file: IO[bytes]) -> _ChunkReader:
    def again() -> ByteChunks:
        file.seek(0)
        return _zstd_chunks(file)

    return _ChunkReader(_zstd_chunks(file), file, again)


def _zstd_chunks(file: IO[bytes]) -> ByteChunks:
    """Yield decompressed zstd frames. zstandard's own reader does not report truncated files."""
    library, frame = _zstandard(), None
    while data := file.read(ZSTD_INPUT):
        while data:
            frame = frame or library.ZstdDecompressor().decompressobj()
            try:
                text = frame.decompress(data)
            except library.ZstdError as error:
                raise OSError(str(error)) from None
            yield text
            frame, data = (None, frame.unused_data) if frame.eof else (frame, b"")
    if frame is not None:
        raise EOFError("it ends inside a frame")


COMPRESSIONS = {
    ".gz": Compression(
        lambda data: gzip.compress(data, compresslevel=6, mtime=0),
        lambda file: gzip.GzipFile("", "wb", 6, file, mtime=0),  # no name and no time
        lambda file: gzip.GzipFile(fileobj=file),
    ),
    ".zst": Compression(
        lambda data: _zstd_compressor().compress(data),
        lambda file: _zstd_compressor().stream_writer(file, closefd=False),
        _zstd_reader,
    ),
}
"""Compression formats by suffix."""


MAX_BITS = 1000
"""Max number of bits of an integer in JSON, so that it can be converted to a float."""


def json_text(content: Any, indent: int | None = 2) -> str:
    r"""Return JSON that `parse_json` accepts, even if file names in it are not UTF-8.

    numpy numbers are accepted, such as a seed from an array. In a file name, a byte that is not
    UTF-8, such as E9, becomes the text ``\udce9`` with a backslash.
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
        raise ValueError("it contains an integer that is too large")
    return number
