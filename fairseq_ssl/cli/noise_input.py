"""Where ``fairseq-ssl noise`` takes its blocks from."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fairseq_ssl.cli.options import BlockInput
from fairseq_ssl.io import blocks
from fairseq_ssl.io.executors import Executor, LocalExecutor
from fairseq_ssl.noise.corpus import CorpusNoise, FileNoise, NoisedBlock

BLOCKS = 8
"""How many a process does at a time."""


@dataclass
class NoiseInput(BlockInput):
    """A text whose blocks processes may also read, and hand over, by themselves."""

    scratch: Path | None = None
    """A folder of this run alone, for what processes hand over (default: a temporary one)."""

    def results(
        self, engine: Executor, work: CorpusNoise
    ) -> Iterator[tuple[NoisedBlock, float | None]]:
        """Yield what became of each block, in order, and which share is done, if known."""
        if self.can_be_entered and isinstance(engine, LocalExecutor) and engine.jobs > 1:
            yield from self._by_number(engine, work)
        else:
            yield from self.blocks(engine, work)

    def _by_number(
        self, engine: Executor, work: CorpusNoise
    ) -> Iterator[tuple[NoisedBlock, float | None]]:
        """Let processes read the blocks, and take what they leave in files."""
        assert self.path is not None
        first, after = self.bounds()
        begin = max(first, self.position // blocks.BLOCK_SIZE)  # there the next line begins
        if self.position == self.path.stat().st_size:
            return
        with _empty_folder(self.scratch) as folder:
            there = FileNoise(work, self.path, folder)
            parts = [range(n, min(n + BLOCKS, after)) for n in range(begin, after, BLOCKS)]
            for part, done in zip(parts, engine.ordered(there, parts), strict=True):
                if done is not None:
                    yield done, (part.stop - begin) / (after - begin)


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
