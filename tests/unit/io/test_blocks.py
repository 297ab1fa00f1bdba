"""Blocks of lines are the same for all readers and parts of a text, and complete."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.io import blocks, text_files
from fairseq_ssl.io.blocks import (
    Block,
    Span,
    file_blocks,
    line_rows,
    memory_blocks,
    read_parallel,
    span_blocks,
    split_files,
)


@pytest.fixture(autouse=True, scope="module")
def _small() -> object:
    size, blocks.BLOCK_SIZE = blocks.BLOCK_SIZE, 8
    yield
    blocks.BLOCK_SIZE = size


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("texts")


PAIRS = st.lists(st.tuples(st.text("ab", max_size=20), st.text("\u00e9", max_size=9)), max_size=12)


def write(folder: Path, pairs: list[tuple[str, str]], end: str) -> tuple[Path, Path]:
    """Write parallel files, of which the last lines have an end or not."""
    paths = folder / "left", folder / "right"
    for side, path in enumerate(paths):
        text = "\n".join(pair[side] for pair in pairs)
        path.write_text(text + (end or "\n" * (not text.endswith("b"))), encoding="utf-8")
    return paths


def content(found: list[Block]) -> list[object]:
    """Return the values that must not depend on how a text is split."""
    return [(block.number, block.starts, block.data, block.place(0)) for block in found]


@given(
    pairs=PAIRS, end=st.sampled_from(["", "\n"]), part=st.integers(1, 40), sides=st.integers(1, 2)
)
def test_parts_have_the_blocks_of_the_file(
    folder: Path, pairs: list[tuple[str, str]], end: str, part: int, sides: int
) -> None:
    paths = write(folder, [*pairs, ("b", "b")], end)[:sides]
    text = paths[0].read_bytes()
    whole = list(file_blocks(*paths))
    spans = split_files(Span(paths), part)
    assert content([block for span in spans for block in span_blocks(span)]) == content(whole)
    assert b"".join(block.data[0] for block in whole) == text
    for block in whole:
        start = block.starts[0]
        assert block.number * 8 <= start < (block.number + 1) * 8
        assert text[start - 1 : start] in (b"", b"\n")
        assert block.ends[0] == len(text) or block.data[0].endswith(b"\n")
        for side, path in enumerate(paths):
            line = path.read_bytes()[: block.starts[side]].count(b"\n") + 1
            assert block.place(0, side) == f"{path}:{line}"


@given(pairs=PAIRS, after=st.integers(0, 20), packed=st.booleans())
def test_reading_can_resume_after_any_block(
    folder: Path, pairs: list[tuple[str, str]], after: int, packed: bool
) -> None:
    paths = write(folder, [*pairs, ("b", "b")], "\n")
    if packed:
        data, paths = paths[0].read_bytes(), (folder / "left.gz", paths[1])
        paths[0].write_bytes(gzip.compress(data))
    whole = list(file_blocks(*paths))
    last = whole[min(after, len(whole) - 1)]
    rest = Span(paths, 0, last.ends, None, last.first + last.count)
    assert content(list(span_blocks(rest))) == content(whole[after + 1 :])


def test_a_text_in_memory_has_the_blocks_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"a\nbcdefghijklm\n" * 20)
    found = list(memory_blocks(path.read_bytes()))
    assert [block.data for block in found] == [block.data for block in file_blocks(path)]
    assert found[3].place(1) == f"stdin:{found[3].first + 2}"


@pytest.mark.parametrize("size", [1, 8, 100])
@pytest.mark.parametrize("after", [0, 50])
def test_invalid_utf8_is_located_in_the_file(size: int, after: int, tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"a b\nc d\ne \xff" + b"f" * after + b"\ng\n")
    for sides in ([path], [path, path]):
        with pytest.raises(DataError, match=r"text:3 .* byte 3"):
            [block.lines(len(sides) - 1) for block in file_blocks(*sides, size=size)]
    spans = split_files(Span((path,)), size, size)
    with pytest.raises(DataError, match=r"text:3 .* byte 3"):
        [block.lines() for span in spans for block in span_blocks(span, size)]


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
    found = list(file_blocks(*paths))
    assert [pair for block in found for pair in block.pairs()] == pairs
    assert found[-1].fraction == 1
    number = 1
    for block in found:
        assert block.place(0, 1) == f"{paths[1]}:{number}"
        number += block.count


@pytest.mark.parametrize(("left", "right"), [(2, 3), (3, 2), (0, 1), (0, 0)])
def test_files_of_different_lengths_are_rejected(left: int, right: int, tmp_path: Path) -> None:
    paths = tmp_path / "left", tmp_path / "right.gz"
    paths[0].write_text("a\n" * left)
    paths[1].write_bytes(gzip.compress(b"a\n" * right))
    if left == right:
        assert not [*file_blocks(*paths), *read_parallel(paths)]
        return
    ended = paths[left > right].name
    for read in (lambda: file_blocks(*paths), lambda: read_parallel(paths)):
        with pytest.raises(DataError, match=f"{ended} ends after line {min(left, right)}"):
            list(read())


def test_very_long_lines_are_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_files, "MAX_LINE_BYTES", 100)
    (tmp_path / "it").write_bytes(b"a\nb" + b"x" * 200)
    (tmp_path / "short").write_bytes(b"a\nb\n")
    for names in (["it"], ["short", "it"]):
        with pytest.raises(DataError, match="it contains a line of"):
            list(file_blocks(*map(tmp_path.__truediv__, names)))


def test_fractions_of_a_part_and_of_the_rest_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"1234567\n" * 16)
    part = split_files(Span((path,)), 32)[1]
    assert [block.fraction for block in span_blocks(part)] == [0.25, 0.5, 0.75, 1.0]
    rest = list(span_blocks(Span((path,), 0, (64,), None, None)))
    assert rest[-1].fraction == 1


@given(st.lists(st.text("ab", max_size=20), max_size=12), st.integers(1, 9))
def test_rows_of_all_shards_have_the_lines_and_their_positions(
    texts: list[str], shards: int
) -> None:
    text = "\n".join(texts).encode()
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(text)
        rows = [row for n in range(shards) for row in line_rows(file.name, (n + 1, shards))]
    expected = [
        {"text": line.decode(), "block": block.number, "line": number}
        for block in memory_blocks(text)
        for number, line in enumerate(block.raw_lines())
    ]
    assert rows == expected


@pytest.mark.parametrize("name", ["text.gz", "windows"])
def test_files_that_cannot_be_divided_have_one_shard(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(b"a\nb\n") if name.endswith(".gz") else b"a\r\nb\r\n")
    assert [row["text"] for row in line_rows(path)] == ["a", "b"]
    with pytest.raises(UsageError, match="cannot be split into shards"):
        next(line_rows(path, (1, 2)))
