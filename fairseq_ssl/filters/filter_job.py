"""Filter pairs in memory, or files of any size."""

from __future__ import annotations

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

from fairseq_ssl.errors import UsageError
from fairseq_ssl.filters.block_filter import (
    BlockRows,
    DropCount,
    DroppedRow,
    drop_rows,
    filter_block,
    filter_rows,
    hash_block,
)
from fairseq_ssl.filters.chain import FilterChain, FilterRequest, build_filters
from fairseq_ssl.filters.deduplication import DuplicateFilter, HashSet, encode_line
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

BATCH = 1000
"""Number of pairs per batch in `filter_pairs`."""
Pair = TypeVar("Pair", bound=Sequence[str])


@dataclass(frozen=True)
class FilterSummary:
    """Signature, outputs and counts of a filtered corpus."""

    signature: Signature
    outputs: tuple[Path, ...]
    lines: int
    """Number of lines read per side."""
    kept: int
    """Number of lines kept per side."""
    dropped: tuple[DropCount, ...]
    """Counts and examples of dropped rows, by filter."""


def filter_pairs(pairs: Iterable[Pair], filters: FilterRequest) -> Iterator[Pair]:
    """Yield the pairs or lines that pass all filters.

    Args:
        pairs: pairs of a source and a target line, or lines of monolingual text
        filters: specification such as ``clean:max=100,identical``, or a list of `FilterSpec` and
            `Filter` objects

    >>> list(filter_pairs([("a b", "c d"), ("a", "a"), ("a b", "c d")], "identical,duplicates"))
    [('a b', 'c d')]
    >>> list(filter_pairs(["a b c", "a"], "clean:min=2"))
    ['a b c']
    """
    if isinstance(pairs, str):
        raise TypeError("`pairs` is a string. Expected an iterable of pairs or lines.")
    iterator = iter(pairs)
    first = list(islice(iterator, 1))
    sides = len(_row(first[0], 1)) if first else 2  # all filters accept two sides
    if sides not in (1, 2):
        raise UsageError(f"Pair 1 has {sides} sides. Expected a source and a target.")
    chain = build_filters(filters, sides)
    return _filter_batches(chained(first, iterator), chain, sides)


def _filter_batches(pairs: Iterator[Pair], chain: FilterChain, sides: int) -> Iterator[Pair]:
    seen, count = HashSet(), 0
    while batch := list(islice(pairs, BATCH)):
        rows = [_row(pair, number, sides) for number, pair in enumerate(batch, count + 1)]
        count += len(rows)
        kept, _ = filter_rows(chain, rows)
        if chain.duplicates and len(kept):
            texts = [tuple(map(encode_line, rows[row])) for row in kept]
            kept = kept[seen.add_rows(chain.duplicates.keys(texts))]
        yield from (batch[row] for row in kept.tolist())


