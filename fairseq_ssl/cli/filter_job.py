"""What ``fairseq-ssl filter`` does once it is clear what is wanted."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import IO, Any

from fairseq_ssl._version import __version__
from fairseq_ssl.cli.console import progress
from fairseq_ssl.cli.filter_report import table
from fairseq_ssl.cli.growing_job import GrowingJob
from fairseq_ssl.errors import DataError
from fairseq_ssl.filters.chain import FilterChain
from fairseq_ssl.filters.corpus import CorpusFilter, CorpusHashes, Dropped, Example, FilteredBlock
from fairseq_ssl.filters.deduplication import BoundedHashSet, memory_for
from fairseq_ssl.io.blocks import RowBlock, row_blocks
from fairseq_ssl.io.executors import Executor
from fairseq_ssl.io.resumable import file_fingerprint, temporary_path
from fairseq_ssl.io.text_files import compress_chunk, open_bytes, open_text, stdin_text
from fairseq_ssl.signature import Signature


@dataclass(frozen=True)
class Wanted:
    """What the command line asks for."""

    inputs: tuple[Path, ...]
    """Empty: stdin."""
    outputs: tuple[Path, ...]
    """Empty: stdout."""
    chain: FilterChain
    examples: int
    memory: int
    """Bytes of the table of rows seen."""

    @property
    def names(self) -> tuple[str, ...]:
        """What messages call the inputs."""
        return tuple(map(str, self.inputs)) or ("stdin",)

    @cached_property
    def task(self) -> dict[str, Any]:
        """All that decides the bytes of the outputs, and what is told beside them."""
        return {
            "filters": list(self.chain.names),
            "inputs": list(self.names),
            "inputs_are": [file_fingerprint(path) for path in self.inputs],
            "outputs": list(map(str, self.outputs)),
            "examples": self.examples,
            "memory": self.memory if self.chain.duplicates else None,
            "version": __version__,
        }


@dataclass
class Totals:
    """What is known of all rows so far; a run that goes on takes it up again."""

    positions: list[int]
    """The bytes, unpacked, up to which the inputs are done."""
    rows: int
    kept: int
    dropped: list[Dropped]
    """By the filters of the chain."""

    @staticmethod
    def none(sides: int, filters: int) -> Totals:
        """Return those of a run that begins."""
        return Totals([0] * sides, 0, 0, [Dropped()] * filters)

    @staticmethod
    def of_note(note: Mapping[str, Any]) -> Totals:
        """Return those that an earlier run has noted."""
        dropped = [
            Dropped(one["count"], tuple(_example(shown) for shown in one["examples"]))
            for one in note["dropped"]
        ]
        return Totals(note["positions"], note["rows"], note["kept"], dropped)

    def add(self, done: FilteredBlock, examples: int) -> None:
        """Count a block."""
        self.positions = list(done.ends)
        self.rows += done.rows
        self.kept += len(done.numbers)
        self.dropped = [
            before.and_then(after, examples)
            for before, after in zip(self.dropped, done.dropped, strict=True)
        ]


@dataclass
class FilterJob(GrowingJob):
    """One run of the command."""

    wanted: Wanted = field(kw_only=True)
    engine: Executor = field(kw_only=True)
    _seen: BoundedHashSet | None = field(init=False, default=None)
    _totals: Totals = field(init=False)
    _open: ExitStack = field(init=False, default_factory=ExitStack)

    def __post_init__(self) -> None:
        chain = self.wanted.chain
        self._totals = Totals.none(len(self.wanted.names), len(chain.names))
        if chain.duplicates:
            self._seen = BoundedHashSet(self.wanted.memory)

    @classmethod
    def of(cls, wanted: Wanted, engine: Executor, afresh: bool) -> FilterJob:
        """Return the run that the command line asks for."""
        given = wanted.outputs, wanted.task, afresh, not wanted.inputs
        return cls(*given, wanted=wanted, engine=engine)

    def run(self, stdout: IO[bytes]) -> int:
        """Write what stays to the outputs, or to `stdout`, and say what was dropped."""
        with self._open:
            if self.make(stdout):
                self._tell()
        return 0

    def go_on(self, state: Mapping[str, Any]) -> int:
        """Take up the counts, and remember what is written."""
        self._totals = Totals.of_note(state)
        self._remember()
        return self._totals.rows

    def signature(self) -> Signature:
        """Return the task and what came of it."""
        return Signature("filter", {**self.wanted.task, **self._report()})

    def _remember(self) -> None:
        """Fill the table of rows seen with those that are written already.

        The files stay open until the run ends: to close one would give up its lock.
        """
        duplicates = self.wanted.chain.duplicates
        if self._seen is None or duplicates is None:
            return
        files = [
            self._open.enter_context(
                open_bytes(temporary_path(path), compressed=path.suffix == ".gz")
            )
            for path in self.wanted.outputs
        ]
        blocks = row_blocks(files, [str(temporary_path(path)) for path in self.wanted.outputs])
        for hashes in self.engine.ordered(CorpusHashes(duplicates), blocks):
            self._seen.add(hashes)

    def pieces(self) -> Iterator[tuple[list[bytes], dict[str, Any]]]:
        """Filter what is left of the input, block after block: a piece of each output."""
        wanted = self.wanted
        compressed = [path.suffix == ".gz" for path in wanted.outputs] or [False]
        tell = progress("filter", "lines")
        work = CorpusFilter(wanted.chain, wanted.examples)
        for done in self.engine.ordered(work, self._blocks()):
            if self._seen is not None and done.hashes is not None:
                done = done.without(self._seen.add(done.hashes), wanted.examples)
            self._totals.add(done, wanted.examples)
            tell(done.rows, done.share)
            pieces = [
                compress_chunk(data, gz) for data, gz in zip(done.kept, compressed, strict=True)
            ]
            yield pieces, asdict(self._totals)
        if not self._totals.rows:
            raise DataError(f"{wanted.names[0]} is empty. Expected a line or more.")

    def _blocks(self) -> Iterator[RowBlock]:
        totals = self._totals
        with ExitStack() as stack:
            files = [stack.enter_context(open_text(path)) for path in self.wanted.inputs]
            yield from row_blocks(
                files or [stdin_text()], self.wanted.names, totals.positions, totals.rows + 1
            )

    def _report(self) -> dict[str, Any]:
        """Return what came of it: the counts and examples of each filter."""
        totals = self._totals
        dropped = [
            {
                "filter": name,
                "count": one.count,
                "share": round(one.count / totals.rows, 6),
                "examples": [asdict(example) for example in one.examples],
            }
            for name, one in zip(self.wanted.chain.names, totals.dropped, strict=True)
        ]
        return {"lines": totals.rows, "kept": totals.kept, "dropped": dropped}

    def _tell(self) -> None:
        totals, seen = self._totals, self._seen
        rows = list(zip(self.wanted.chain.names, totals.dropped, strict=True))
        print(table(rows, totals.kept, totals.rows), file=sys.stderr)
        if seen is not None and totals.kept > seen.count:
            enough = -(-memory_for(totals.kept) // 2**20)
            print(
                f"warning: the table of lines seen was full after {seen.count} different ones, and "
                f"later lines were compared with these alone. --memory {enough}M is enough for "
                "all.",
                file=sys.stderr,
            )
        print(Signature("filter", {"lines": totals.rows, "kept": totals.kept}), file=sys.stderr)
        for path in self.wanted.outputs:
            print(f"wrote {path}", file=sys.stderr)


def _example(note: dict[str, Any]) -> Example:
    return Example(note["line"], tuple(note["text"]), note["score"])
