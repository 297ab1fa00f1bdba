"""Blocks of lines are the same for all readers and shards, and complete."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_ssl.errors import DataError
from fairseq_ssl.io import blocks, text_files
from fairseq_ssl.io.blocks import ByteBlock


@pytest.fixture(autouse=True, scope="module")
def _small() -> object:
    size, blocks.BLOCK_SIZE = blocks.BLOCK_SIZE, 8
    yield
    blocks.BLOCK_SIZE = size


TEXTS = st.lists(st.text("ab", max_size=20), max_size=12).map("\n".join).map(str.encode)


def blocks_of(text: bytes, shard: int, shards: int) -> list[ByteBlock]:
    first, after = blocks.shard_bounds(len(text), shard, shards)
    file = io.BytesIO(text)
    end = blocks.seek_block(file, after)
    start = blocks.seek_block(file, first)
    file.seek(start)
    return list(blocks.byte_blocks(file, start, min(end, len(text))))


@given(text=TEXTS, shards=st.integers(1, 9))
def test_shards_have_the_blocks_of_the_file(text: bytes, shards: int) -> None:
    whole = list(blocks.byte_blocks(io.BytesIO(text)))
    parts = [block for shard in range(1, shards + 1) for block in blocks_of(text, shard, shards)]
    assert parts == whole
    assert b"".join(block.data for block in whole) == text
    for block in whole:
        assert block.number * 8 <= block.start < (block.number + 1) * 8
        assert text[block.start - 1 : block.start] in (b"", b"\n")
        assert block.end == len(text) or text[block.end - 1 : block.end] == b"\n"


@given(text=TEXTS, after=st.integers(0, 20))
def test_reading_can_resume_after_any_block(text: bytes, after: int) -> None:
    whole = list(blocks.byte_blocks(io.BytesIO(text)))
    position = whole[after].end if after < len(whole) else len(text)
    file = io.BytesIO(text)
    file.seek(position)
    assert list(blocks.byte_blocks(file, position)) == whole[after + 1 :]


def test_blocks_can_be_read_by_number(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"a\nb\n" + b"long" * 8 + b"\nc\n")
    with path.open("rb") as file:
        whole = list(blocks.byte_blocks(file))
    found = [blocks.read_block(path, number) for number in range(6)]
    assert [block.number for block in whole] == [0, 4]
    assert found == [whole[0], None, None, None, whole[1], None]


@given(text=TEXTS, lines=st.integers(0, 12), size=st.integers(1, 40))
def test_reading_stops_at_the_start_of_a_line(text: bytes, lines: int, size: int) -> None:
    before = b"".join(text.splitlines(keepends=True)[:lines])
    found = blocks.byte_blocks(io.BytesIO(text), 0, len(before), size)
    assert b"".join(block.data for block in found) == before


def test_binary_files_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_files, "MAX_LINE_BYTES", 100)
    with pytest.raises(DataError, match="it has a line longer than 100 bytes"):
        list(blocks.byte_blocks(io.BytesIO(b"a\nb" + b"x" * 200), 3, name="it"))


@pytest.mark.parametrize("size", [1, 4, 8, 100])
@pytest.mark.parametrize("after", [0, 50])
def test_invalid_utf8_is_located_in_the_file(size: int, after: int, tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"a b\nc d\ne \xff" + b"f" * after + b"\ng\n")
    with path.open("rb") as file:
        lines = (blocks.block_lines(one, path) for one in blocks.byte_blocks(file, size=size))
        with pytest.raises(DataError, match="text:3 is not valid UTF-8: byte 3"):
            list(lines)