class RowFilter:
    """Picklable function that marks the rows in a batch that pass all filters.

    The marked rows do not depend on batching. `filter_files` keeps the same rows.

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
                "The filter duplicates cannot be applied to batches, because it compares all rows "
                "of a corpus. Remove it, and drop duplicates with `filter_files` or in the "
                "program that calls `RowFilter`."
            )

    def __call__(self, *columns: Iterable[str]) -> NDArray[np.bool_]:
        """Return a mask of the rows that pass all filters, [rows]. Each column is one side."""
        if len(columns) != self._sides:
            raise UsageError(
                f"The number of columns is {len(columns)}. Expected {self._sides}, the number of "
                "sides."
            )
        sides = [line_list(column, f"column {n}") for n, column in enumerate(columns, 1)]
        if len(set(map(len, sides))) > 1:
            raise UsageError(
                f"The columns have the lengths {', '.join(str(len(side)) for side in sides)}. "
                "Expected columns of the same length."
            )
        mask = np.zeros(len(sides[0]), np.bool_)
        mask[filter_rows(self._chain, list(zip(*sides, strict=True)))[0]] = True
        return mask


def _row(pair: object, number: int, sides: int = 0) -> tuple[str, ...]:
    """Return the sides of a pair, or a line as a single side.

    Raise TypeError if a side is not a string. Raise UsageError if the number of sides is not
    `sides`, the number of sides of the first pair.
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
    executor: Executor | None = None,
    overwrite: bool = False,
    progress: ProgressFactory = silent_progress,
) -> FilterSummary | None:
    """Filter a monolingual or parallel corpus.

    The kept rows do not depend on the executor, parts or shards. Interrupted runs resume, unless
    `filters` contains objects of user-defined classes.

    Args:
        inputs: text file, or source and target files with the same number of lines; empty for stdin
        outputs: one file or folder of parts per input, or a binary stream for monolingual text
        filters: specification such as ``clean:max=100,identical``, or a list of `FilterSpec` and
            `Filter` objects
        executor: executor that processes the blocks or parts (default: the current process does)
        overwrite: whether to replace existing outputs
        progress: creates the progress report, which receives the number of lines read

    Returns:
        The summary, or None if the outputs were already complete or other shards must finish first.
    """
    if isinstance(outputs, str | Path):
        raise TypeError(f"`outputs` is {outputs!r}. Expected a list of paths.")
    sources = tuple(path_list(inputs))
    sides = max(1, len(sources))
    written = [outputs] if hasattr(outputs, "write") else list(outputs)
    if len(written) != sides:
        raise UsageError(
            f"The number of inputs is {sides}, but the number of outputs is {len(written)}. "
            "Expected one output per input."
        )
    corpus, targets = Corpus(sources or (None,)), Outputs.of(*written)
    chain = build_filters(filters, sides)
    job = _FilterJob(corpus, targets, executor, progress, chain)
    if not job.run(overwrite):
        return None
    counts = job.totals["lines"], job.totals["kept"]
    return FilterSummary(job.signature(), targets.paths, *counts, tuple(job.dropped()))


@dataclass
class _FilterJob(TextJob):
    """Resumable job that `filter_files` runs.

    Whether a row is a duplicate depends on all earlier rows. If outputs are files, the calling
    process drops duplicates. If outputs are folders of parts, three stages drop them in bounded
    memory:

    1. ``keys`` writes a key file for each part, with the rows that pass all other filters.
    2. ``duplicates`` writes a file for each range of keys, with the rows to drop.
    3. ``part`` writes the rows of each part that are in its key file and are not dropped.
    """

    chain: FilterChain
    name = "filter"

    def __post_init__(self, workers: Executor | None) -> None:
        super().__post_init__(workers)
        self.seen = HashSet()
        if self.chain.duplicates is not None and self.outputs.folders is None:
            self.in_order = self._drop_duplicates

    @property
    def part_size(self) -> int:
        """Default input size per part, in bytes.

        It is smaller with `near`, because a line then has several keys, which are kept in memory.
        """
        return 2**24 if self.chain.duplicates and self.chain.duplicates.near else 2**26

    def parameters(self) -> dict[str, Any]:
        return {
            "filters": list(self.chain.names),
            "inputs": list(self.corpus.names),
            "inputs_are": [file_fingerprint(path) for path in self.corpus.paths],
            "outputs": list(map(str, self.outputs.paths)),
            "examples": EXAMPLES,
            **({"filter_sources": self.chain.sources} if self.chain.sources else {}),
        }

    def signature(self) -> Signature:
        rows, kept = self.totals["lines"], self.totals["kept"]
        parameters = {"filters": ",".join(self.chain.names), "lines": rows, "kept": kept}
        if self.chain.sources:
            parameters["filter_sources"] = self.chain.sources
        dropped = [
            {
                "filter": drop.filter,
                "count": drop.count,
                "share": round(drop.count / rows, 6),
                "examples": [asdict(example) for example in drop.examples],
            }
            for drop in self.dropped()
        ]
        return Signature("filter", parameters, self.params | {"dropped": dropped})

    def dropped(self) -> list[DropCount]:
        """Return the counts and examples of dropped rows, by filter."""
        counts = []
        for index, name in enumerate(self.chain.names):
            found = self.tally.examples.get(str(index), ())
            rows = (DroppedRow(e["line"], tuple(e["text"]), e["score"]) for e in found)
            counts.append(DropCount(name, self.totals[str(index)], tuple(rows)))
        return counts

    def prepare(self) -> BlockFunction:
        """Return the function that filters a block. Restore the seen keys of an interrupted run."""
        work = partial(filter_block, self.chain)
        if self.chain.duplicates is None or not self.totals["lines"]:
            return work
        if self.chain.duplicates.near:  # dropped rows count too, so their keys are needed
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
        """Tally key for the count and examples of duplicates: the duplicate filter's index."""
        return str(len(self.chain.names) - 1)

    def _drop_duplicates(self, result: BlockResult) -> BlockResult:
        is_new = self.seen.add_rows(result.keys.keys)
        return drop_rows(result, result.keys.rows, is_new, self._kind)

    def part_results(self, folder: JobFolder, spans: Sequence[Span]) -> PartResults | None:
        """Run the stages that find duplicates. Return the function that filters a part.

        Return None if other shards must finish a stage first.
        """
        duplicates, size = self.chain.duplicates, self.corpus.block_size
        if duplicates is None:
            return super().part_results(folder, spans)
        keys = [folder.first / stage_file("keys", index) for index in range(len(spans))]
        pack = partial(_pack_part, self.chain, duplicates, size)
        if not self.run_stage(folder, "keys", spans, pack):
            return None
        ranges = plan_ranges(keys)
        if not self.run_stage(folder, "duplicates", ranges, partial(_pack_duplicates, keys)):
            return None
        found = [folder.first / stage_file("duplicates", index) for index in range(len(ranges))]
        return partial(_keep_rows, folder.first, found, self._kind, size)


