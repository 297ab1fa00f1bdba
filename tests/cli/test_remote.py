"""Commands that read texts from an object store whose requests fail often."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairseq_ssl.cli.main import main
from fairseq_ssl.io.remote import as_path, list_files, upload
from fairseq_ssl.io.text_files import compress_chunk
from tests.cli.rewriting import refused
from tests.object_store import ObjectStore, object_store

LINES = [f"w{n % 7} w{n % 11} a b c x{n % 1000} ." for n in range(3000)]
TEXT = "".join(f"{line}\n" for line in LINES).encode()


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with object_store() as store:
        yield store


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The text as a file, in the folder of the test."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "clean"
    path.write_bytes(TEXT)
    return path


def printed(capfdbinary: pytest.CaptureFixture[bytes], *words: str) -> bytes:
    assert main(list(words)) == 0
    return capfdbinary.readouterr().out


def put_parts(store: ObjectStore, folder: str, suffix: str) -> None:
    """Write the text as parts with a manifest, whose order is not that of their names."""
    parts = []
    for number, start in enumerate(range(0, len(LINES), 1000)):
        chunk = "".join(f"{line}\n" for line in LINES[start : start + 1000]).encode()
        name, data = f"part-{9 - number}{suffix}", compress_chunk(chunk, suffix)
        store.put(f"{folder}/{name}", data)
        parts.append({"name": name, "bytes": len(data)})
    store.put(f"{folder}/manifest.json", json.dumps({"parts": parts}).encode())


def test_noise_of_a_file_a_glob_and_a_folder(
    store: ObjectStore, local: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    pytest.importorskip("zstandard")
    options = ("--method", "direct:keep=0.5", "--seed", "3", "--jobs", "1")
    expected = printed(capfdbinary, "noise", "clean", *options)
    store.put("corpora/clean", TEXT)
    for number in range(3):
        lines = LINES[1000 * number : 1000 * number + 1000]
        store.put(f"corpora/glob/{number}.gz", gzip.compress("\n".join(lines).encode()))
    put_parts(store, "corpora/folder", ".zst")
    for name in ("clean", "glob/*.gz", "glob", "folder"):
        assert printed(capfdbinary, "noise", f"s3://corpora/{name}", *options) == expected
    assert store.proxy.busy > 5
    assert store.proxy.cut > 3


def test_score_of_texts_in_a_store(
    store: ObjectStore, local: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    Path("worse").write_bytes(TEXT.replace(b"w1", b"w2"))
    url = store.put("corpora/year=2024/worse", Path("worse").read_bytes())
    put_parts(store, "corpora/gold", ".gz")
    expected = printed(capfdbinary, "score", "bleu", "worse", "--reference", "clean")
    found = printed(capfdbinary, "score", "bleu", url, "--reference", "s3://corpora/gold")
    assert found.replace(url.encode(), b"worse") == expected


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("s3://corpora/gone", "does not exist"),
        ("s3://corpora/gone/*.en", "No file matches"),
        ("s3://nothing/text", "does not exist"),
        ("s3://forbidden/text", "permission denied"),
    ],
)
def test_wrong_addresses(
    url: str, problem: str, store: ObjectStore, capsys: pytest.CaptureFixture[str]
) -> None:
    error = refused(capsys, 1, "tokenize", "--moses", "en", url)
    assert url in error
    assert problem in error


def test_a_store_without_credentials_or_route(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fsspec = pytest.importorskip("fsspec")

    fsspec.get_filesystem_class("s3").clear_instance_cache()
    with monkeypatch.context() as patch:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.delenv(name)
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
        assert "credentials" in refused(capsys, 1, "tokenize", "--moses", "en", "s3://corpora/text")
    fsspec.get_filesystem_class("s3").clear_instance_cache()
    with monkeypatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
        patch.setenv("AWS_MAX_ATTEMPTS", "1")
        error = refused(capsys, 1, "tokenize", "--moses", "en", "s3://corpora/text")
        assert "s3://corpora/text cannot be read: Could not connect" in error
    fsspec.get_filesystem_class("s3").clear_instance_cache()


def test_an_output_that_must_be_local(
    store: ObjectStore, local: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    error = refused(capsys, 1, "tokenize", "--moses", "en", "clean", "-o", "s3://corpora/out")
    assert "s3://corpora/out is a URL. Expected a local path" in error


@pytest.mark.parametrize("size", [0, 1000, 2**24])
def test_uploads(size: int, store: ObjectStore, tmp_path: Path) -> None:
    """Parts of files larger than s3fs sends at once are written together."""
    folder = as_path(f"s3://corpora/out{size}")
    data = bytes(range(250)) * (size // 250)
    for number in range(6):
        local = tmp_path / "part.tmp"
        local.write_bytes(data)
        upload(local, folder / f"part-{number}")
    assert (folder / "part-5").read_bytes() == data
    (folder / "manifest.json").write_bytes(b"{}")
    assert (folder / "manifest.json").read_text() == "{}"
    assert len(list_files(folder)) == 7
    (folder / "part-0").unlink()
    assert not (folder / "part-0").exists()
