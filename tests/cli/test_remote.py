"""Commands that read and write texts in an object store whose requests fail often."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairseq_ssl.cli.main import main
from fairseq_ssl.io import blocks
from fairseq_ssl.io.remote import as_path, list_files, upload
from fairseq_ssl.io.text_files import JOB, MANIFEST, compress_chunk, open_text
from tests.cli.rewriting import refused, shown
from tests.cli.test_learned_filter import FIT, VECTORS, here
from tests.conftest import ROOT
from tests.object_store import ObjectStore, object_store

__all__ = ["here"]

LINES = [f"w{n % 7} w{n % 11} a b c x{n % 1000} ." for n in [*range(2000), *range(1000)]]
TEXT = "".join(f"{line}\n" for line in LINES).encode()


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with object_store() as store:
        yield store


@pytest.fixture(scope="module")
def url(store: ObjectStore) -> str:
    """The text in the store."""
    return store.put("corpora/text", TEXT)


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


def test_a_file_a_glob_and_a_folder(
    store: ObjectStore, local: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    pytest.importorskip("zstandard")
    words = ("tokenize", "--moses", "en", "--jobs", "1")
    expected = printed(capfdbinary, *words, "clean")
    store.put("corpora/clean", TEXT)
    for number in range(3):
        lines = LINES[1000 * number : 1000 * number + 1000]
        store.put(f"corpora/glob/{number}.gz", gzip.compress("\n".join(lines).encode()))
    put_parts(store, "corpora/folder", ".zst")
    for name in ("clean", "glob/*.gz", "glob", "folder"):
        assert printed(capfdbinary, *words, f"s3://corpora/{name}") == expected
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
    error = refused(capsys, 1, "postprocess", "--remove-brackets", "clean", "-o", "s3://corpora/o")
    assert "s3://corpora/o is a URL. Expected a local path" in error


PARTS = ("--part-size", "20K", "-o")
CHARACTERS = ("--method", "characters")


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Divide the text into three parts, of blocks of 2,000 bytes."""
    monkeypatch.setattr(blocks, "BLOCK_SIZE", 2000)


def names(folder: str) -> list[str]:
    return sorted(path.name for path in as_path(folder).iterdir())


def joined(folder: str) -> bytes:
    """Return the text of a folder, which has only its parts and the manifest."""
    parts = json.loads((as_path(folder) / MANIFEST).read_text())["parts"]
    assert names(folder) == sorted([MANIFEST, *(part["name"] for part in parts)])
    assert len(parts) > 2
    with open_text(folder) as file:
        return file.read()


def written(store: ObjectStore, folder: str) -> dict[str, set[bytes]]:
    """Return the contents that the parts of a folder have had, and forget them."""
    path = folder.removeprefix("s3:/")
    found = {name: store.proxy.written.pop(name) for name in list(store.proxy.written)}
    return {name: data for name, data in found.items() if name.startswith(f"{path}/part-")}


