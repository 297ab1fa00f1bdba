"""Folders of parts, which workers write in resumable stages and complete with a manifest."""

from __future__ import annotations

import hashlib
import json
import logging
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.io.blocks import Block, Span, span_blocks
from fairseq_ssl.io.executors import Executor
from fairseq_ssl.io.fingerprints import checksum
from fairseq_ssl.io.outputs import AGAIN, difference, exclusive, write_errors
from fairseq_ssl.io.remote import RemotePath, as_path, delete_folder, upload
from fairseq_ssl.io.text_files import (
    COMPRESSIONS,
    JOB,
    MANIFEST,
    compress_chunk,
    json_text,
    read_json,
)
from fairseq_ssl.signature import Signature

logger = logging.getLogger(__name__)

PLAN = "job.json"
EXAMPLES = 3
"""Max number of examples per kind in a `Tally`."""
Record = dict[str, Any]
"""JSON-serializable description of a part or of another stage's item: files, counts, examples."""


@dataclass(frozen=True)
class PartFolder:
    """Output folder of parts, which the workers of a job write."""

    path: str | Path
    shard: tuple[int, int] = (1, 1)
    """(i, n) to write only shard i of n, with i from 1. All shards write to the same folder."""
    part_size: int | None = None
    """Input size per part in bytes (default: depends on the job).

    A compressed input file becomes a single part.
    """

    def __post_init__(self) -> None:
        index, total = self.shard
        if not 1 <= index <= total:
            raise UsageError(f"`shard` is {self.shard}. Expected (i, n), with i from 1 to n.")
        if self.part_size is not None and self.part_size < 1:
            raise UsageError(f"`part_size` is {self.part_size}. Expected 1 or more.")


@dataclass
class Tally:
    """Counts and example lines of a text, collected from its blocks in text order."""

    counts: Counter[str] = field(default_factory=lambda: Counter(lines=0))
    """Counts by name. `lines` is the number of lines read."""
    examples: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """First `EXAMPLES` examples of each kind, JSON-serializable. ``line`` is the line number."""

    def add(
        self, counts: Mapping[str, int], examples: Mapping[str, Sequence[Mapping[str, Any]]]
    ) -> None:
        """Add the counts and examples of the next lines. In `examples`, these begin at line 1."""
        before = self.counts["lines"]
        for name, found in examples.items():
            kept = self.examples.setdefault(name, [])
            shifted = ({**example, "line": example["line"] + before} for example in found)
            kept.extend(islice(shifted, EXAMPLES - len(kept)))
        self.counts.update(counts)

    def as_json(self) -> dict[str, Any]:
        """Return JSON-serializable arguments with which `add` restores the tally."""
        return {"counts": dict(self.counts), "examples": self.examples}


@dataclass(frozen=True)
class BlockResult:
    """Outputs and counts of a block."""

    outputs: tuple[bytes, ...]
    """Bytes to append to each output. A `BlockFunction` returns them uncompressed."""
    counts: Counter[str]
    """Counts by name. `lines` is the number of lines read."""
    examples: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    """See `Tally.examples`. Lines are numbered from 1 in the block."""
    keys: Any = None
    """Values that the block passes to `TextJob.in_order`."""


BlockFunction = Callable[[Block], BlockResult]
"""Picklable function that processes a block. Its result depends only on the block."""


part_digest = partial(hashlib.blake2b, digest_size=16)


class PartFile:
    """Writer of a part, which counts its lines and bytes and computes its digest."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self._file, self._name = file, name
        self._suffix = Path(name).suffix
        self._digest = part_digest()
        self.bytes = self.lines = 0

    def write(self, data: bytes) -> None:
        """Append bytes, compressed if the suffix of the name is in `COMPRESSIONS`."""
        if not data:
            return
        self.lines += data.count(b"\n")
        self._append(compress_chunk(data, self._suffix))

    def close(self) -> None:
        """Complete the file. A compressed file without lines gets an empty compressed chunk."""
        if not self.bytes and self._suffix in COMPRESSIONS:
            self._append(compress_chunk(b"", self._suffix))

    def _append(self, data: bytes) -> None:
        self._file.write(data)
        self._digest.update(data)
        self.bytes += len(data)

    def record(self) -> Record:
        """Return the name, the number of lines, the size and the digest of the file."""
        digest = self._digest.hexdigest()
        return {"name": self._name, "lines": self.lines, "bytes": self.bytes, "digest": digest}


@contextmanager
def new_file(folder: Path, name: str) -> Iterator[IO[bytes]]:
    """Yield a new binary file. At the end, rename it to `name` in `folder`, or upload it there.

    Several workers can write the same file, because each has its own temporary file.
    """
    target = folder / name
    with ExitStack() as stack:
        stack.enter_context(write_errors(target))
        if isinstance(folder, RemotePath):
            temporary = Path(stack.enter_context(TemporaryDirectory())) / target.name
        else:
            temporary = folder / JOB / f"{uuid.uuid4().hex}.tmp"
            temporary.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("wb") as file:
                yield file
            upload(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)


def write_json(content: Any, folder: Path, name: str) -> None:
    """Write a JSON file atomically."""
    with new_file(folder, name) as file:
        file.write(f"{json_text(content)}\n".encode())


@contextmanager
def part_file(folder: Path, name: str) -> Iterator[PartFile]:
    """Yield the writer of a part, which is renamed to `name` at the end."""
    with new_file(folder, name) as file:
        part = PartFile(file, name)
        yield part
        part.close()


def matches(folders: Sequence[Path], record: Record) -> bool:
    """Return True if the files of a record exist, with the sizes and digests in the record."""
    for folder, file in zip(folders, record["files"], strict=False):  # some stages write one file
        path = folder / file["name"]
        if not path.is_file() or path.stat().st_size != file["bytes"]:
            return False
        if checksum(path, new=part_digest) != file["digest"]:
            return False
    return True


PartResults = Callable[[int, Any], Iterator[BlockResult]]
"""Picklable function that takes the index and the span of a part, and yields its block results.

