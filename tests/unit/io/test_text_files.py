"""Files of a text. Reading of lines: line ends, encodings, and errors with file and line."""

from __future__ import annotations

import codecs
import importlib.util
import io
import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.io import text_files
from fairseq_ssl.io.blocks import Span, file_blocks, read_parallel, span_blocks
from fairseq_ssl.io.fingerprints import content_digest, file_fingerprint
from fairseq_ssl.io.jobs import check_beside, check_distinct, check_outside
from fairseq_ssl.io.remote import RemotePath, as_path
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

needs_zstandard = pytest.mark.skipif(
    importlib.util.find_spec("zstandard") is None, reason="needs the package zstandard"
)
ZST = pytest.param(".zst", marks=needs_zstandard)
SUFFIXES = ["", ".gz", ZST]
ODD = "a\u2028b\x0bc\x0cd\x85e\rf\x1cg"
"""One line with characters that str.splitlines and universal newlines treat as line ends."""


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_only_a_newline_ends_a_line(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.en{suffix}"
    content = f"{ODD}\n\n  two  spaces \nlast\r\nno newline".encode()
    path.write_bytes(compress_chunk(content, suffix))
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


@pytest.mark.parametrize("suffix", [".gz", ZST])
def test_compressed_files_are_reproducible(suffix: str, tmp_path: Path) -> None:
    paths = [tmp_path / f"one{suffix}", tmp_path / f"two{suffix}"]
    write_parallel(paths, [("a line", "a line")])
    first, second = (path.read_bytes() for path in paths)
    assert first == second
    assert suffix != ".gz" or first[4:8] == bytes(4)  # time in the header
    assert compress_chunk(b"a line\n", ".gz")[4:8] == bytes(4)


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "truncated": lambda data: data[:100],
    "corrupt": lambda data: data[:10] + b"\xff" * 20,
    "plain text": lambda _: b"text\n",
}


