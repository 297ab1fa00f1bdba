"""Filters for pairs in memory and for files of any size."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import chain as chained
from itertools import islice
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np

from fairseq_ssl._version import __version__
from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.filters.block_filter import (
    EXAMPLES,
    DropCount,
    DroppedRow,
    FilteredBlock,
    filter_block,
    filter_rows,
    hash_block,
)
from fairseq_ssl.filters.chain import FilterChain, FilterRequest, build_filters
from fairseq_ssl.filters.deduplication import BoundedHashSet, memory_for
from fairseq_ssl.io.blocks import RowBlock, row_blocks
from fairseq_ssl.io.executors import Executor, LocalExecutor
from fairseq_ssl.io.fingerprints import file_fingerprint
from fairseq_ssl.io.jobs import (
    Chunks,
    JobState,
    ProgressFactory,
    check_distinct,
    file_or_stream,
    run_job,
    silent_progress,
)
from fairseq_ssl.io.outputs import temporary_path
from fairseq_ssl.io.text_files import (
    check_strings,
    compress_chunk,
    open_bytes,
    open_text,
    path_list,
    stdin_text,
)
from fairseq_ssl.signature import Signature

MEMORY = 2**30
"""Default size of the hash table of ``duplicates``, in bytes."""
BATCH = 1000
"""Number of pairs per batch in `filter_pairs`."""
Pair = TypeVar("Pair", bound=Sequence[str])
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class FilterSummary:
    """Result of `filter_files`."""

    signature: Signature
    outputs: tuple[Path, ...]
    lines: int
    """Number of lines read per side."""
    kept: int
    """Number of lines kept per side."""
    dropped: tuple[DropCount, ...]
    """Counts and examples of dropped rows, by filter."""


def filter_pairs(
    pairs: Iterable[Pair], filters: FilterRequest, *, memory: int = MEMORY
) -> Iterator[Pair]:
    """Yield the pairs, or the lines, that pass all filters.

    Args:
        pairs: pairs of a source and a target line, or lines of monolingual text
        filters: specification such as ``clean:max=100,identical``, or a list of `FilterSpec` and
            `Filter` objects
        memory: max size of the hash table of ``duplicates``, in bytes

    >>> list(filter_pairs([("a b", "c d"), ("a", "a"), ("a b", "c d")], "identical,duplicates"))
    [('a b', 'c d')]
    >>> list(filter_pairs(["a b c", "a"], "clean:min=2"))
    ['a b c']
    """
    if isinstance(pairs, str):
        raise TypeError("Expected a list of pairs or of lines, not a string.")
    iterator = iter(pairs)
    first = list(islice(iterator, 1))
    sides = len(_row(first[0], 1)) if first else 2  # all filters accept two sides
    if sides not in (1, 2):
        raise UsageError(f"Pair 1 has {sides} sides. Expected a source and a target.")
    chain = build_filters(filters, sides)
    return _filter_batches(chained(first, iterator), chain, memory, sides)


def _filter_batches(
    pairs: Iterator[Pair], chain: FilterChain, memory: int, sides: int
) -> Iterator[Pair]:
    seen = BoundedHashSet(memory) if chain.duplicates else None
    count = 0
    while batch := list(islice(pairs, BATCH)):
        rows = [_row(pair, number, sides) for number, pair in enumerate(batch, count + 1)]
        count += len(rows)
        kept, _ = filter_rows(chain, rows)
        if seen is not None and chain.duplicates and len(kept):
            hashes = chain.duplicates.score([rows[row] for row in kept])
            kept = kept[seen.add(np.array(hashes, dtype=np.uint64))]
        yield from (batch[row] for row in kept.tolist())


def _row(pair: object, number: int, sides: int = 0) -> tuple[str, ...]:
    """Return the sides of a pair, or of a line. Raise TypeError unless they are strings.

    Raise UsageError if they are not as many as `sides`, the number of the first pair.
    """
    row: tuple[Any, ...] = (pair,)
    if not isinstance(pair, str):
        row = tuple(pair) if isinstance(pair, Iterable) else row
        check_strings(row, f"pair {number}")
    if sides and len(row) != sides:
        raise UsageError(
            f"Pair {number} has {len(row)} sides but pair 1 has {sides}. All pairs must have the "
            "same number of sides."
        )
    return row


def filter_files(
    inputs: Sequence[str | Path],
    outputs: Sequence[str | Path] | IO[bytes],
    filters: FilterRequest,
    *,
    memory: int | None = None,
    executor: Executor | None = None,
    overwrite: bool = False,
    progress: ProgressFactory = silent_progress,
) -> FilterSummary | None:
    """Filter a monolingual or parallel corpus. Return None if the outputs are already complete.

    The outputs do not depend on the number of processes. Interrupted runs resume, unless `filters`
    contains objects of user-defined classes.

    Args:
        inputs: text file, or source and target files with the same number of lines, gzip if the
            name ends with ``.gz``; empty for stdin
        outputs: one file per input, gzip if the name ends with ``.gz``, or a binary stream for
            monolingual text
        filters: specification such as ``clean:max=100,identical``, or a list of `FilterSpec` and
            `Filter` objects
        memory: max size of the hash table of ``duplicates``, in bytes (default: 2**30)
        executor: `Executor` for the blocks (default: this process)
        overwrite: replace existing outputs
        progress: called with the number of lines done
    """
    paths = tuple(path_list(outputs)) if isinstance(outputs, Sequence | Path) else ()
    stream = None if isinstance(outputs, Sequence | Path) else file_or_stream(outputs)[1]
    sources = tuple(path_list(inputs))
    sides = max(1, len(sources))
    if len(paths) != sides and (paths or sides == 2 or stream is None):
        raise UsageError(
            f"There are {sides} inputs but {len(paths)} outputs. Expected one output per input."
        )
    check_distinct(sources, paths)
    chain = build_filters(filters, sides)
    if memory is not None and chain.duplicates is None:
        raise UsageError("`memory` is for the filter duplicates, which is not in the chain.")
    with ExitStack() as opened:
        job = _FilterJob(
            inputs=sources,
            outputs=paths,
            chain=chain,
            memory=MEMORY if memory is None else memory,
            executor=executor or LocalExecutor(1),
            progress=progress,
            opened=opened,
        )
        written = run_job(
            paths,
            job.params,
            job.chunks,
            job.signature,
            overwrite=overwrite,
            from_stdin=not sources,
            stdout=stream,
        )
    return job.summary() if written else None


@dataclass
class _FilterJob:
    """Arguments and counts of a call of `filter_files`."""

    inputs: tuple[Path, ...]
    outputs: tuple[Path, ...]
    chain: FilterChain
    memory: int
    executor: Executor
    progress: ProgressFactory
    opened: ExitStack
    seen: BoundedHashSet | None = field(init=False)
    rows: int = field(init=False, default=0)
    kept: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.seen = BoundedHashSet(self.memory) if self.chain.duplicates else None
        self.positions = [0] * len(self.names)
        self.dropped = [DropCount(name) for name in self.chain.names]
        self.params: dict[str, Any] = {
            "filters": list(self.chain.names),
            "inputs": list(self.names),
            "inputs_are": [file_fingerprint(path) for path in self.inputs],
            "outputs": list(map(str, self.outputs)),
            "examples": EXAMPLES,
            "memory": self.memory if self.chain.duplicates else None,
            "version": __version__,
            **({"filter_sources": self.chain.sources} if self.chain.sources else {}),
        }
        """Parameters that determine the content of the outputs."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the inputs in messages."""
        return tuple(map(str, self.inputs)) or ("stdin",)

    def signature(self) -> Signature:
        """Return the signature of the outputs, with all parameters, counts and examples."""
        parameters = {"filters": ",".join(self.chain.names), "lines": self.rows, "kept": self.kept}
        for name, usual in (("memory", MEMORY), ("filter_sources", None)):
            if self.params.get(name) != usual:
                parameters[name] = self.params[name]
        dropped = [
            {
                "filter": drop.filter,
                "count": drop.count,
                "share": round(drop.count / self.rows, 6),
                "examples": [asdict(example) for example in drop.examples],
            }
            for drop in self.dropped
        ]
        return Signature("filter", parameters, self.params | {"dropped": dropped})

    def summary(self) -> FilterSummary:
        """Return the result of `filter_files`. Warn if the hash table was full."""
        if self.seen is not None and self.kept > self.seen.count:
            enough = -(-memory_for(self.kept) // 2**20)
            logger.warning(
                "warning: the hash table was full after %s different lines. Later lines were "
                "compared only with these lines. Set `memory` to %sM or more to compare all lines.",
                self.seen.count,
                enough,
            )
        return FilterSummary(
            self.signature(), self.outputs, self.rows, self.kept, tuple(self.dropped)
        )

    def chunks(self, state: JobState) -> Iterator[tuple[Chunks, JobState]]:
        """Yield the outputs of each block and the job state after it. Resume from `state`."""
        if state:
            self._resume(state)
        suffixes = [path.suffix for path in self.outputs] or [""]
        report = self.progress("filter", "lines")
        for block in self.executor.imap(partial(filter_block, self.chain), self._blocks()):
            if self.seen is not None and block.hashes is not None:
                new = self.seen.add(block.hashes)
                block = block.drop_duplicates(new, self.chain.names[-1])
            self._count(block)
            report(block.rows, block.fraction)
            chunks = list(map(compress_chunk, block.kept, suffixes))
            yield chunks, self._state()
        if not self.rows:
            raise DataError(f"{self.names[0]} is empty. Expected one line or more.")

    def _count(self, done: FilteredBlock) -> None:
        self.positions = list(done.ends)
        self.rows += done.rows
        self.kept += len(done.numbers)
        self.dropped = [
            before.merge(after) for before, after in zip(self.dropped, done.dropped, strict=True)
        ]

    def _state(self) -> JobState:
        return {
            "positions": self.positions,
            "rows": self.rows,
            "kept": self.kept,
            "dropped": list(map(asdict, self.dropped)),
        }

    def _resume(self, state: Mapping[str, Any]) -> None:
        """Restore the counts, and the hashes of the rows already written.

        The outputs stay open until the job ends, because closing a file releases its lock.
        """
        self.positions, self.rows, self.kept = state["positions"], state["rows"], state["kept"]
        self.dropped = []
        for drop in state["dropped"]:
            rows = (DroppedRow(e["line"], tuple(e["text"]), e["score"]) for e in drop["examples"])
            self.dropped.append(DropCount(drop["filter"], drop["count"], tuple(rows)))
        logger.warning("resuming after line %s", self.rows)
        if self.seen is None or self.chain.duplicates is None:
            return
        paths = [temporary_path(path) for path in self.outputs]
        files = [
            self.opened.enter_context(open_bytes(path, output.suffix))
            for path, output in zip(paths, self.outputs, strict=True)
        ]
        blocks = row_blocks(files, list(map(str, paths)))
        for hashes in self.executor.imap(partial(hash_block, self.chain.duplicates), blocks):
            self.seen.add(hashes)

    def _blocks(self) -> Iterator[RowBlock]:
        with ExitStack() as stack:
            files = [stack.enter_context(open_text(path)) for path in self.inputs]
            yield from row_blocks(
                files or [stdin_text()], self.names, self.positions, self.rows + 1
            )
