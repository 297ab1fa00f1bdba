"""Byte-order marks and Windows line ends: conversion, and rejected encodings."""

from __future__ import annotations

import codecs
import gzip
import io
import os
import threading
from pathlib import Path
from typing import IO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_ssl.errors import DataError
from fairseq_ssl.io import text_files
from fairseq_ssl.io.blocks import byte_blocks, row_blocks, share_read
from fairseq_ssl.io.text_files import is_converted, open_text, read_lines, unix_text

NOTICE = {
    (True, False): "a UTF-8 byte-order mark",
    (False, True): "Windows line ends (CRLF)",
    (True, True): "a UTF-8 byte-order mark and Windows line ends (CRLF)",
}


def by_the_rule(data: bytes) -> bytes:
    """Convert a complete file at once."""
    first = data.partition(b"\n")
    is_windows = bool(first[1]) and first[0].endswith(b"\r")
    data = data.removeprefix(codecs.BOM_UTF8)
    return data.replace(b"\r\n", b"\n") if is_windows else data


class Pipe(io.RawIOBase):
    """A stream that returns chunks of these sizes, like a pipe."""

    def __init__(self, data: bytes, sizes: list[int]) -> None:
        super().__init__()
        self.data, self.sizes = data, sizes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        size = min(len(buffer), self.sizes.pop() if self.sizes else len(self.data))
        chunk, self.data = self.data[:size], self.data[size:]
        buffer[: len(chunk)] = chunk
        return len(chunk)


texts = st.lists(
    st.sampled_from([b"\r\n", b"\n", b"\r", b"a", b"bc", codecs.BOM_UTF8]), max_size=30
).map(b"".join)


@given(texts, st.lists(st.integers(1, 4), max_size=20), st.lists(st.integers(1, 9), max_size=20))
def test_pipes_and_files_are_converted_equally(
    data: bytes, sizes: list[int], reads: list[int]
) -> None:
    expected = by_the_rule(data)
    pipe: IO[bytes] = io.BufferedReader(Pipe(data, sizes), 5)
    for file in (unix_text(io.BytesIO(data), "f"), unix_text(pipe, "f")):
        read = [file.read(size) for size in reads]
        assert b"".join(read) + file.read() == expected
    assert list(unix_text(io.BytesIO(data), "f")) == list(io.BytesIO(expected))


@given(
    st.sampled_from([b"", b"a\r\n", codecs.BOM_UTF8]),
    texts,
    st.lists(st.integers(0, 40), max_size=6),
    st.sampled_from([1, 4, 2**16]),
)
def test_positions_are_those_of_the_converted_text(
    start: bytes, rest: bytes, positions: list[int], buffer: int
) -> None:
    """Interrupted runs can resume at these positions."""
    data = start + rest
    expected = io.BytesIO(by_the_rule(data))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_files, "BUFFER", buffer)
        file = unix_text(io.BytesIO(data), "f")
    for position in positions:
        position = min(position, len(expected.getvalue()))
        assert file.seek(position) == expected.seek(position)
        assert file.tell() == expected.tell()
        assert file.read(3) == expected.read(3)


@pytest.mark.parametrize("has_mark", [False, True])
@pytest.mark.parametrize("is_windows", [False, True])
@pytest.mark.parametrize("name", ["f", "f.gz"])
def test_lines_blocks_and_notice(
    name: str, is_windows: bool, has_mark: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Carriage returns inside lines and the number of lines do not change."""
    path = tmp_path / name
    end = "\r\n" if is_windows else "\n"
    text = "\ufeff" * has_mark + end.join(["grün\rx", "", "b\ufeff", "c \r", "last"] * 50)
    data = text.encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    expected = ["grün\rx", "", "b\ufeff", "c \r", "last"] * 50
    assert list(read_lines(path)) == expected
    notice = NOTICE.get((has_mark, is_windows))
    assert caplog.messages == ([f"{path}: removed {notice}"] if notice else [])
    with open_text(path) as file:
        assert is_converted(file) == bool(notice)
        blocks = list(byte_blocks(file, size=100))
    assert b"".join(block.data for block in blocks) == "\n".join(expected).encode()
    with open_text(path) as file:
        file.seek(blocks[3].start)
        assert next(byte_blocks(file, blocks[3].start, size=100)) == blocks[3]
    with open_text(path) as left, open_text(path) as right:
        rows = list(row_blocks((left, right), ("l", "r"), size=100))
        assert share_read(left) == 1
    assert [line for row in rows for line in row.lines(1)] == expected


def test_only_the_first_line_determines_the_conversion(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"a\nb\r\nc\r\n")
    assert list(read_lines(path)) == ["a", "b\r", "c\r"]
    path.write_bytes(b"a\r")  # no line end
    assert list(read_lines(path)) == ["a\r"]
    assert not caplog.messages
    path.write_bytes(b"a\r\nb\nc\r\r\n")
    assert list(read_lines(path)) == ["a", "b", "c\r"]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_other_encodings_are_rejected(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "f"
    for text in ("\ufeffa line\n", "\ufeff\n"):
        path.write_bytes(text.encode(encoding))
        with pytest.raises(DataError, match=rf"f begins .* {encoding[:6].upper()}\."):
            next(read_lines(path))


def test_named_pipes_are_read_completely(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    for data in (b"a\nb\n", b"a\r\nb\r\n"):
        writer = threading.Thread(target=path.write_bytes, args=(data,))
        writer.start()
        assert list(read_lines(path)) == ["a", "b"]
        writer.join()


def test_stdin_is_streamed() -> None:
    """Each line is read before the next one is written, and the byte-order mark is removed."""
    end, other = os.pipe()
    with os.fdopen(end, "rb") as source, os.fdopen(other, "wb", buffering=0) as sink:
        sink.write(codecs.BOM_UTF8 + b"one\r\n")
        file = unix_text(source, "stdin")
        assert file.readline() == b"one\n"
        sink.write(b"two\r\nthree\r\n")
        assert file.readline() == b"two\n"
        sink.close()
        assert file.read() == b"three\n"
