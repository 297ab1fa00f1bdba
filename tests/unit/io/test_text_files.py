"""Reading of lines: line ends, byte-order marks, encodings, and errors with file and line."""

from __future__ import annotations

import codecs
import gzip
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_ssl.errors import DataError
from fairseq_ssl.io import text_files
from fairseq_ssl.io.blocks import Span, file_blocks, read_parallel, span_blocks
from fairseq_ssl.io.text_files import (
    compress_chunk,
    is_converted,
    json_text,
    open_bytes,
    open_text,
    parse_json,
    read_lines,
    unix_text,
    write_parallel,
)

ODD = "a\u2028b\x0bc\x0cd\x85e\rf\x1cg"
"""One line with characters that str.splitlines and universal newlines treat as line ends."""


@pytest.mark.parametrize("name", ["a.en", "a.en.gz"])
def test_only_a_newline_ends_a_line(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    content = f"{ODD}\n\n  two  spaces \nlast\r\nno newline".encode()
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    assert list(read_lines(path)) == [ODD, "", "  two  spaces ", "last\r", "no newline"]


line = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]))
lines = st.lists(line).filter(
    lambda rows: not rows or not (rows[0].endswith("\r") or rows[0].startswith("\ufeff"))
)


@given(rows=lines.map(lambda left: [(line, f"{line}!") for line in left]))
def test_write_and_read_round_trip(
    rows: list[tuple[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("lines")
    paths = [folder / "a.en", folder / "a.de.gz"]
    assert write_parallel(paths, rows) == len(rows)
    assert list(read_parallel(paths)) == rows


def test_compressed_files_are_reproducible(tmp_path: Path) -> None:
    paths = [tmp_path / "one.gz", tmp_path / "two.gz"]
    write_parallel(paths, [("a line", "a line")])
    first, second = (path.read_bytes() for path in paths)
    assert first == second
    assert first[4:8] == bytes(4)  # time in the gzip header
    assert compress_chunk(b"a line\n", ".gz")[4:8] == bytes(4)


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "truncated": lambda data: data[:100],
    "corrupt": lambda data: data[:10] + b"\xff" * 20,
    "plain text": lambda _: b"text\n",
}


@pytest.mark.parametrize("damaged", [0, 1])
@pytest.mark.parametrize("damage", DAMAGES)
def test_the_damaged_one_of_two_files_is_reported(
    damaged: int, damage: str, tmp_path: Path
) -> None:
    paths = [tmp_path / "a.gz", tmp_path / "b.gz"]
    content = gzip.compress(os.urandom(1000).hex().encode())
    for path in paths:
        path.write_bytes(content)
    path = paths[damaged]
    path.write_bytes(DAMAGES[damage](content))
    for read in (read_lines(path), read_parallel(paths), file_blocks(*paths)):
        with pytest.raises(DataError, match=f"{path.name} cannot be read"):
            list(read)


def test_unreadable_files_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.en"
    with pytest.raises(DataError, match=r"a\.en"):
        list(read_lines(path))
    path.write_bytes("gruen\nfür\nkürzer\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"a\.en:2 .* byte 2 .* 0xfc"):
        list(read_lines(path))


def test_errors_of_the_caller_are_not_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.en"
    path.write_text("text\n")
    with pytest.raises(EOFError, match="of a pickle"), open_bytes(path):
        raise EOFError("of a pickle")


def test_json_with_large_numbers_and_surrogate_pairs() -> None:
    assert parse_json('["\\ud83d\\ude00", 1e300, 9]') == ["\N{GRINNING FACE}", 1e300, 9]
    assert parse_json(b'\xef\xbb\xbf["\\uD83D\\uDE00"]') == ["\N{GRINNING FACE}"]


def test_file_names_in_json() -> None:
    """The bytes of a UTF-8 name are escaped one by one if the locale is not UTF-8."""
    name = "gr\udcc3\udcbcn caf\udce9"
    assert json_text([name], indent=None) == r"""["grün caf\\udce9"]"""


def by_the_rule(data: bytes) -> bytes:
    """Convert a complete file at once."""
    first, end, _ = data.partition(b"\n")
    is_windows = bool(end) and first.endswith(b"\r")
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


TEXTS = st.lists(
    st.sampled_from([b"\r\n", b"\n", b"\r", b"a", b"bc", codecs.BOM_UTF8]), max_size=30
).map(b"".join)


@given(TEXTS, st.lists(st.integers(1, 4), max_size=20), st.lists(st.integers(1, 9), max_size=20))
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
    TEXTS,
    st.lists(st.integers(0, 40), max_size=6),
    st.sampled_from([1, 4, 2**16]),
)
def test_positions_are_those_of_the_converted_text(
    start: bytes, rest: bytes, positions: list[int], buffer: int
) -> None:
    """Interrupted runs can resume at these positions."""
    data = start + rest
    expected = io.BytesIO(by_the_rule(data))
    for position in positions:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(text_files, "BUFFER", buffer)
            file = unix_text(io.BytesIO(data), "f")
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
    notices = ["a UTF-8 byte-order mark"] * has_mark + ["Windows line ends (CRLF)"] * is_windows
    notice = " and ".join(notices)
    assert caplog.messages == ([f"{path}: removed {notice}"] if notice else [])
    with open_text(path) as file:
        assert is_converted(file) == bool(notice)
    blocks = list(file_blocks(path, size=100))
    assert b"".join(block.data[0] for block in blocks) == "\n".join(expected).encode()
    rest = Span((path,), 0, blocks[3].starts, None, blocks[3].first)
    assert next(span_blocks(rest, 100)).data == blocks[3].data
    rows = list(file_blocks(path, path, size=100))
    assert rows[-1].fraction == 1
    assert [line for row in rows for line in row.lines(1)] == expected


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"a\nb\r\nc\r\n", ["a", "b\r", "c\r"]),
        (b"a\r", ["a\r"]),  # no line end
        (b"a\r\nb\nc\r\r\n", ["a", "b", "c\r"]),
    ],
)
def test_only_the_first_line_determines_the_conversion(
    data: bytes, lines: list[str], tmp_path: Path
) -> None:
    (tmp_path / "f").write_bytes(data)
    assert list(read_lines(tmp_path / "f")) == lines


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_other_encodings_are_rejected(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "f"
    for text in ("\ufeffa line\n", "\ufeff\n"):
        path.write_bytes(text.encode(encoding))
        with pytest.raises(DataError, match=rf"f begins .* {encoding[:6].upper()}\."):
            next(read_lines(path))


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
