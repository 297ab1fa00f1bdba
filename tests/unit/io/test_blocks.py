"""Blocks of lines are the same for all readers and shards, and complete."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_ssl.errors import DataError
from fairseq_ssl.io import blocks, text_files
from fairseq_ssl.io.blocks import ByteBlock, RowBlock, pair_blocks, read_parallel, row_blocks
from fairseq_ssl.io.text_files import open_bytes


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


@given(text=TEXTS, lines=st.integers(0, 12), size=st.integers(1, 40))
def test_reading_stops_at_the_start_of_a_line(text: bytes, lines: int, size: int) -> None:
    before = b"".join(text.splitlines(keepends=True)[:lines])
    found = blocks.byte_blocks(io.BytesIO(text), 0, len(before), size)
    assert b"".join(block.data for block in found) == before


@pytest.mark.parametrize("size", [1, 8, 100])
@pytest.mark.parametrize("after", [0, 50])
def test_invalid_utf8_is_located_in_the_file(size: int, after: int, tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"a b\nc d\ne \xff" + b"f" * after + b"\ng\n")
    with path.open("rb") as file:
        lines = (blocks.block_lines(one, path) for one in blocks.byte_blocks(file, size=size))
        with pytest.raises(DataError, match=r"text:3 .* byte 3"):
            list(lines)
    with pytest.raises(DataError, match=r"text:3 .* byte 3"):
        [list(block.pairs()) for block in pair_blocks(path, path)]


SIDES = [b"".join(b"%d " % n * (n % step) + b"\n" for n in range(300)) for step in (5, 3, 7)]


def rows(found: list[RowBlock]) -> list[tuple[bytes, ...]]:
    return [
        row
        for block in found
        for row in zip(*map(block.raw_lines, range(len(block.data))), strict=True)
    ]


@pytest.mark.parametrize("sides", [1, 3])
def test_parallel_files_can_be_read_from_any_block(sides: int) -> None:
    names = [f"side{side}" for side in range(sides)]

    def read(starts: list[int] | None = None, first: int = 1) -> list[RowBlock]:
        files = [io.BytesIO(side) for side in SIDES[:sides]]
        return list(row_blocks(files, names, starts, first, 100))

    found = read()
    assert len(found) > 10
    assert rows(found) == list(
        zip(*(side.split(b"\n")[:-1] for side in SIDES[:sides]), strict=True)
    )
    assert found[-1].ends == tuple(map(len, SIDES[:sides]))
    for number, block in enumerate(found):
        assert read(list(block.ends), block.first + block.count) == found[number + 1 :]


def test_line_numbers_are_correct_after_a_seek(tmp_path: Path) -> None:
    path = tmp_path / "text.gz.tmp"
    path.write_bytes(gzip.compress(b"one\n") + gzip.compress(b"two\ncaf\xe9\n"))
    with open_bytes(path, ".gz") as file:
        [block] = row_blocks([file], ["text"], [4], 2, 2**10)
    assert (block.first, block.count, block.share) == (2, 2, 1.0)
    with pytest.raises(DataError, match=r"text:3 .* byte 4"):
        block.lines(0)


LINES = [("line " * (n % 7), f"zeile {n}\u2028" if n % 5 else "") for n in range(99)]


@pytest.mark.parametrize("size", [1, 100, 2**18])
@pytest.mark.parametrize("end", ["\n", ""])
def test_each_pair_is_in_one_block(
    size: int, end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BLOCK_SIZE", size)
    pairs = [*LINES, ("", ""), ("a", "b")]
    left, right = ("\n".join(side) + end for side in zip(*pairs, strict=True))
    paths = tmp_path / "left", tmp_path / "right.gz"
    paths[0].write_text(left, encoding="utf-8")
    paths[1].write_bytes(gzip.compress(right.encode()))
    found = list(pair_blocks(*paths))
    assert [pair for block in found for pair in block.pairs()] == pairs
    assert found[-1].share == 1
    number = 1
    for block in found:
        assert block.place(1, 0) == f"{paths[1]}:{number}"
        number += block.count


@pytest.mark.parametrize(("left", "right"), [(2, 3), (3, 2), (0, 1), (0, 0)])
def test_files_of_different_lengths_are_rejected(left: int, right: int, tmp_path: Path) -> None:
    paths = tmp_path / "left", tmp_path / "right.gz"
    paths[0].write_text("a\n" * left)
    paths[1].write_bytes(gzip.compress(b"a\n" * right))
    if left == right:
        assert not [*pair_blocks(*paths), *read_parallel(paths)]
        return
    ended = paths[left > right].name
    for read in (lambda: pair_blocks(*paths), lambda: read_parallel(paths)):
        with pytest.raises(DataError, match=f"{ended} ends after line {min(left, right)}"):
            list(read())


def test_very_long_lines_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_files, "MAX_LINE_BYTES", 100)
    text = io.BytesIO(b"a\nb" + b"x" * 200)
    with pytest.raises(DataError, match="it has a line longer"):
        list(blocks.byte_blocks(text, name="it"))
    with pytest.raises(DataError, match="it has a line longer"):
        list(row_blocks([io.BytesIO(b"a\n"), io.BytesIO(b"x" * 101)], ["a", "it"]))
