"""Where ``fairseq-ssl noise`` takes its blocks from: a file, a shard of it, a .gz, or stdin."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from fairseq_ssl.engines.engine import Engine
from fairseq_ssl.engines.local import LocalEngine
from fairseq_ssl.errors import DataError
from fairseq_ssl.text import byte_blocks
from fairseq_ssl.text.lines import open_bytes
from fairseq_ssl.text.noise.corpus import CorpusNoise, FileNoise, NoisedBlock

BLOCKS = 8
"""How many a process does at a time."""


@dataclass
class NoiseInput:
    """A text, or a shard of it; `position` is the byte, unpacked, up to which it is done."""

    path: Path | None
    shard: tuple[int, int]
    position: int = 0
    scratch: Path | None = None
    """A folder of this run alone, for what processes hand over (default: a temporary one)."""

    def __str__(self) -> str:
        return "stdin" if self.path is None else str(self.path)

    @property
    def identity(self) -> list[int] | None:
        """What tells the file from what it may become: its size and when it was written."""
        if self.path is None:
            return None
        try:
            stat = self.path.stat()
        except OSError as error:
            raise DataError(f"{self.path} can not be read: {error.strerror}.") from None
        return [stat.st_size, stat.st_mtime_ns]

    def results(
        self, engine: Engine, work: CorpusNoise
    ) -> Iterator[tuple[NoisedBlock, float | None]]:
        """Yield what became of each block, in order, and which share is done, if known."""
        if self._can_be_entered and isinstance(engine, LocalEngine) and engine.jobs > 1:
            yield from self._by_number(engine, work)
        else:
            yield from self._read_here(engine, work)

    def lines_before(self) -> int:
        """Count the lines before the shard."""
        if self.path is None or self.shard[0] == 1:
            return 0
        with open_bytes(self.path) as file:
            before = byte_blocks.seek_block(file, self._bounds()[0])
            file.seek(0)
            blocks = byte_blocks.byte_blocks(file, 0, before)
            return sum(block.data.count(b"\n") for block in blocks)

    @property
    def _can_be_entered(self) -> bool:
        return self.path is not None and self.path.suffix != ".gz"

    def _bounds(self) -> tuple[int, int]:
        assert self.path is not None
        return byte_blocks.bounds(self.path.stat().st_size, *self.shard)

    def _by_number(
        self, engine: Engine, work: CorpusNoise
    ) -> Iterator[tuple[NoisedBlock, float | None]]:
        """Let processes read the blocks, and take what they leave in files."""
        assert self.path is not None
        first, after = self._bounds()
        begin = max(first, self.position // byte_blocks.SIZE)  # there the next line begins
        if self.position == self.path.stat().st_size:
            return
        with _empty_folder(self.scratch) as folder:
            there = FileNoise(work, self.path, folder)
            parts = [range(n, min(n + BLOCKS, after)) for n in range(begin, after, BLOCKS)]
            for part, done in zip(parts, engine.ordered(there, parts), strict=True):
                if done is not None:
                    yield done, (part.stop - begin) / (after - begin)

    def _read_here(
        self, engine: Engine, work: CorpusNoise
    ) -> Iterator[tuple[NoisedBlock, float | None]]:
        with ExitStack() as stack:
            file: Any = sys.stdin.buffer
            if self.path is not None:
                file = stack.enter_context(open_bytes(self.path))
            start, end = self._place(file)
            blocks = byte_blocks.byte_blocks(file, start, end)
            for done in engine.ordered(work, blocks):
                yield done, self._share(file, start, end, done.end)

    def _place(self, file: IO[bytes]) -> tuple[int, int | None]:
        """Go to where the work begins; returns that byte and the one where it ends, if known."""
        if self.path is None:
            return 0, None
        if not self._can_be_entered:
            file.seek(self.position)
            return self.position, None
        first, after = self._bounds()
        end = min(byte_blocks.seek_block(file, after), self.path.stat().st_size)
        start = self.position or byte_blocks.seek_block(file, first)
        file.seek(start)
        return start, end

    def _share(self, file: Any, start: int, end: int | None, done: int) -> float | None:
        if self.path is None:
            return None
        if end is None:  # packed: what has been read of the file tells nearly as much
            return min(float(file.fileobj.tell()) / self.path.stat().st_size, 1.0)
        return (done - start) / (end - start)


@contextmanager
def _empty_folder(path: Path | None) -> Iterator[Path]:
    """Make a folder, without what a killed run left in it, and delete it in the end."""
    if path is None:
        with tempfile.TemporaryDirectory(prefix="fairseq-ssl-noise-") as folder:
            yield Path(folder)
        return
    shutil.rmtree(path, ignore_errors=True)
    own = path / str(os.getpid())  # workers of a killed run may still be about to end
    own.mkdir(parents=True)
    try:
        yield own
    finally:
        shutil.rmtree(path, ignore_errors=True)
