"""Blocks of one or more parallel files, from the beginning and from the middle."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest

from fairseq_ssl.errors import DataError
from fairseq_ssl.io import blocks as byte_blocks
from fairseq_ssl.io.blocks import RowBlock, row_blocks
from fairseq_ssl.io.text_files import open_bytes

SIDES = [b"".join(b"%d " % n * (n % step) + b"\n" for n in range(300)) for step in (5, 3, 7)]


def rows(blocks: list[RowBlock]) -> list[tuple[bytes, ...]]:
    return [
        row
        for block in blocks
        for row in zip(*map(block.raw_lines, range(len(block.data))), strict=True)
    ]


@pytest.mark.parametrize("sides", [1, 2, 3])
def test_reading_can_start_after_any_block(sides: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(byte_blocks, "BLOCK_SIZE", 100)
    names = [f"side{side}" for side in range(sides)]

    def read(starts: list[int] | None = None, first: int = 1) -> list[RowBlock]:
        files = [io.BytesIO(side) for side in SIDES[:sides]]
        return list(row_blocks(files, names, starts, first))

    blocks = read()
    assert len(blocks) > 10
    assert rows(blocks) == list(
        zip(*(side.split(b"\n")[:-1] for side in SIDES[:sides]), strict=True)
    )
    assert blocks[-1].ends == tuple(map(len, SIDES[:sides]))
    for number, block in enumerate(blocks):
        assert read(list(block.ends), block.first + block.count) == blocks[number + 1 :]


def test_line_numbers_are_correct_after_a_seek(tmp_path: Path) -> None:
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress(b"one\ntwo\ncaf\xe9\n"))
    with open_bytes(path) as file:
        [block] = row_blocks([file], ["text"], [4], 2)
    assert (block.first, block.count, block.share) == (2, 2, 1.0)
    with pytest.raises(DataError, match="text:3 is not valid UTF-8: byte 4"):
        block.lines(0)


def test_compression_can_be_set_explicitly(tmp_path: Path) -> None:
    path = tmp_path / "text.gz.tmp"
    path.write_bytes(gzip.compress(b"one\n") + gzip.compress(b"two\n"))
    with open_bytes(path, compressed=True) as file:
        assert rows(list(row_blocks([file], ["text"]))) == [(b"one",), (b"two",)]
