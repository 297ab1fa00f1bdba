"""Folders of parts: the same bytes as one file, resumed by part and made by shards."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from fairseq_ssl.errors import DataError, OutputError, UsageError
from fairseq_ssl.io import parts
from fairseq_ssl.io.blocks import Block
from fairseq_ssl.io.corpus import Corpus
from fairseq_ssl.io.executors import LocalExecutor
from fairseq_ssl.io.jobs import silent_progress
from fairseq_ssl.io.parts import BlockFunction, BlockResult, PartFolder
from fairseq_ssl.io.text_files import JOB, MANIFEST
from fairseq_ssl.io.text_jobs import Outputs, TextJob
from fairseq_ssl.signature import Signature
from tests.unit.io.test_text_jobs import TEXT, upper

LOWER = TEXT.swapcase()


def both(block: Block) -> BlockResult:
    """Convert the first side as `upper` does, and keep the second one."""
    done = upper(block)
    return BlockResult((*done.outputs, block.data[1]), done.counts, done.examples)


class BothJob(TextJob):
    """A job on two sides with blocks of 32 bytes."""

    name = "both"

    def __init__(self, folder: Path, names: tuple[str, str], seed: int = 1, **how: Any) -> None:
        self.folder, self.seed = folder, seed
        outputs = [PartFolder(folder / name, **how) for name in names]
        corpus = Corpus((folder / "left", folder / "right"), 32)
        super().__init__(corpus, Outputs.of(*outputs), LocalExecutor(1), silent_progress)

    def parameters(self) -> dict[str, Any]:
        return {"seed": self.seed, "input_is": self.corpus.fingerprint}

    def prepare(self) -> BlockFunction:
        return both

    def signature(self) -> Signature:
        return Signature("both", {"seed": self.seed, **self.totals}, self.tally.examples)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "left").write_text(TEXT)
    (tmp_path / "right").write_text(LOWER)
    return tmp_path


def joined(folder: Path) -> str:
    """Return the text of the parts in the manifest, and check their records."""
    manifest = json.loads((folder / MANIFEST).read_text())
    texts = []
    for part in manifest["parts"]:
        data = (folder / part["name"]).read_bytes()
        text = gzip.decompress(data) if part["name"].endswith(".gz") else data
        assert part["bytes"] == len(data)
        assert part["lines"] == text.count(b"\n")
        texts.append(text.decode())
    assert {path.name for path in folder.iterdir()} == {
        MANIFEST,
        *(part["name"] for part in manifest["parts"]),
    }
    return "".join(texts)


SIZES = [1, 100, 10_000]


@pytest.mark.parametrize("part_size", SIZES)
@pytest.mark.parametrize("shards", [1, 3])
def test_parts_are_the_text_of_one_file(folder: Path, part_size: int, shards: int) -> None:
    is_single = part_size > len(TEXT)  # which the last shard writes
    for index in range(shards, 0, -1):
        shard = (index, shards)
        job = BothJob(folder, ("a.en", "b.de.gz"), shard=shard, part_size=part_size)
        is_last = index == (shards if is_single else 1)
        assert job.run(False) == is_last
        assert (folder / "a.en" / MANIFEST).exists() == (is_last or is_single)
    assert joined(folder / "a.en") == TEXT.upper()
    assert joined(folder / "b.de.gz") == LOWER
    manifest = json.loads((folder / "a.en" / MANIFEST).read_text())
    assert manifest["lines"] == 40
    assert manifest["second"][0] == {"line": 2, "text": TEXT.split("\n")[1]}
    for example in manifest["second"]:
        assert example["text"] == TEXT.split("\n")[example["line"] - 1]
    names = [part["name"] for part in manifest["parts"]]
    assert names == [f"part-{number:05d}.en" for number in range(len(names))]
    assert (len(names) == 1) == is_single
    assert not BothJob(folder, ("a.en", "b.de.gz"), part_size=part_size).run(False)


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[int]]:
    """A function that lets the next runs stop at a part. It returns the parts that are written."""

    def stop(at: int) -> list[int]:
        written: list[int] = []
        original = parts.PartWriter.__call__

        def write(self: parts.PartWriter, index: int, span: Any) -> Any:
            if len(written) == at:
                raise KeyboardInterrupt
            written.append(index)
            return original(self, index, span)

        monkeypatch.setattr(parts.PartWriter, "__call__", write)
        return written

    return stop


def test_an_interrupted_job_makes_the_missing_parts(
    folder: Path, stopped: Callable[[int], list[int]]
) -> None:
    written = stopped(2)
    with pytest.raises(KeyboardInterrupt):
        BothJob(folder, ("a", "b"), part_size=100).run(False)
    assert written == [0, 1]
    assert not (folder / "a" / MANIFEST).exists()
    (folder / "b" / "part-00000").write_text("other\n")
    with pytest.raises(UsageError, match=r"seed was 1 and is 2\. Set `overwrite`"):
        BothJob(folder, ("a", "b"), seed=2, part_size=100).run(False)
    written[:] = [-1] * 3
    assert BothJob(folder, ("a", "b"), part_size=100).run(False)
    assert written == [-1] * 3 + [0, *range(2, 1 + max(written))]
    assert joined(folder / "a") == TEXT.upper()
    assert joined(folder / "b") == LOWER


def test_parts_that_do_not_match_the_manifest_are_made_again(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert BothJob(folder, ("a", "b"), part_size=100).run(False)
    before = [(folder / name / MANIFEST).read_bytes() for name in "ab"]
    data = (folder / "b" / "part-00001").read_bytes()
    (folder / "b" / "part-00001").write_bytes(data.swapcase())
    (folder / "a" / "part-00003").unlink()
    assert not BothJob(folder, ("a", "b"), part_size=100).run(False)
    assert caplog.messages == [
        f"{folder / 'a'}: rewriting parts that do not match: part-00001, part-00003"
    ]
    assert joined(folder / "a") == TEXT.upper()
    assert joined(folder / "b") == LOWER
    assert [(folder / name / MANIFEST).read_bytes() for name in "ab"] == before


def test_other_folders_are_kept(folder: Path) -> None:
    (folder / "a").mkdir()
    (folder / "a" / "notes").write_text("mine\n")
    for overwrite in (False, True):
        with pytest.raises(UsageError, match="a is not empty, and is not an output"):
            BothJob(folder, ("a", "b")).run(overwrite)
    assert not (folder / "b").exists()
    for names in (("left", "b"), ("a", "a"), ("a", "a/b")):
        with pytest.raises(UsageError, match=r"is an input or another output|is in the input"):
            BothJob(folder, names)


def test_overwriting(folder: Path) -> None:
    """Files of other programs, which were added later, are kept."""
    assert BothJob(folder, ("a", "b"), part_size=1).run(False)
    (folder / "a" / "notes").write_text("mine\n")
    assert BothJob(folder, ("a", "b"), seed=2, part_size=10_000).run(True)
    assert (folder / "a" / "notes").read_text() == "mine\n"
    (folder / "a" / "notes").unlink()
    assert joined(folder / "a") == TEXT.upper()
    with pytest.raises(UsageError, match="`overwrite` cannot be set with `shard`"):
        BothJob(folder, ("a", "b"), shard=(1, 2)).run(True)


def test_an_error_in_the_first_part_leaves_no_folder(folder: Path) -> None:
    (folder / "right").write_text(LOWER[:-60])
    with pytest.raises(DataError, match=r"right ends after line 3\d, but .*left has more lines"):
        BothJob(folder, ("a", "b")).run(False)
    (folder / "left").write_bytes(b"caf\xe9\n")
    (folder / "right").write_text("a\n")
    job = BothJob(folder, ("a", "b"))
    job.prepare = lambda: failing  # type: ignore[method-assign]
    with pytest.raises(DataError, match="left:1 is not valid UTF-8"):
        job.run(False)
    assert sorted(path.name for path in folder.iterdir()) == ["left", "right"]


def failing(block: Block) -> BlockResult:
    """Decode a block."""
    block.lines()
    raise AssertionError


def test_files_of_parallel_texts(folder: Path) -> None:
    """Each file is a part. Lines are counted over all files."""
    for side, text in (("left", TEXT), ("right", LOWER)):
        lines = text.splitlines(keepends=True)
        (folder / side).unlink()
        (folder / side).mkdir()
        for number in range(4):
            (folder / side / f"{number}").write_text("".join(lines[number * 10 : number * 10 + 10]))
    assert BothJob(folder, ("a", "b"), part_size=10_000).run(False)
    assert joined(folder / "a") == TEXT.upper()
    manifest = json.loads((folder / "a" / MANIFEST).read_text())
    assert [part["lines"] for part in manifest["parts"]] == [10] * 4
    (folder / "right" / "3").unlink()
    with pytest.raises(UsageError, match=r"left has 4 files but .*right has 3\. Parallel texts"):
        BothJob(folder, ("c", "d")).run(False)


def test_a_disk_that_fills_up_keeps_the_parts(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: parts.PartFile, data: bytes) -> None:
        if b"19" in data:
            raise OSError(28, "No space left on device")
        original(self, data)

    original = parts.PartFile.write
    with monkeypatch.context() as patch:
        patch.setattr(parts.PartFile, "write", full)
        with pytest.raises(OutputError, match=r"No space left.* Run the same job again to resume"):
            BothJob(folder, ("a", "b"), part_size=100).run(False)
    records = list((folder / "a" / JOB).glob("part-*.json"))
    assert records
    assert not list((folder / "a" / JOB).glob("*.tmp"))
    assert BothJob(folder, ("a", "b"), part_size=100).run(False)
    assert joined(folder / "a") == TEXT.upper()


@pytest.mark.parametrize("shard", [(0, 3), (4, 3)])
def test_wrong_shards(shard: tuple[int, int], folder: Path) -> None:
    with pytest.raises(UsageError, match="`shard`"):
        BothJob(folder, ("a", "b"), shard=shard)
    with pytest.raises(UsageError, match="`part_size`"):
        PartFolder("a", part_size=0)


@pytest.mark.parametrize("name", ["plan", "records"])
def test_shards_that_end_at_the_same_time(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other shard writes the manifest, and deletes the records, while this one reads them."""
    original = getattr(parts.JobFolder, name)
    with monkeypatch.context() as patch:
        patch.setattr(parts.JobFolder, "finish", lambda *_: None)
        assert BothJob(folder, ("a", "b"), shard=(2, 2), part_size=10_000).run(False)

    def other_first(self: parts.JobFolder, *values: Any) -> Any:
        result = original(self, *values)
        monkeypatch.undo()
        assert BothJob(folder, ("a", "b"), shard=(2, 2), part_size=10_000).run(False)
        return result

    monkeypatch.setattr(parts.JobFolder, name, other_first)
    assert not BothJob(folder, ("a", "b"), shard=(1, 2), part_size=10_000).run(False)
    assert joined(folder / "a") == TEXT.upper()


def test_an_empty_file_among_others(folder: Path) -> None:
    (folder / "left").unlink()
    (folder / "left").mkdir()
    (folder / "left" / "0").write_text("")
    (folder / "left" / "1").write_text(TEXT)
    (folder / "right").unlink()
    (folder / "right").symlink_to("left")
    assert BothJob(folder, ("a", "b")).run(False)
    assert joined(folder / "a") == TEXT.upper()
    (folder / "left" / "1").unlink()
    with pytest.raises(DataError, match=r"left is empty\. Expected at least one line"):
        BothJob(folder, ("c", "d")).run(False)


def test_two_runs_of_a_shard(folder: Path) -> None:
    errors: list[str] = []

    def run() -> None:
        try:
            BothJob(folder, ("a", "b")).run(False)
        except UsageError as error:
            errors.append(str(error))

    with parts.JobFolder((folder / "a",), {}, (1, 1)).locked():
        thread = Thread(target=run)
        thread.start()
        thread.join()
    assert len(errors) == 1
    assert "Another run is writing" in errors[0]
