"""Terminal output: UTF-8 on stdout, progress on stderr, and tables."""

from __future__ import annotations

import argparse
import io
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from fairseq_ssl.errors import DataError, one_line
from fairseq_ssl.io.jobs import Progress, counted
from fairseq_ssl.io.remote import as_path

STDOUT_NAME = "stdout"
"""Value of `OSError.filename` after a failed write to stdout."""


class StandardOutput(io.FileIO):
    """Raw stdout stream that stores the error of a failed write, which argparse would ignore."""

    failure: OSError | None = None

    def write(self, data: Any) -> int:
        """Write bytes and return their number. Store an OSError before raising it again."""
        try:
            return super().write(data)
        except OSError as error:
            self.failure = error
            error.filename = STDOUT_NAME
            raise


def open_stdout() -> None:
    """Make sys.stdout write UTF-8 in all locales, and preserve file names that are not UTF-8.

    A stream that is not a TextIOWrapper, as in a notebook, is not changed. If the caller has closed
    stdout, writing to it fails. If the caller has closed stderr, messages are dropped.
    """
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    stream = sys.stdout
    if stream is None:
        sys.stdout = _utf8_stream(os.open(os.devnull, os.O_RDONLY))
        return
    if not isinstance(stream, io.TextIOWrapper):
        return
    raw = getattr(stream.buffer, "raw", stream.buffer)
    if type(raw) is not io.FileIO:
        stream.reconfigure(encoding="utf-8", errors="surrogateescape")
        return
    stream.flush()
    sys.stdout = _utf8_stream(raw.fileno(), stream.line_buffering or stream.write_through)


def _utf8_stream(descriptor: int, line_buffering: bool = False) -> io.TextIOWrapper:
    return io.TextIOWrapper(
        io.BufferedWriter(StandardOutput(descriptor, "wb", closefd=False)),
        encoding="utf-8",
        errors="surrogateescape",
        line_buffering=line_buffering,
    )


def flush_stdout() -> None:
    """Flush stdout. Raise the error of the flush or of an earlier failed write."""
    sys.stdout.flush()
    raw = _raw()
    if raw is not None and raw.failure is not None:
        raise raw.failure


def drop_stdout() -> None:
    """Redirect stdout to os.devnull and clear the stored error, so that flushing at exit works."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raw = _raw()
    if raw is not None:
        raw.failure = None


def _raw() -> StandardOutput | None:
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return raw if isinstance(raw, StandardOutput) else None


def path_argument(word: str) -> Path:
    """Parse a file path or a URL, as an argparse type."""
    try:
        return as_path(word)
    except DataError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def path_or_stream(word: str) -> Path | None:
    """Parse a path, as an argparse type. Return None for ``-``, which is stdin or stdout."""
    return None if word == "-" else path_argument(word)


Item = TypeVar("Item")
SECONDS_BETWEEN_LINES = 30.0
"""Minimum time between progress lines if stderr is not a terminal, in seconds."""


def progress(
    task: str, unit: str, total: int | None = None, clock: Callable[[], float] = time.monotonic
) -> Progress:
    """Return a function that reports completed units of work on stderr.

    On a terminal, the function draws a bar. Otherwise, it prints a line if at least
    `SECONDS_BETWEEN_LINES` seconds have passed since the last line.
    """
    if sys.stderr.isatty():
        from tqdm import tqdm  # takes as long to import as the rest of this module

        bar = tqdm(total=total, desc=task, unit=f" {unit}", leave=False)

        def advance(count: int, fraction: float | None = None, note: str = "") -> None:
            if fraction:
                bar.total = round((bar.n + count) / fraction)
            if note:
                bar.set_postfix_str(note, refresh=False)
            bar.update(count)
            if bar.n == bar.total:
                bar.close()

        return advance

    begun = printed = clock()
    done = 0

    def print_line(count: int, fraction: float | None = None, note: str = "") -> None:
        nonlocal printed, done
        done += count
        now = clock()
        if now - printed >= SECONDS_BETWEEN_LINES:
            printed = now
            of_all = round(done / fraction) if fraction else total
            line = _line(task, unit, done, of_all, now - begun)
            print(f"{line}, {note}" if note else line, file=sys.stderr, flush=True)

    return print_line


def _line(what: str, unit: str, done: int, total: int | None, seconds: float) -> str:
    """Return a progress line: number of units, speed and, if the total is known, remaining time."""
    rate = done / seconds
    if total is None:
        return f"{what}: {done} {unit}, {rate:.0f}/s"
    left = (total - done) / rate if done else 0
    return (
        f"{what}: {done} of {total} {unit} ({done / total:.0%}), {rate:.0f}/s, "
        f"{left / 60:.0f} min left"
    )


def watched(items: Iterable[Item], task: str, unit: str) -> Iterator[Item]:
    """Yield the items, and report the number of items so far with `progress`."""
    return counted(items, progress(task, unit))


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a header and rows on stdout, in aligned columns."""
    table = [list(header), *map(list, rows)]
    widths = [max(len(row[i]) for row in table) for i in range(len(header))]
    for row in table:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        )


def print_lines(*lines: object) -> None:
    """Print each argument as a line on stderr, with control characters escaped."""
    print(*map(one_line, map(str, lines)), sep="\n", file=sys.stderr)
