"""Atomic text files."""

from __future__ import annotations

import gzip
import resource
from pathlib import Path

import pytest

from fairseq_ssl.errors import DataError
from fairseq_ssl.io.outputs import atomic_lines


@pytest.mark.parametrize("name", ["deep/lines.tsv", "lines.tsv.gz"])
def test_file_appears_at_the_end(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    with atomic_lines(path) as file:
        file.write("a\u2028b\n")
        assert not path.exists()
    assert [*path.parent.iterdir()] == [path]
    data = path.read_bytes()
    assert (gzip.decompress(data) if name.endswith(".gz") else data) == "a\u2028b\n".encode()


def test_existing_file_is_kept_until_the_end(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text("old\n")
    writing = atomic_lines(path)
    writing.__enter__().write("half")
    writing.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert path.read_text() == "old\n"
    assert [*tmp_path.iterdir()] == [path]


def test_a_full_disk_is_reported(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    writing = atomic_lines(tmp_path / "lines")
    writing.__enter__().write("a\n")
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))  # stands for a full disk
    try:
        with pytest.raises(DataError, match="lines could not be written: File too large"):
            writing.__exit__(None, None, None)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list(tmp_path.iterdir())
