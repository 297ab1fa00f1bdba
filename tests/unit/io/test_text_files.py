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


DAMAGES = {
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
    for read in (read_lines(path), read_parallel(paths), pair_blocks(*paths)):
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