@pytest.mark.parametrize("suffix", [".gz", ZST])
@pytest.mark.parametrize("damaged", [0, 1])
@pytest.mark.parametrize("damage", DAMAGES)
def test_the_damaged_one_of_two_files_is_reported(
    damaged: int, damage: str, suffix: str, tmp_path: Path
) -> None:
    paths = [tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"]
    content = compress_chunk(os.urandom(1000).hex().encode(), suffix)
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
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_lines_blocks_and_notice(
    suffix: str, is_windows: bool, has_mark: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Carriage returns inside lines and the number of lines do not change."""
    path = tmp_path / f"f{suffix}"
    end = "\r\n" if is_windows else "\n"
    text = "\ufeff" * has_mark + end.join(["grün\rx", "", "b\ufeff", "c \r", "last"] * 50)
    data = text.encode()
    path.write_bytes(compress_chunk(data, suffix))
    expected = ["grün\rx", "", "b\ufeff", "c \r", "last"] * 50
    assert list(read_lines(path)) == expected
    notices = ["a UTF-8 byte-order mark"] * has_mark + ["Windows line endings (CRLF)"] * is_windows
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


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_first_line_that_is_longer_than_a_buffer(suffix: str, tmp_path: Path) -> None:
    """It is read twice: it determines the conversion."""
    text = random.Random(1).randbytes(2**17).hex()
    path = tmp_path / f"f{suffix}"
    path.write_bytes(compress_chunk(f"{text}\nlast\n".encode(), suffix))
    assert list(read_lines(path)) == [text, "last"]
    with open_text(path) as file:
        assert not is_converted(file)


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
        with pytest.raises(DataError, match=rf"f begins with a {encoding[:6].upper()} byte"):
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


@pytest.fixture(params=["local", "memory"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """An empty folder on this machine, and one in a store."""
    if request.param == "local":
        yield tmp_path
        return
    fsspec = pytest.importorskip("fsspec")
    yield as_path("memory://store/texts")
    fsspec.filesystem("memory").store.clear()


def write_files(folder: Path, **contents: bytes) -> None:
    if not isinstance(folder, RemotePath):
        folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name.replace("_dot_", ".")).write_bytes(content)


def write_manifest(folder: Path, **sizes: int) -> None:
    parts = [
        {"name": name, "lines": 1, "bytes": size, "digest": ""} for name, size in sizes.items()
    ]
    content = json.dumps({"method": "noise", "parts": parts})
    (folder / "manifest.json").write_bytes(content.encode())


def names(path: Path) -> list[str]:
    return [file.name for file in text_files.text_files(path)]


def test_the_files_of_a_text(folder: Path) -> None:
    text = folder / "news"
    write_files(text, b=b"1\n", a=b"2\n", _SUCCESS=b"", _dot_c=b"3\n")
    write_files(text / "deep", d=b"4\n")
    assert names(text) == ["a", "b"]
    assert names(text / "a") == ["a"]
    assert names(text / "gone") == ["gone"]
    assert names(folder / "ne*" / "[ab]") == ["a", "b"]
    assert names(folder / "**" / "d") == ["d"]
    assert list(read_lines(text)) == list(read_lines(folder / "ne*" / "?")) == ["2", "1"]
    write_manifest(text, b=2, a=2)
    assert names(text) == ["b", "a"]
    assert list(read_lines(text)) == ["1", "2"]
    with pytest.raises(DataError, match=r"No file matches .*/\*\.en"):
        names(folder / "news" / "*.en")


def test_a_name_with_wildcards(folder: Path) -> None:
    write_files(folder, **{"a[1]": b"1\n", "a1": b"2\n"})
    assert names(folder / "a[1]") == ["a[1]"]
    assert names(folder / "a[12]") == ["a1"]


@pytest.mark.parametrize(
    ("sizes", "error"),
    [
        ({"a": 2, "gone": 3}, "gone does not exist, but is listed in manifest.json"),
        ({"a": 3}, "a has 2 bytes. Expected 3, as listed in manifest.json"),
    ],
)
def test_parts_that_differ_from_the_manifest(
    sizes: dict[str, int], error: str, folder: Path
) -> None:
    write_files(folder, a=b"1\n", other=b"2\n")
    write_manifest(folder, **sizes)
    with pytest.raises(DataError, match=error):
        list(read_lines(folder))


@pytest.mark.parametrize("content", ["[]", "{}", '{"parts": [3]}', '{"parts": [{"name": "a"}]}'])
def test_other_manifests(content: str, folder: Path) -> None:
    write_files(folder, a=b"1\n")
    (folder / "manifest.json").write_bytes(content.encode())
    with pytest.raises(DataError, match=r"manifest\.json contains no valid list of parts"):
        names(folder)


@pytest.mark.parametrize("name", ["../secret", "/secret", 3, ["a"]])
def test_a_manifest_cannot_name_files_outside_the_folder(name: object, folder: Path) -> None:
    write_files(folder, secret=b"1\n")
    write_files(folder / "text", a=b"1\n")
    content = json.dumps({"parts": [{"name": name, "bytes": 2}]})
    (folder / "text" / "manifest.json").write_bytes(content.encode())
    with pytest.raises(DataError, match=r"does not exist|no valid list of parts"):
        names(folder / "text")


def test_a_folder_that_is_being_written(folder: Path) -> None:
    write_files(folder, a=b"1\n")
    write_files(folder / "_job", **{"job": b"{}"})
    with pytest.raises(DataError, match="is not complete"):
        names(folder)
    write_manifest(folder, a=2)
    assert names(folder) == ["a"]


def test_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="contains no files"):
        names(tmp_path)


PARTS = [b"\xef\xbb\xbfone\r\ntwo", b"", b"\xef\xbb\xbfthree\nfo", b"ur\n\n", b"\n", b"last"]
JOINED = b"one\ntwo\nthree\nfo\nur\n\n\nlast"


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_parts_are_read_as_one_text(suffix: str, folder: Path) -> None:
    for number, part in enumerate(PARTS):
        write_files(folder, **{f"part-{number}{suffix}": compress_chunk(part, suffix)})
    assert list(read_lines(folder)) == JOINED.decode().split("\n")
    with open_text(folder) as file:
        assert is_converted(file)
        assert file.read() == JOINED
    for position in range(len(JOINED) + 1):
        with open_text(folder) as file:
            assert file.seek(position) == file.tell() == position
            assert file.read(4) == JOINED[position : position + 4]
    blocks = list(file_blocks(folder, folder / "part-*", size=8))
    assert b"".join(block.data[0] for block in blocks) == JOINED
    with open_text(folder) as file:
        file.read(5)
        with pytest.raises(io.UnsupportedOperation):
            file.raw.seek(0)  # type: ignore[attr-defined]


def test_the_part_with_an_error_is_named(folder: Path) -> None:
    write_files(folder, a=b"one\ntwo\n", b=b"three\ncaf\xe9\n")
    with pytest.raises(DataError, match=r"/b:2 is not valid UTF-8"):
        list(read_lines(folder))


def test_fingerprints_and_digests(folder: Path) -> None:
    write_files(folder, **{"a.en": b"1\n", "b.en": b"22\n"})
    one, other = file_fingerprint(folder / "a.en"), file_fingerprint(folder / "b.en")
    assert file_fingerprint(folder) == file_fingerprint(folder / "*.en")
    assert file_fingerprint(folder) == [5, max(one[1], other[1])]
    digest = content_digest(folder)
    assert digest == content_digest(folder / "*.en")
    assert digest == content_digest(folder / "a.en", folder / "b.en")
    write_files(folder, **{"b.en": b"23\n"})
    assert content_digest(folder) != digest
    with pytest.raises(DataError, match=r"gone does not exist"):
        file_fingerprint(folder / "gone")
    with pytest.raises(DataError, match="No file matches"):
        content_digest(folder / "*.gone")


@pytest.mark.parametrize("source", ["a.en", "*.en", "[a-c].en", ".", "a.en/part"])
def test_an_output_that_is_an_input(source: str, folder: Path) -> None:
    output = folder / "a.en"
    write_files(output if source == "a.en/part" else folder, **{"b.en": b""})
    with pytest.raises(UsageError, match=r"Choose another (output|path)"):
        check_beside(output, [folder / source])
    with pytest.raises(UsageError, match=r"is an input|Choose another (output|path)"):
        check_distinct([folder / source], [output])
    check_beside(folder / "a.de", [folder / "*.en"])
    check_beside(folder / "deep" / "a.en", [folder / "*.en"])


def test_an_output_folder_with_an_input(folder: Path) -> None:
    for source in ("a.en", "*.en", "deep/*"):
        with pytest.raises(UsageError, match="would replace the input"):
            check_outside(folder / "out", [folder / "out" / source])
    check_outside(folder / "out", [folder / "*.en"])
