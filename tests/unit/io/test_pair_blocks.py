"""Blocks of two parallel files, with line numbers."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from fairseq_ssl.errors import DataError
from fairseq_ssl.io import blocks as byte_blocks
from fairseq_ssl.io import blocks as pair_blocks
from fairseq_ssl.io import text_files

LINES = [("line " * (n % 7), f"zeile {n}\u2028" if n % 5 else "") for n in range(500)]


def written(folder: Path, sides: tuple[list[str], list[str]], end: str = "\n") -> tuple[Path, Path]:
    paths = folder / "left", folder / "right.gz"
    left, right = ("\n".join(side) + end for side in sides)
    paths[0].write_text(left, encoding="utf-8")
    paths[1].write_bytes(gzip.compress(right.encode()))
    return paths


@pytest.mark.parametrize("size", [1, 100, 2**18])
@pytest.mark.parametrize("end", ["\n", ""])
def test_each_pair_is_in_one_block(
    size: int, end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(byte_blocks, "BLOCK_SIZE", size)
    left, right = ([pair[side] for pair in [*LINES, ("a", "b")]] for side in (0, 1))
    blocks = list(pair_blocks.pair_blocks(*written(tmp_path, (left, right), end)))
    assert [pair for block in blocks for pair in block.pairs()] == [*LINES, ("a", "b")]
    assert blocks[-1].share == 1
    number = 1
    for block in blocks:
        assert block.place(1, 0) == f"{tmp_path}/right.gz:{number}"
        number += len(list(block.pairs()))


def test_blank_lines_are_kept(tmp_path: Path) -> None:
    blocks = pair_blocks.pair_blocks(*written(tmp_path, (["", "", ""], ["", "a", ""])))
    assert [list(block.pairs()) for block in blocks] == [[("", ""), ("", "a"), ("", "")]]


def test_empty_files_have_no_blocks(tmp_path: Path) -> None:
    assert list(pair_blocks.pair_blocks(*written(tmp_path, ([], []), ""))) == []


@pytest.mark.parametrize(
    ("left", "right", "ended", "longer"),
    [(2, 3, "left", "right.gz"), (3, 2, "right.gz", "left"), (0, 1, "left", "right.gz")],
)
def test_the_shorter_file_is_reported(
    left: int, right: int, ended: str, longer: str, tmp_path: Path
) -> None:
    paths = tmp_path / "left", tmp_path / "right.gz"
    paths[0].write_text("a\n" * left)
    paths[1].write_bytes(gzip.compress(b"a\n" * right))
    count = min(left, right)
    with pytest.raises(
        DataError, match=f"/{ended} ends after line {count}, but .*/{longer} has more"
    ):
        list(pair_blocks.pair_blocks(*paths))


def test_invalid_utf8_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(byte_blocks, "BLOCK_SIZE", 8)
    paths = tmp_path / "left", tmp_path / "right"
    paths[0].write_text("one\ntwo\nthree\nfour\n")
    paths[1].write_bytes("eins\nzwei\nf\u00fcr\n".encode() + b"vi\xfcr\n")
    with pytest.raises(DataError, match=r"right:4 is not valid UTF-8: byte 3 of the line is 0xfc"):
        [list(block.pairs()) for block in pair_blocks.pair_blocks(*paths)]


def test_very_long_lines_are_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_files, "MAX_LINE_BYTES", 10)
    paths = tmp_path / "left", tmp_path / "right"
    paths[0].write_text("a\n")
    paths[1].write_text("a" * 11)
    with pytest.raises(DataError, match=r"right has a line longer than 10 bytes\. Expected a text"):
        list(pair_blocks.pair_blocks(*paths))
