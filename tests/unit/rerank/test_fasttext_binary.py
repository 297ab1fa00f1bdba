"""Damaged fastText models. gensim reads those that end within a word forever."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest

pytest.importorskip("gensim")

from fairseq_ssl.errors import DataError
from fairseq_ssl.rerank.word_vectors import (
    BINARY_HEADER,
    VectorTraining,
    read_vectors,
    train_vectors,
)

WORDS = {"one", "two", "unseen"}
INTEGER = 4


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("vectors")
    (folder / "text").write_text("one two three four\n" * 30)
    train_vectors([folder / "text"], folder / "a.bin", VectorTraining(dimensions=4, buckets=50))
    return (folder / "a.bin").read_bytes()


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_truncated_files_are_rejected(whole: bytes, tmp_path: Path) -> None:
    matrix = whole.index(struct.pack("<?2q", False, 54, 4))
    for end in (*range(0, BINARY_HEADER.size + 30), matrix + 10, matrix + 200):
        with pytest.raises(DataError, match=r"a\.bin is not a complete fastText model: "):
            read_vectors(written(tmp_path / "a.bin", whole[:end]), WORDS)


def test_damaged_files_are_accepted_or_rejected(whole: bytes, tmp_path: Path) -> None:
    damaged = [
        whole[:start] + struct.pack("<i", value) + whole[start + INTEGER :]
        for value in (-1, 0, 2**31 - 1)
        for start in range(0, BINARY_HEADER.size, INTEGER)
    ]
    draw = random.Random(1)
    for _ in range(100):
        changed = bytearray(whole)
        for _ in range(draw.randint(1, 4)):
            changed[draw.randrange(len(whole) if draw.random() < 0.3 else 180)] = draw.randrange(
                256
            )
        damaged.append(bytes(changed))
    for data in damaged:
        try:
            read_vectors(written(tmp_path / "a.bin", data), WORDS).vector("unseen")
        except DataError as error:
            assert "\n" not in str(error)  # noqa: PT017 - some bytes only affect training
