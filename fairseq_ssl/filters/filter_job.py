"""Filters for pairs in memory and for files of any size."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain as chained
from itertools import islice
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl._version import __version__
from fairseq_ssl.errors import UsageError
from fairseq_ssl.filters.block_filter import (
    DropCount,
    DroppedRow,
    drop_rows,
    filter_block,
    filter_rows,
    hash_block,
    select_rows,
)
from fairseq_ssl.filters.chain import FilterChain, FilterRequest, build_filters
from fairseq_ssl.filters.deduplication import BoundedHashSet, encode_line, memory_for
from fairseq_ssl.filters.key_files import (
    pack_dropped,
    pack_keys,
    plan_ranges,
    read_dropped,
    read_rows,
)
from fairseq_ssl.io.blocks import Span, read_blocks, span_blocks
from fairseq_ssl.io.corpus import Corpus
from fairseq_ssl.io.executors import Executor
from fairseq_ssl.io.fingerprints import file_fingerprint
from fairseq_ssl.io.jobs import ProgressFactory, silent_progress
from fairseq_ssl.io.outputs import temporary_path
from fairseq_ssl.io.parts import (
    EXAMPLES,
    BlockFunction,
    BlockResult,
    JobFolder,
    PartResults,
    record_file,
    stage_file,
)
from fairseq_ssl.io.text_files import line_list, open_bytes, path_list, read_json
from fairseq_ssl.io.text_jobs import Output, Outputs, TextJob
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
            texts = [tuple(map(encode_line, rows[row])) for row in kept]
            kept = kept[seen.add_rows(chain.duplicates.keys(texts))]
        yield from (batch[row] for row in kept.tolist())


class RowFilter:
    """Picklable function that marks the rows of a batch that pass all filters.

    `filter_files` keeps the same rows, whatever the batches.

    >>> passes = RowFilter("clean:max=3,identical")
    >>> passes(["a cat", "", "OK"], ["eine Katze", "leer", "OK"])
    array([ True, False, False])
    """

    def __init__(self, filters: FilterRequest, sides: int = 2) -> None:
        """Build the filters.

        Args:
            filters: specification such as ``clean:max=100,identical``, or a list of `FilterSpec`
                and `Filter` objects, without ``duplicates``
            sides: 2 for pairs, 1 for monolingual text
        """
        self._chain, self._sides = build_filters(filters, sides), sides
        if self._chain.duplicates:
            raise UsageError(
                "The filter duplicates compares all rows of a corpus, not those of a batch. Remove "
                "it, and drop duplicates with `filter_files` or with the engine."
            )

    def __call__(self, *columns: Iterable[str]) -> NDArray[np.bool_]:
        """Return a mask of the rows, [rows]. Each side of the rows is a column."""
        if len(columns) != self._sides:
            raise UsageError(f"There are {len(columns)} columns. Expected {self._sides}.")
        sides = [line_list(column, f"column {n}") for n, column in enumerate(columns, 1)]
        if len(set(map(len, sides))) > 1:
            raise UsageError("The columns have different lengths. Expected one row per line.")
        mask = np.zeros(len(sides[0]), np.bool_)
        mask[filter_rows(self._chain, list(zip(*sides, strict=True)))[0]] = True
        return mask


def _row(pair: object, number: int, sides: int = 0) -> tuple[str, ...]:
    """Return the sides of a pair, or of a line. Raise TypeError unless they are strings.

    Raise UsageError if they are not as many as `sides`, the number of the first pair.
    """
    row: tuple[Any, ...] = (pair,)
    if not isinstance(pair, str):
        row = tuple(pair) if isinstance(pair, Iterable) else row
        line_list(row, f"pair {number}")
    if sides and len(row) != sides:
        raise UsageError(
            f"Pair {number} has {len(row)} sides but pair 1 has {sides}. All pairs must have the "
            "same number of sides."
        )
    return row


def filter_files(
    inputs: Sequence[str | Path],
    outputs: Sequence[Output] | IO[bytes],
    filters: FilterRequest,
    *,
    memory: int | None = None,
    executor: Executor | None = None,
    overwrite: bool = False,
    progress: ProgressFactory = silent_progress,
) -> FilterSummary | None:
    """Filter a monolingual or parallel corpus.

    The outputs do not depend on the executor, on parts and on shards. Interrupted runs resume,
    unless `filters` contains objects of user-defined classes.

    Args:
        inputs: text, or source and target texts with the same number of lines; empty for stdin
        outputs: one file or folder of parts per input, or a binary stream for monolingual text
        filters: specification such as ``clean:max=100,identical``, or a list of `FilterSpec` and
            `Filter` objects
        memory: max size of the hash table of ``duplicates``, in bytes (default: 2**30); folders of
            parts need no table
        executor: `Executor` for the blocks or parts (default: this process)
        overwrite: replace existing outputs
        progress: called with the number of lines done

    Returns:
        The summary, or None if the outputs are already complete, or if other shards must end first.
    """
    if isinstance(outputs, str | Path):
        raise TypeError(f"Expected a list of paths, not {outputs!r}.")
    sources = tuple(path_list(inputs))
    sides = max(1, len(sources))
    written = [outputs] if hasattr(outputs, "write") else list(outputs)
    if len(written) != sides:
        raise UsageError(
            f"There are {sides} inputs but {len(written)} outputs. Expected one output per input."
        )
    corpus, targets = Corpus(sources or (None,)), Outputs.of(*written)
    chain = build_filters(filters, sides)
    if memory is not None and (chain.duplicates is None or targets.folders):
        raise UsageError("`memory` is for the filter duplicates with a file or stdout as output.")
    job = _FilterJob(corpus, targets, executor, progress, chain, memory)
    return job.summary() if job.run(overwrite) else None


class _FilterJob(TextJob):
    """The job of `filter_files`.

    Duplicates depend on all earlier rows. The calling process drops them from files. For folders of
    parts, three stages find them in bounded memory:

    1. ``keys``: a key file for each part, with the rows that pass all other filters.
    2. ``duplicates``: a file for each range of keys, with the rows that have a key of another part.
    3. ``part``: the rows of the key file of a part that are in no file of the second stage.
    """

    name = "filter"

    def __init__(
        self,
        corpus: Corpus,
        outputs: Outputs,
        executor: Executor | None,
        progress: ProgressFactory,
        chain: FilterChain,
        memory: int | None,
    ) -> None:
        super().__init__(corpus, outputs, executor, progress)
        memory = MEMORY if memory is None else memory
        self.chain = chain
        if chain.duplicates is not None and chain.duplicates.near:
            self.part_size = 2**24  # a line has several keys, which are in memory
        self.seen: BoundedHashSet | None = None
        if chain.duplicates is not None and outputs.folders is None:
            self.seen = BoundedHashSet(memory)
            self.in_order = self._drop_duplicates
        self.params = {
            "filters": list(chain.names),
            "inputs": list(corpus.names),
            "inputs_are": [file_fingerprint(path) for path in corpus.paths],
            "outputs": list(map(str, outputs.paths)),
            "examples": EXAMPLES,
            "memory": memory if self.seen is not None else None,
            "version": __version__,
            **({"filter_sources": chain.sources} if chain.sources else {}),
        }

    def signature(self) -> Signature:
        """Return the signature of the outputs, with all parameters, counts and examples."""
        rows, kept = self.totals["lines"], self.totals["kept"]
        parameters = {"filters": ",".join(self.chain.names), "lines": rows, "kept": kept}
        for name, usual in (("memory", MEMORY), ("filter_sources", None)):
            if self.params.get(name) != usual:
                parameters[name] = self.params[name]
        dropped = [
            {
                "filter": drop.filter,
                "count": drop.count,
                "share": round(drop.count / rows, 6),
                "examples": [asdict(example) for example in drop.examples],
            }
            for drop in self._dropped()
        ]
        return Signature("filter", parameters, self.params | {"dropped": dropped})

    def _dropped(self) -> list[DropCount]:
        counts = []
        for index, name in enumerate(self.chain.names):
            found = self.tally.examples.get(str(index), ())
            rows = (DroppedRow(e["line"], tuple(e["text"]), e["score"]) for e in found)
            counts.append(DropCount(name, self.totals[str(index)], tuple(rows)))
        return counts

    def summary(self) -> FilterSummary:
        """Return the result of `filter_files`. Warn if the hash table was full."""
        if self.seen is not None and self.seen.rejected:
            enough = -(-memory_for(self.seen.count + self.seen.rejected) // 2**20)
            logger.warning(
                "warning: the hash table was full after %s different hashes. Later lines were "
                "compared only with these. Set `memory` to %sM or more to compare all lines.",
                self.seen.count,
                enough,
            )
        return FilterSummary(
            self.signature(),
            self.outputs.paths,
            self.totals["lines"],
            self.totals["kept"],
            tuple(self._dropped()),
        )

    def prepare(self) -> BlockFunction:
        """Return the function of a block. Restore the hash table of an interrupted run."""
        work = partial(filter_block, self.chain)
        if self.seen is None or self.chain.duplicates is None or not self.totals["lines"]:
            return work
        if self.chain.duplicates.near:  # the keys of dropped rows, too
            lines = 0
            with closing(self.executor.imap(work, self.corpus.blocks())) as results:
                for result in results:
                    self.seen.add_rows(result.keys.keys)
                    lines += result.counts["lines"]
                    if lines >= self.totals["lines"]:
                        break
            return work
        paths = list(map(temporary_path, self.outputs.paths))
        with ExitStack() as stack:
            files = [
                stack.enter_context(open_bytes(path, output.suffix))
                for path, output in zip(paths, self.outputs.paths, strict=True)
            ]
            blocks = read_blocks(files, Span(tuple(paths)))
            hashing = partial(hash_block, self.chain.duplicates)
            for keys in self.executor.imap(hashing, blocks):
                self.seen.add_rows(keys)
        return work

    @property
    def _kind(self) -> str:
        """Name of the counts and examples of duplicates."""
        return str(len(self.chain.names) - 1)

    def _drop_duplicates(self, result: BlockResult) -> BlockResult:
        assert self.seen is not None
        is_new = self.seen.add_rows(result.keys.keys)
        return drop_rows(result, result.keys.rows, is_new, self._kind)

    def part_results(self, folder: JobFolder, spans: Sequence[Span]) -> PartResults | None:
        """Return the function of a part, after the stages that find the duplicates."""
        size = self.corpus.block_size
        if self.chain.duplicates is None:
            return super().part_results(folder, spans)
        if not self.run_stage(folder, "keys", spans, _KeyStage(self.chain, size)):
            return None
        keys = [folder.first / stage_file("keys", index) for index in range(len(spans))]
        ranges = plan_ranges(keys)
        if not self.run_stage(folder, "duplicates", ranges, _DuplicateStage(tuple(keys))):
            return None
        found = [folder.first / stage_file("duplicates", index) for index in range(len(ranges))]
        return _KeptRows(folder.first, tuple(found), self._kind, size)


@dataclass(frozen=True)
class _KeyStage:
    """Picklable function that yields the key file of a part."""

    chain: FilterChain
    block_size: int | None

    def __call__(self, index: int, span: Span) -> Iterator[BlockResult]:
        assert self.chain.duplicates is not None
        rows, keys = [np.arange(0)], [self.chain.duplicates.keys([])]
        for block in span_blocks(span, self.block_size):
            result = filter_block(self.chain, block)
            rows.append(result.keys.rows + block.first)
            keys.append(result.keys.keys)
            yield replace(result, outputs=(b"",))
        for data in pack_keys(np.concatenate(keys), np.concatenate(rows)):
            yield BlockResult((data,), Counter())


@dataclass(frozen=True)
class _DuplicateStage:
    """Picklable function that yields the file of the duplicates in a range of keys."""

    key_files: tuple[Path, ...]

    def __call__(self, index: int, buckets: range) -> Iterator[BlockResult]:
        yield BlockResult((pack_dropped(self.key_files, buckets),), Counter())


@dataclass(frozen=True)
class _KeptRows:
    """Picklable function that yields the rows of a part that are not duplicates."""

    folder: Path
    duplicates: tuple[Path, ...]
    """Files of the stage ``duplicates``."""
    kind: str
    """Name of the counts and examples of duplicates."""
    block_size: int | None

    def __call__(self, index: int, span: Span) -> Iterator[BlockResult]:
        record = read_json(self.folder / record_file("keys", index))
        # The lines and the kept rows are counted below.
        counts = Counter({**record["counts"], "lines": 0, "kept": 0})
        yield BlockResult((b"",) * len(span.paths), counts, record["examples"])
        key_file = self.folder / stage_file("keys", index)
        passed = read_rows(key_file)
        dropped = read_dropped(index, key_file, self.duplicates)
        is_new = np.ones(len(passed), np.bool_)
        is_new[np.searchsorted(passed, dropped)] = False
        for block in span_blocks(span, self.block_size):
            own = slice(*np.searchsorted(passed, (block.first, block.first + block.count)))
            rows = passed[own] - block.first
            yield drop_rows(select_rows(block, rows), rows, is_new[own], self.kind)