In other stages, the function takes the index and the value of a stage item.
"""


def map_blocks(
    function: BlockFunction, block_size: int | None, index: int, span: Span
) -> Iterator[BlockResult]:
    """Yield the result of `function` for each block of a part. `index` is not used."""
    return map(function, span_blocks(span, block_size))


@dataclass(frozen=True)
class PartWriter:
    """Picklable function that writes a part to each folder and returns its record."""

    results: PartResults
    folders: tuple[Path, ...]
    stage: str = "part"
    """Name of the stage. Files of stages before ``part`` are in the subfolder `JOB`."""

    def __call__(self, index: int, item: Any) -> Record:
        """Write the files of a part or of an item of another stage. Return their record."""
        tally = Tally()
        with ExitStack() as stack:
            files = [
                stack.enter_context(part_file(folder, self._name(folder, index)))
                for folder in self.folders
            ]
            for result in self.results(index, item):
                for file, data in zip(files, result.outputs, strict=True):
                    file.write(data)
                tally.add(result.counts, result.examples)
        return {"files": [file.record() for file in files], **tally.as_json()}

    def _name(self, folder: Path, index: int) -> str:
        if self.stage != "part":
            return stage_file(self.stage, index)
        suffixes = folder.suffixes[-2:] if folder.suffix in COMPRESSIONS else folder.suffixes[-1:]
        return f"part-{index:05d}{''.join(suffixes)}"


def _make_recorded(
    make: Callable[[int, Any], Record],
    folders: Sequence[Path],
    stage: str,
    numbered: tuple[int, Any],
) -> Record:
    """Process an item of a stage, unless its files match its record. Return the record."""
    index, item = numbered
    name = record_file(stage, index)
    with suppress(DataError, LookupError, TypeError):
        record: Record = read_json(folders[0] / name)
        if matches(folders, record):
            return record
    record = make(index, item)
    write_json(record, folders[0], name)
    return record


def stage_file(stage: str, index: int) -> str:
    """Return the file name of an item in a stage before ``part``."""
    return f"{JOB}/{stage}-{index:05d}"


def record_file(stage: str, index: int) -> str:
    """Return the file name of an item's record."""
    return f"{stage_file(stage, index)}.json"


def _delete_parts(folder: Path) -> None:
    (folder / MANIFEST).unlink(missing_ok=True)
    for path in folder.glob("part-*"):
        path.unlink()
    delete_folder(folder / JOB)


