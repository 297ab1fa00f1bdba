"""Paths of stores: names, reading, complete writes and errors."""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairseq_ssl.errors import DataError, OutputError
from fairseq_ssl.io import remote
from fairseq_ssl.io.outputs import exclusive, is_device, real_path, write_errors
from fairseq_ssl.io.remote import RemotePath, as_path, list_files, upload

URL = "s3://bucket/a b/news.en.gz"


@pytest.fixture
def store() -> Iterator[Path]:
    """A folder of a store in memory, which is empty."""
    fsspec = pytest.importorskip("fsspec")
    yield as_path("memory://store/texts")
    fsspec.filesystem("memory").store.clear()


def test_names() -> None:
    path = as_path(URL)
    assert str(path) == f"{path}" == URL
    assert (path.name, path.stem, path.suffix) == ("news.en.gz", "news.en", ".gz")
    assert str(path.parent) == "s3://bucket/a b"
    assert str(path.parent.parent) == str(as_path("s3://bucket/")) == "s3://bucket"
    assert path.parent / "news.en.gz" == path == path.with_name("old").with_name(path.name)
    assert str(path.with_suffix(".zst")) == "s3://bucket/a b/news.en.zst"
    assert path.absolute() is path.resolve() is path is real_path(path)
    assert path.match("s3://bucket/*/*.gz")
    assert not path.match("s3://bucket/*.gz")
    assert sorted([path / "b", path / "a"]) == [path / "a", path / "b"]
    for same in (pickle.loads(pickle.dumps(path)), as_path(str(path)), path.parent / path.name):
        assert type(same) is RemotePath
        assert same == path
        assert hash(same) == hash(path)


def test_local_paths() -> None:
    assert as_path("a/b") == as_path(Path("a/b")) == Path("a/b")
    assert as_path("file:///a/b") == Path("/a/b")
    assert not isinstance(as_path("a:b"), RemotePath)


@pytest.mark.parametrize("url", ["s3://", "hdfs:///texts/news"])
def test_url_without_a_host(url: str) -> None:
    with pytest.raises(DataError, match="contains no bucket or host"):
        as_path(url)


@pytest.mark.parametrize("use", [os.fspath, open, os.path.realpath])
def test_a_function_that_needs_a_local_file(use: Any) -> None:
    path = as_path(URL)
    with pytest.raises(DataError, match="is a URL"):
        use(path)
    with pytest.raises(OutputError, match="is a URL"), exclusive(path):
        pass
    assert not is_device(path)


def test_files(store: Path) -> None:
    path = store / "one.txt"
    assert not path.exists()
    assert not path.is_file()
    assert not path.is_dir()
    assert path.write_bytes("für\n".encode()) == 5
    assert path.read_text("utf-8") == "für\n"
    assert path.read_bytes() == "für\n".encode()
    assert path.is_file()
    assert path.exists()
    assert not path.is_dir()
    assert path.stat().st_size == 5
    assert path.stat().st_mtime_ns > 0
    with path.open("rb") as file:
        file.seek(1)
        assert file.read() == "ür\n".encode()
    with path.open() as file:
        assert list(file) == ["für\n"]
    before = path.stat().st_mtime_ns
    path.write_bytes(b"x")
    assert path.stat().st_mtime_ns > before
    path.unlink()
    path.unlink(missing_ok=True)
    with pytest.raises(FileNotFoundError):
        path.unlink()


def test_folders(store: Path) -> None:
    for name in ("b.en", "a.en", "a.de", "deep/c.en"):
        (store / name).write_bytes(b"1234")
    assert store.is_dir()
    assert not store.is_file()
    assert sorted(store.iterdir()) == [store / name for name in ("a.de", "a.en", "b.en", "deep")]
    assert {name: status.st_size for name, status in list_files(store).items()} == {
        "a.de": 4,
        "a.en": 4,
        "b.en": 4,
    }
    assert sorted(store.glob("*.en")) == [store / "a.en", store / "b.en"]
    assert sorted(store.parent.glob("t*/**/c.en")) == [store / "deep" / "c.en"]


@pytest.mark.parametrize("schemes", [remote.OBJECT_STORES, ()])
def test_upload(
    schemes: tuple[str, ...], store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With and without a temporary name in the store."""
    monkeypatch.setattr(remote, "OBJECT_STORES", schemes)
    for target in (store / "part", tmp_path / "part"):
        local = tmp_path / "part.tmp"
        local.write_bytes(b"content")
        upload(local, target)
        assert target.read_bytes() == b"content"
        assert not local.exists()
        assert [path.name for path in target.parent.iterdir()] == ["part"]


def test_an_incomplete_upload_is_reported(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsspec = pytest.importorskip("fsspec")

    local = tmp_path / "part.tmp"
    local.write_bytes(b"content")
    kind = fsspec.get_filesystem_class("memory")
    monkeypatch.setattr(kind, "put_file", lambda self, source, key: self.pipe_file(key, b"cont"))
    message = "memory://store/texts/part could not be written: 4 of 7 bytes were written"
    with pytest.raises(OutputError, match=message), write_errors(store / "part"):
        upload(local, store / "part")
    assert local.exists()


def test_files_open_for_reading_only(store: Path) -> None:
    for mode in ("wb", "ab", "r+b"):
        with pytest.raises(io.UnsupportedOperation):
            (store / "one").open(mode)
    assert not (store / "one").exists()


def test_errors_of_a_store_are_those_of_a_file_system(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsspec = pytest.importorskip("fsspec")

    class StoreError(Exception):
        """A package's own type."""

    for raised, kind in (
        (PermissionError("Forbidden"), PermissionError),
        (StoreError("No route.\nTry later."), OSError),
        (TimeoutError(), OSError),
    ):

        def fail(*_: Any, raised: Exception = raised, **__: Any) -> None:
            raise raised

        monkeypatch.setattr(fsspec.get_filesystem_class("memory"), "info", fail)
        with pytest.raises(kind) as caught:
            store.stat()
        assert caught.value.filename == str(store)
        assert caught.value.strerror in ("Permission denied", "No route.", "TimeoutError")


def test_unknown_schemes_and_missing_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec = pytest.importorskip("fsspec")
    with pytest.raises(OSError, match="Protocol not known: nothing"):
        as_path("nothing://a/b").exists()

    def missing(scheme: str) -> None:
        raise ImportError(f"Install the package of {scheme}")

    monkeypatch.setattr(fsspec, "get_filesystem_class", missing)
    with pytest.raises(DataError, match="cannot be opened: Install the package of gs"):
        as_path("gs://a/b").exists()