def _pack_part(
    chain: FilterChain, duplicates: DuplicateFilter, size: int | None, index: int, span: Span
) -> Iterator[BlockResult]:
    """Yield the counts and examples of rows dropped from a part, then the bytes of its key file."""
    rows, keys = [np.arange(0)], [duplicates.keys([])]
    for block in span_blocks(span, size):
        result = filter_block(chain, block)
        rows.append(result.keys.rows + block.first)
        keys.append(result.keys.keys)
        yield replace(result, outputs=(b"",))
    for data in pack_keys(np.concatenate(keys), np.concatenate(rows)):
        yield BlockResult((data,), Counter())


def _pack_duplicates(
    key_files: Sequence[Path], index: int, buckets: range
) -> Iterator[BlockResult]:
    """Yield the bytes of the file that lists the duplicates in a range of key buckets."""
    for data in pack_dropped(key_files, buckets):
        yield BlockResult((data,), Counter())


def _keep_rows(
    folder: Path,
    duplicates: Sequence[Path],
    kind: str,
    size: int | None,
    index: int,
    span: Span,
) -> Iterator[BlockResult]:
    """Yield the rows of a part that pass the other filters and are not duplicates.

    Args:
        folder: job folder with the key files
        duplicates: files from the stage ``duplicates``
        kind: tally key for the count and examples of duplicates
        size: block size in bytes
        index: part index
        span: input lines of the part
    """
    record = read_json(folder / record_file("keys", index))
    # Lines and kept rows are counted below.
    counts = Counter({**record["counts"], "lines": 0, "kept": 0})
    yield BlockResult((b"",) * len(span.paths), counts, record["examples"])
    key_file = folder / stage_file("keys", index)
    passed = read_rows(key_file)
    dropped = read_dropped(index, key_file, duplicates)
    is_new = np.ones(len(passed), np.bool_)
    is_new[np.searchsorted(passed, dropped)] = False
    for block in span_blocks(span, size):
        own = slice(*np.searchsorted(passed, (block.first, block.first + block.count)))
        rows = passed[own] - block.first
        yield drop_rows(BlockRows(block).select(rows), rows, is_new[own], kind)