class JobFolder:
    """Folders of parts that a job writes, one for each output, and the state of its stages.

    The subfolder `JOB` of the first folder contains the plan of the job, with its parameters, and a
    record of each finished item of each stage. A run skips an item if its files match its record.
    Shards of a job share the folders: a stage begins when all shards have finished the previous
    stage, and the shard that ends last writes the manifests.
    """

    def __init__(
        self, folders: Sequence[Path], params: Mapping[str, Any], shard: tuple[int, int]
    ) -> None:
        self.folders, self.shard = tuple(folders), shard
        self.params: dict[str, Any] = json.loads(json_text(params))
        self.first = self.folders[0]

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the shard against other runs on this file system. Do nothing for a URL."""
        if isinstance(self.first, RemotePath):  # runs of the same job write the same bytes
            yield
            return
        index, total = self.shard
        end = f".{index}-of-{total}" * (total > 1)
        with exclusive(self.first.with_name(f"{self.first.name}{end}")):
            yield

    def check(self, overwrite: bool = False) -> bool:
        """Return True if the job is complete: the first folder has a manifest.

        Raise UsageError if a folder contains the parts of another job, or unrelated files. With
        `overwrite`, delete the parts of all jobs, but not unrelated files.
        """
        if overwrite and self.shard != (1, 1):
            raise UsageError(
                f"`overwrite` cannot be set with `shard`. To start again, delete {self.first}."
            )
        is_complete = False
        for folder in self.folders:
            if folder.is_file():
                raise UsageError(f"{folder} is a file. Delete it, or choose another folder.")
            name = next((n for n in (MANIFEST, f"{JOB}/{PLAN}") if (folder / n).exists()), None)
            if name is None:
                if folder.is_dir() and any(path.name != JOB for path in folder.iterdir()):
                    raise UsageError(
                        f"{folder} is not empty, and is not an output of this job. Choose another "
                        "folder."
                    )
                continue
            if overwrite:
                _delete_parts(folder)
                continue
            stored = read_json(folder / name)
            if not isinstance(stored, dict):
                raise DataError(f"{folder / name} is damaged. Expected a JSON object. {AGAIN}")
            if any(stored.get(key) != value for key, value in self.params.items()):
                raise UsageError(
                    f"{folder} was written with different settings or another input: "
                    f"{difference(stored, self.params)}. {AGAIN}"
                )
            is_complete |= name == MANIFEST and folder == self.first
        return is_complete

    def discard_plan(self) -> None:
        """Delete the plan if no shard and no finished item needs it. The next run can plan anew."""
        files = [*(self.first / JOB).glob("*.json"), *self.first.glob("*.json")]
        if self.shard == (1, 1) and all(path.name == PLAN for path in files):
            for folder in self.folders:
                delete_folder(folder / JOB)
                with suppress(OSError):
                    folder.rmdir()

    def plan(self, make: Callable[[], list[Span]]) -> list[Span]:
        """Return the spans of the parts. The first run calls `make` and stores these spans."""
        path = self.first / JOB / PLAN
        if not path.exists():
            spans = make()
            for folder in self.folders[1:]:
                write_json(self.params, folder, f"{JOB}/{PLAN}")
            parts = [[span.file, span.starts, span.end, span.before] for span in spans]
            names = [list(map(str, span.paths)) for span in spans if not any(span.starts)]
            write_json({**self.params, "files": names, "spans": parts}, self.first, f"{JOB}/{PLAN}")
        stored = read_json(path)
        files = [tuple(map(as_path, names)) for names in stored["files"]]
        return [
            Span(files[file], file, tuple(starts), end, before)
            for file, starts, end, before in stored["spans"]
        ]

    def run_stage(
        self,
        stage: str,
        items: Sequence[Any],
        make: Callable[[int, Any], Record],
        executor: Executor,
        indices: Iterable[int] | None = None,
    ) -> Iterator[Record]:
        """Process items of a stage. Yield their records in order.

        Args:
            stage: name of the stage
            items: all items of the stage
            make: picklable function that gets an index and its item, and returns the record
            executor: executor that processes the items
            indices: indices of the items to process (default: the items of this shard)
        """
        indices = self.share(len(items)) if indices is None else indices
        work = partial(_make_recorded, make, self.folders, stage)
        return executor.imap(work, ((index, items[index]) for index in indices))

    def share(self, count: int) -> range:
        """Return the indices of this shard's items in a stage with `count` items."""
        index, total = self.shard
        return range(count * (index - 1) // total, count * index // total)

    def records(self, stage: str, count: int) -> Iterator[Record] | None:
        """Return the records of all items of a stage.

        If any record is missing, log a warning and return None.
        """
        names = [record_file(stage, index) for index in range(count)]
        present = {path.name for path in (self.first / JOB).iterdir()}
        missing = sum(Path(name).name not in present for name in names)
        if not missing:
            return (read_json(self.first / name) for name in names)
        logger.warning(
            "%s: shard %s of %s is finished in stage %s. %s files of other shards are missing.%s",
            *(self.first, *self.shard, stage, missing),
            "" if stage == "part" else " When all shards are finished, run the same job again.",
        )
        return None

    def wrong_parts(self, executor: Executor) -> list[int]:
        """Return the indices of the parts that do not match the manifests."""
        sides = [read_json(folder / MANIFEST)["parts"] for folder in self.folders]
        records = [{"files": files} for files in zip(*sides, strict=True)]
        fits = executor.imap(partial(matches, self.folders), records)
        wrong = [index for index, fit in enumerate(fits) if not fit]
        if wrong:
            names = ", ".join(records[index]["files"][0]["name"] for index in wrong)
            logger.warning("%s: rewriting parts that do not match: %s", self.first, names)
        return wrong

    def replace_parts(self, again: Mapping[int, Record]) -> None:
        """Update the manifests with the records of rewritten parts. Delete the `JOB` subfolders."""
        for number, folder in enumerate(self.folders):
            content = read_json(folder / MANIFEST)
            for index, record in again.items():
                content["parts"][index] = record["files"][number]
            write_json(content, folder, MANIFEST)
            delete_folder(folder / JOB)

    def finish(self, signature: Signature, records: Sequence[Record]) -> None:
        """Write a manifest to each folder, the first folder last. Delete the `JOB` subfolders."""
        for number in reversed(range(len(self.folders))):
            parts = [record["files"][number] for record in records]
            content = {**self.params, **signature.content(), "parts": parts}
            write_json(content, self.folders[number], MANIFEST)
        for folder in self.folders:
            delete_folder(folder / JOB)
