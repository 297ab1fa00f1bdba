"""Byte-order marks and Windows line ends: the one rule by which all text is read.

- A UTF-8 byte-order mark at the beginning of a file is removed.
- Where the first line of a file ends with CR LF, every CR LF of the file is read as LF.
- A file that begins with the byte-order mark of UTF-16 or UTF-32 is rejected.
- Any other carriage return is data: inside a line, and at the end of lines of a file whose first
  line ends with LF alone.

What is removed is logged, once each time a file is opened. The first line alone decides, so that a
file is read alike wherever reading begins and whatever the number of processes. The number of lines
never changes. JSON and YAML are exempt: their parsers accept any line ends and byte-order marks.
"""

from __future__ import annotations

import codecs
import io
import logging
from typing import IO, Any, cast

from fairseq_ssl.errors import DataError
from fairseq_ssl.text.byte_blocks import LONGEST

OTHER_MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",  # first: it begins with the mark of UTF-16
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
BUFFER = 2**16
"""Bytes that are converted at a time."""

log = logging.getLogger(__name__)


def unix_text(file: IO[bytes], name: str) -> IO[bytes]:
    """Return a text without byte-order mark and Windows line ends.

    Args:
        file: an open binary file at its beginning
        name: what messages call it

    Returns:
        the file itself if there is nothing to remove and it can seek. Otherwise a reader whose
        positions are those of the converted text: to go to one of them, it reads the file from its
        beginning, as a compressed file is read.
    """
    start = file.tell() if file.seekable() else None
    head = file.readline(LONGEST)
    for mark, encoding in OTHER_MARKS.items():
        if head.startswith(mark):
            raise DataError(
                f"{name} begins with the byte-order mark of {encoding}. Expected UTF-8. Convert "
                f"it: iconv -f {encoding} -t UTF-8 FILE > NEW"
            )
    has_mark, is_windows = head.startswith(codecs.BOM_UTF8), head.endswith(b"\r\n")
    found = ["a UTF-8 byte-order mark"] * has_mark + ["Windows line ends (CRLF)"] * is_windows
    if found:
        log.warning("%s: removed %s", name, " and ".join(found))
    elif start is not None:
        file.seek(start)
        return file
    conversion = _Conversion(file, start, head, len(codecs.BOM_UTF8) * has_mark, is_windows)
    # A subclass of BufferedReader would be slow to iterate over.
    return cast("IO[bytes]", io.BufferedReader(conversion, BUFFER))


def is_converted(file: Any) -> bool:
    """Return True if `unix_text` returned a reader instead of the file itself."""
    return isinstance(getattr(file, "raw", None), _Conversion)


def file_on_disk(file: Any) -> Any:
    """Return the file below a converted or compressed text, whose position is the progress."""
    if is_converted(file):
        file = file.raw.file
    return getattr(file, "fileobj", file)


class _Conversion(io.RawIOBase):
    """The bytes of a file after a mark, with line ends converted or not.

    Args:
        file: an open file of which `head` is read
        start: its position before that; None: it cannot seek
        head: bytes that come before its position
        mark: bytes of the mark to leave out
        is_windows: read CR LF as LF
    """

    def __init__(
        self, file: IO[bytes], start: int | None, head: bytes, mark: int, is_windows: bool
    ) -> None:
        super().__init__()
        self.file: Any = file
        self._start, self._mark, self._is_windows = start, mark, is_windows
        self._head = head[mark:]
        """Bytes to convert before those of the file."""
        self._ready = b""
        """Converted bytes that nobody has read."""
        self._position = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True if the file can seek."""
        return self._start is not None

    def tell(self) -> int:
        """Return the position in the converted text."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a position, counted from the beginning."""
        if self._start is None or whence != io.SEEK_SET:
            raise io.UnsupportedOperation("seek from the beginning of a file that can seek")
        if offset < self._position:
            self.file.seek(self._start + self._mark)
            self._head = self._ready = b""
            self._position = 0
        while self._position < offset and self._take(min(BUFFER, offset - self._position)):
            pass
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Read some bytes, at least one unless the file has ended."""
        data = self._take(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _take(self, size: int) -> bytes:
        if not self._ready:
            self._ready = self._convert(size)
        data, self._ready = self._ready[:size], self._ready[size:]
        self._position += len(data)
        return data

    def _convert(self, size: int) -> bytes:
        """Read about `size` bytes and convert them; returns none only at the end."""
        data, self._head = self._head or self.file.read1(size), b""
        while data.endswith(b"\r") and self._is_windows:  # what follows decides
            after = self.file.read1(size)
            if not after:
                break
            data += after
        return data.replace(b"\r\n", b"\n") if self._is_windows else data
