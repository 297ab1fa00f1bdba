"""Texts in one or more files, which jobs read in spans of lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fairseq_ssl.errors import UsageError
from fairseq_ssl.io.blocks import Block, Span, span_blocks, split_files
from fairseq_ssl.io.executors import Executor
from fairseq_ssl.io.fingerprints import file_fingerprint
from fairseq_ssl.io.text_files import text_files


@dataclass(frozen=True)
class Corpus:
    """A text or parallel texts. A text consists of one or more files, which are read in order."""

    texts: tuple[Path | None, ...]
    """Path of each side (a file, a glob, or a folder), or None for stdin."""
    block_size: int | None = None
    """Block size in bytes (default: `blocks.BLOCK_SIZE`)."""

    def __str__(self) -> str:
        return self.names[0]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the sides, for messages."""
        return Span(self.texts).names

    @property
    def paths(self) -> list[Path]:
        """Paths of the sides that are not stdin."""
        return [path for path in self.texts if path is not None]

    @property
    def is_stdin(self) -> bool:
        """True if a side is stdin, which can be read only once and from its beginning."""
        return None in self.texts

    @property
    def fingerprint(self) -> list[int] | list[list[int]] | None:
        """Size and modification time of a text or of each parallel text, or None for stdin."""
        if self.is_stdin:
            return None
        sides = [file_fingerprint(path) for path in self.paths]
        return sides[0] if len(sides) == 1 else sides

    def spans(self) -> list[Span]:
        """Return a span for each file, or for each tuple of parallel files."""
        if self.is_stdin:
            return [Span(self.texts)]
        sides = [text_files(path) for path in self.paths]
        for path, files in zip(self.paths, sides, strict=True):
            if len(files) != len(sides[0]):
                raise UsageError(
                    f"{self.paths[0]} has {len(sides[0])} files but {path} has {len(files)}. "
                    "Parallel texts must have the same number of files."
                )
        return [Span(files, number) for number, files in enumerate(zip(*sides, strict=True))]

    def parts(self, part: int, executor: Executor) -> list[Span]:
        """Return spans of about `part` bytes; see `split_files`."""
        split = partial(split_files, part=part, size=self.block_size)
        return [span for spans in executor.imap(split, self.spans()) for span in spans]

    def blocks(self, after: Span | None = None) -> Iterator[Block]:
        """Yield all blocks, or only the blocks from the start of `after` to the end of the text."""
        for span in self.spans():
            if after is None or span.file > after.file:
                yield from span_blocks(span, self.block_size)
            elif span.file == after.file:
                yield from span_blocks(after, self.block_size)
