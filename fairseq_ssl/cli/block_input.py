"""Where commands take blocks of lines from: a file, a shard of it, a .gz, or stdin."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol, TypeVar

from fairseq_ssl.cli.line_stream import STDIN
from fairseq_ssl.cli.output_paths import check_all_differ
from fairseq_ssl.cli.work_options import parsed_shard
from fairseq_ssl.errors import UsageError
from fairseq_ssl.io import blocks as byte_blocks
from fairseq_ssl.io.blocks import ByteBlock, share_read
from fairseq_ssl.io.executors import Executor
from fairseq_ssl.io.resumable import file_fingerprint
from fairseq_ssl.io.text_files import is_converted, open_text, stdin_text


class Done(Protocol):
    """What became of a block."""

    @property
    def end(self) -> int:
        """Byte after its last."""


Result = TypeVar("Result", bound=Done)


@dataclass
class BlockInput:
    """A text, or a shard of it; `position` is the byte, unpacked, up to which it is done."""

    path: Path | None
    shard: tuple[int, int] = (1, 1)
    position: int = 0
    size: int | None = None
    """Bytes from the start of one block to that of the next (default: those of byte_blocks)."""

    def __str__(self) -> str:
        return "stdin" if self.path is None else str(self.path)

    @property
    def identity(self) -> list[int] | None:
        """What tells the file from what it may become: its size and when it was written."""
        return None if self.path is None else file_fingerprint(self.path)

    def blocks(
        self, engine: Executor, work: Callable[[ByteBlock], Result]
    ) -> Iterator[tuple[Result, float | None]]:
        """Yield what became of each block, in order, and which share is done, if known."""
        with ExitStack() as stack:
            file = stack.enter_context(open_text(self.path)) if self.path else stdin_text()
            start, end = self._place(file)
            blocks = byte_blocks.byte_blocks(file, start, end, self.size)
            for done in engine.ordered(work, blocks):
                yield done, self._share(file, start, end, done.end)

    def lines_before(self) -> int:
        """Count the lines before the shard."""
        if self.path is None or self.shard[0] == 1:
            return 0
        with open_text(self.path) as file:
            before = byte_blocks.seek_block(file, self.bounds()[0], self.size)
            file.seek(0)
            blocks = byte_blocks.byte_blocks(file, 0, before)
            return sum(block.data.count(b"\n") for block in blocks)

    @property
    def can_be_entered(self) -> bool:
        """Whether one can begin in the middle: a file on the disk that is read as it is."""
        if self.path is None or self.path.suffix == ".gz" or not self.path.is_file():
            return False
        with open_text(self.path) as file:
            return not is_converted(file)

    def bounds(self) -> tuple[int, int]:
        """Return the first block of the shard, and the first of the next."""
        assert self.path is not None
        return byte_blocks.shard_bounds(self.path.stat().st_size, *self.shard, self.size)

    def _place(self, file: IO[bytes]) -> tuple[int, int | None]:
        """Go to where the work begins; returns that byte and the one where it ends, if known."""
        if self.path is None:
            return 0, None
        if not self.can_be_entered:
            if self.position:
                file.seek(self.position)
            return self.position, None
        first, after = self.bounds()
        end = min(byte_blocks.seek_block(file, after, self.size), self.path.stat().st_size)
        start = self.position or byte_blocks.seek_block(file, first, self.size)
        file.seek(start)
        return start, end

    def _share(self, file: Any, start: int, end: int | None, done: int) -> float | None:
        if end is None:
            return share_read(file) or None
        return (done - start) / (end - start)


def add_input(parser: argparse.ArgumentParser, what: str) -> None:
    """Declare the text that is read; the option is None for stdin."""
    parser.add_argument(
        "input",
        type=lambda word: None if word == STDIN else Path(word),
        nargs="?",
        metavar="INPUT",
        help=f"{what}; .gz by suffix (default, and -: stdin)",
    )


def shard_of(args: argparse.Namespace) -> tuple[int, int]:
    """Return what --shard asks for, as its number and how many there are."""
    if args.shard is None:
        return 1, 1
    shard = parsed_shard(args.shard)
    if args.output is None or args.input is None or args.input.suffix == ".gz":
        raise UsageError(
            "--shard needs -o and an INPUT file that is not compressed: only such a file can be "
            "entered in its middle."
        )
    if args.input.is_file() and not BlockInput(args.input).can_be_entered:
        raise UsageError(
            f"--shard needs UTF-8 text without byte-order mark and with Unix line ends, and "
            f"{args.input} has one or the other: it can only be read from its beginning. Convert "
            f"it: sed '1s/^\\xEF\\xBB\\xBF//; s/\\r$//' {args.input} > NEW"
        )
    return shard


def outputs_of(
    args: argparse.Namespace, shard: tuple[int, int], paths: Mapping[str, Path | None]
) -> dict[str, Path]:
    """Return the files to write by their names, of this shard; refused is one that is two."""
    outputs = {name: _of_shard(path, *shard) for name, path in paths.items() if path}
    check_all_differ(args.input, outputs.values())
    return outputs


def _of_shard(path: Path, number: int, total: int) -> Path:
    """Put the shard into a file's name, before a .gz; the names sort in the shards' order."""
    if total == 1:
        return path
    stem, gz = (path.name[:-3], ".gz") if path.suffix == ".gz" else (path.name, "")
    return path.with_name(f"{stem}.{number:0{len(str(total))}}-of-{total}{gz}")