def test_noise_into_a_store(
    small_blocks: None,
    store: ObjectStore,
    url: str,
    local: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A part is never visible before it has all its bytes, and is made again if it is damaged."""
    pytest.importorskip("zstandard")
    output = "s3://corpora/noisy.zst"
    command = ["noise", url, *CHARACTERS, "--jobs", "1", *PARTS]
    shown(capsys, "noise", "clean", *CHARACTERS, "--jobs", "1", "-o", "whole")
    written(store, output)
    shown(capsys, *command, f"{output}/")
    assert joined(output) == Path("whole").read_bytes()
    assert [len(contents) for contents in written(store, output).values()] == [1] * 3
    part = as_path(output) / "part-00001.zst"
    part.write_bytes(part.read_bytes()[:-5])
    (as_path(output) / "part-00002.zst").unlink()
    error = refused(capsys, 1, "tokenize", "--moses", "en", output)
    assert f"{part} has" in error
    assert "Copy the file again." in error
    written(store, output)
    assert not shown(capsys, *command, output)
    assert joined(output) == Path("whole").read_bytes()
    assert [Path(name).name for name in written(store, output)] == [
        "part-00001.zst",
        "part-00002.zst",
    ]
    assert "noise was" in refused(capsys, 2, *command, output, "--method", "characters:rate=0.2")
    shown(capsys, *command, output, "--method", "characters:rate=0.2", "--force")
    assert joined(output) != Path("whole").read_bytes()


@pytest.mark.parametrize(
    ("method", "rounds"),
    [
        (("noise", "--method", "direct"), 1),
        pytest.param(("filter", "--filter", "clean,duplicates"), 2, marks=pytest.mark.slow),
    ],
)
def test_shards_into_a_store(
    method: tuple[str, ...],
    rounds: int,
    small_blocks: None,
    url: str,
    local: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Keys and duplicates are also in the store. Words are counted without a file of counts."""
    output = f"s3://corpora/{method[0]}"
    shown(capsys, *method, "clean", "--jobs", "1", "-o", "whole")
    words = (*method, url, "--jobs", "1", *PARTS, f"{output}/")
    for number in range(rounds):
        for shard in ("3/3", "1/3", "2/3"):
            assert main([*words, "--shard", shard]) == 0
            is_last = number == rounds - 1 and shard == "2/3"
            assert ("wrote" in capsys.readouterr().err) == is_last
    assert joined(output) == Path("whole").read_bytes()
    shown(capsys, "filter", output, "--filter", "clean", "--jobs", "1", "-o", "kept")
    assert Path("kept").read_bytes() == Path("whole").read_bytes()


@pytest.mark.slow
def test_the_best_pairs_into_a_store(
    here: Path, store: ObjectStore, capsys: pytest.CaptureFixture[str]
) -> None:
    shown(capsys, *FIT, *VECTORS, "-o", "made")
    apply = ("learned-filter", "apply", "made", "--jobs", "1", "--keep", "33")
    shown(capsys, *apply, "mono.s", "mono.t", "-o", "x", "y")
    urls = [store.put(f"corpora/mono.{side}", Path(f"mono.{side}").read_bytes()) for side in "st"]
    folders = ["s3://corpora/x", "s3://corpora/y"]
    shown(capsys, *apply, *urls, "--part-size", "1K", "-o", *folders)
    for name in "xy":
        with open_text(f"s3://corpora/{name}") as file:
            assert file.read() == Path(name).read_bytes()
        assert JOB not in names(f"s3://corpora/{name}")
    with open_text("s3://corpora/x.scores") as file:
        assert file.read() == Path("x.scores").read_bytes()


@pytest.mark.slow
def test_a_killed_run_into_a_store_resumes(
    store: ObjectStore, local: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    local.write_bytes(TEXT * 16)
    url, output = store.put("corpora/large", TEXT * 16), "s3://corpora/killed.gz"
    shown(capsys, "noise", "clean", *CHARACTERS, "--jobs", "1", "-o", "whole")
    words = ("noise", url, *CHARACTERS, "--jobs", "2", "--part-size", "256K", "-o", output)
    command = [sys.executable, "-m", "tests.store_command", *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, env=environment)
    while not list((as_path(output) / JOB).glob("part-*.json")):
        assert process.poll() is None, "it ended before it was killed"
    process.kill()
    process.wait()
    assert f"{output} is not complete" in refused(capsys, 1, "tokenize", "--moses", "en", output)
    written(store, output)
    subprocess.run(command, env=environment, check=True)
    assert joined(output) == Path("whole").read_bytes()
    assert len(written(store, output)) < 4


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        ("s3://forbidden/out/", "Permission denied: s3://forbidden/out."),
        ("s3://readonly/out/", "s3://readonly/out/_job/job.json could not be written: Permission"),
        ("s3://nothing/out/", "s3://nothing/out/_job/job.json could not be written: No such file"),
        ("s3://corpora/text/", "s3://corpora/text is a file. Delete it"),
    ],
)
def test_wrong_outputs(
    output: str, problem: str, url: str, local: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    is_file = output == f"{url}/"
    error = refused(capsys, 1 + is_file, "noise", "clean", *CHARACTERS, "-o", output)
    assert problem in error
    assert error.count("\n") == 1 + is_file


def test_a_store_without_its_package(
    local: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("fsspec")
    monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, "s3", raising=False)
    monkeypatch.setitem(sys.modules, "s3fs", None)
    error = refused(capsys, 1, "noise", "clean", *CHARACTERS, "-o", "s3://corpora/out")
    assert "s3://corpora/out cannot be opened: Install s3fs to access S3." in error


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
