"""Reading of lines, which end only at newlines, and errors with file and line."""

from __future__ import annotations

import gzip
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_ssl.errors import DataError
from fairseq_ssl.io.blocks import pair_blocks, read_parallel
from fairseq_ssl.io.text_files import (
    compress_chunk,
    convert_fields,
    json_text,
    open_bytes,
    parse_json,
    read_lines,
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
    assert compress_chunk(b"a line\n", True)[4:8] == bytes(4)


def test_invalid_utf8_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.en"
    path.write_bytes("grün\nfür\nk\xfcrzer\n".encode("latin-1").replace(b"gr\xfc", b"gru", 1))
    with pytest.raises(DataError, match=r"a\.en:2 is not valid UTF-8: byte 2 .* 0xfc"):
        list(read_lines(path))


@pytest.mark.parametrize(("left", "right"), [("a\nb\n", "a\nb\nc\n"), ("a\nb\n\n", "a\nb\n")])
def test_the_shorter_file_is_reported(left: str, right: str, tmp_path: Path) -> None:
    paths = [tmp_path / "l", tmp_path / "r"]
    for path, content in zip(paths, (left, right), strict=True):
        path.write_text(content)
    ended, longer = ("l", "r") if len(left) < len(right) else ("r", "l")
    message = rf"/{ended} ends after line 2, but \S+/{longer} has more lines"
    with pytest.raises(DataError, match=message):
        list(read_parallel(paths))


@pytest.mark.parametrize("cut_off", [True, False])
def test_damaged_gzip_files_are_rejected(cut_off: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    content = gzip.compress(os.urandom(1000).hex().encode())
    path.write_bytes(content[:-200] if cut_off else content[:10] + b"\xff" * 20)
    with pytest.raises(DataError, match=r"a\.gz cannot be read: .*Copy the file again"):
        list(read_lines(path))


@pytest.mark.parametrize("damaged", [0, 1])
@pytest.mark.parametrize("damage", ["truncated", "corrupt", "plain"])
def test_the_damaged_one_of_two_files_is_reported(
    damaged: int, damage: str, tmp_path: Path
) -> None:
    paths = [tmp_path / "a.gz", tmp_path / "b.gz"]
    content = gzip.compress(os.urandom(1000).hex().encode())
    for path in paths:
        path.write_bytes(content)
    broken = {
        "truncated": content[:100],
        "corrupt": content[:10] + b"\xff" * 20,
        "plain": b"text\n",
    }
    paths[damaged].write_bytes(broken[damage])
    with pytest.raises(DataError, match=rf"{paths[damaged].name} cannot be read"):
        list(read_parallel(paths))
    with pytest.raises(DataError, match=rf"{paths[damaged].name} cannot be read"):
        list(pair_blocks(*paths))


def test_errors_of_the_caller_are_not_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.en"
    path.write_text("text\n")
    with pytest.raises(EOFError, match="of a pickle"), open_bytes(path):
        raise EOFError("of a pickle")


def test_text_files_named_gz_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_text("plain\n")
    with pytest.raises(DataError, match=r"a\.gz cannot be read: Not a gzipped file"):
        list(read_lines(path))


def test_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.en does not exist"):
        list(read_lines(tmp_path / "a.en"))


def test_json_with_large_numbers_and_surrogate_pairs() -> None:
    assert parse_json('["\\ud83d\\ude00", 1e300, 9]') == ["\N{GRINNING FACE}", 1e300, 9]
    assert parse_json(b'\xef\xbb\xbf["\\uD83D\\uDE00"]') == ["\N{GRINNING FACE}"]


def test_file_names_in_json() -> None:
    """The bytes of a UTF-8 name are escaped one by one if the locale is not UTF-8."""
    name = "gr\udcc3\udcbcn caf\udce9"
    assert json_text([name], indent=None) == r"""["grün caf\\udce9"]"""


@dataclass(frozen=True)
class Config:
    path: str | Path | None
    paths: list[str | None] | None
    size: float
    is_fast: bool = True


def test_fields_are_converted() -> None:
    config = Config("a", ["b", None], np.float32(0.5))  # type: ignore[arg-type]
    convert_fields(config, ["path"], ["paths"])
    assert repr((config.path, config.paths)) == repr((Path("a"), (Path("b"), None)))
    assert type(config.size) is float
    assert config.is_fast is True
