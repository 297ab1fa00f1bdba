"""Reading and training of word vectors; damaged fastText models, which gensim reads forever."""

from __future__ import annotations

import gzip
import random
import struct
from pathlib import Path

import numpy as np
import pytest

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.io.jobs import Progress
from fairseq_ssl.rerank.ensemble_selection import MeanVectors, choose_output
from fairseq_ssl.rerank.word_vectors import (
    BINARY_HEADER,
    VectorTraining,
    read_vectors,
    train_vectors,
)


def test_read_vectors(tmp_path: Path) -> None:
    text = b"4 2\neast 1 0.5 \nnorth -2e-1 2\n\xff 1 1\neast 7 7\n"
    (tmp_path / "a.vec").write_bytes(text)
    (tmp_path / "b.vec.gz").write_bytes(gzip.compress(text))
    for name in ("a.vec", "b.vec.gz"):
        found = read_vectors(tmp_path / name, {"east", "other"})
        assert found.dimensions == 2
        east = found.vector("east")
        assert east is not None
        assert east.tolist() == [1, 0.5]
        assert found.vector("north") is None


@pytest.mark.parametrize(
    ("text", "line"),
    [
        *(("", "a.vec:1"), ("east 1 0\n", "a.vec:1"), ("1 3\neast 1 0\n", "a.vec:2")),
        *(("1 2\neast 1 x\n", "a.vec:2"), ("2 2\neast 1 0\n", "a.vec")),
    ],
)
def test_wrong_lines_of_vectors_are_named(text: str, line: str, tmp_path: Path) -> None:
    (tmp_path / "a.vec").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=line):
        read_vectors(tmp_path / "a.vec", {"east"})


def test_wrong_vector_files_are_named(tmp_path: Path) -> None:
    pytest.importorskip("gensim")
    with pytest.raises(UsageError, match=r"a\.txt"):
        read_vectors(tmp_path / "a.txt", set())
    (tmp_path / "text").write_text("a\n")
    with pytest.raises(DataError, match="9999"):
        train_vectors(
            [tmp_path / "text"], tmp_path / "a.vec", VectorTraining(min_count=9999, buckets=10)
        )
    with pytest.raises(UsageError, match=r"a\.txt"):
        train_vectors([tmp_path / "text"], tmp_path / "a.txt", VectorTraining())


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write sentences of two topics without common words."""
    path = tmp_path_factory.mktemp("text") / "text.gz"
    draw = np.random.default_rng(1)
    topics = [["cat", "dog", "bird", "fish"], ["sum", "root", "power", "factor"]]
    lines = [" ".join(draw.choice(topics[n % 2], 8)) for n in range(500)]
    path.write_bytes(gzip.compress(("\n".join([*lines, "once"]) + "\n").encode()))
    return path


SMALL = VectorTraining(dimensions=12, epochs=3, min_count=2, buckets=500, sample=0)


def test_train_vectors(text: Path, tmp_path: Path) -> None:
    pytest.importorskip("gensim")
    lines: list[int] = []

    def progress(task: str, unit: str, total: int | None = None) -> Progress:
        return lambda count, fraction=None, note="": lines.append(count)

    for name in ("a.vec", "b.vec", "c.bin"):
        signature = train_vectors([text], tmp_path / name, SMALL, progress=progress)
        assert signature.parameters["words"] == 8
    assert sum(lines) == 3 * 4 * 501
    assert (tmp_path / "a.vec").read_bytes() == (tmp_path / "b.vec").read_bytes()
    table = read_vectors(tmp_path / "a.vec", {"cat", "dog", "sum", "root", "once"})
    assert table.dimensions == 12
    assert table.vector("once") is None
    subwords = read_vectors(tmp_path / "c.bin", set())
    for word in ("cat", "sum"):
        assert subwords.vector(word) == pytest.approx(table.vector(word), rel=1e-3, abs=1e-5)
    unknown = subwords.vector("cats")
    assert unknown is not None
    assert unknown.any()
    means = MeanVectors(table)
    assert means("cat") @ means("dog") > means("cat") @ means("root") + 0.3
    assert choose_output(["cat", "sum", "root"], means) in (1, 2)


WORDS = {"one", "two", "unseen"}
INTEGER = 4


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    pytest.importorskip("gensim")
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
