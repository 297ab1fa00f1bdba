"""The terminal: UTF-8 on stdout, progress on stderr, tables."""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from tqdm import tqdm

from fairseq_ssl.io.jobs import Progress, counted

STDOUT_NAME = "stdout"
"""The file name of the errors."""


class StandardOutput(io.FileIO):
    """The descriptor of stdout. It remembers a failed write, which argparse hides."""

    failure: OSError | None = None

    def write(self, data: Any) -> int:
        """Write bytes."""
        try:
            return super().write(data)
        except OSError as error:
            self.failure = error
            error.filename = STDOUT_NAME
            raise


def open_stdout() -> None:
    """Let sys.stdout write UTF-8 whatever the locale is, and file names as the disk has them.

    What is not a plain stream, as in a notebook, stays.
    """
    stream = sys.stdout
    if not isinstance(stream, io.TextIOWrapper):
        return
    raw = getattr(stream.buffer, "raw", stream.buffer)
    if type(raw) is not io.FileIO:
        stream.reconfigure(encoding="utf-8", errors="surrogateescape")
        return
    stream.flush()
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(StandardOutput(raw.fileno(), "wb", closefd=False)),
        encoding="utf-8",
        errors="surrogateescape",
        line_buffering=stream.line_buffering or stream.write_through,
    )


def flush_stdout() -> None:
    """Write what is buffered; raise an error of this write or of an earlier one."""
    sys.stdout.flush()
    raw = _raw()
    if raw is not None and raw.failure is not None:
        raise raw.failure


def drop_stdout() -> None:
    """Forget an error, and let later writes succeed, such as Python's last flush."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raw = _raw()
    if raw is not None:
        raw.failure = None


def _raw() -> StandardOutput | None:
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return raw if isinstance(raw, StandardOutput) else None


Item = TypeVar("Item")
SECONDS_BETWEEN_LINES = 30.0
"""Seconds between lines where there is no terminal."""


def progress(
    task: str, unit: str, total: int | None = None, clock: Callable[[], float] = time.monotonic
) -> Progress:
    """Return a function that reports units of work: a bar, or a line every 30 seconds."""
    if sys.stderr.isatty():
        bar = tqdm(total=total, desc=task, unit=f" {unit}", leave=False)

        def advance(count: int, share: float | None = None, note: str = "") -> None:
            if share:
                bar.total = round((bar.n + count) / share)
            if note:
                bar.set_postfix_str(note, refresh=False)
            bar.update(count)
            if bar.n == bar.total:
                bar.close()

        return advance

    begun = told = clock()
    done = 0

    def tell(count: int, share: float | None = None, note: str = "") -> None:
        nonlocal told, done
        done += count
        now = clock()
        if now - told >= SECONDS_BETWEEN_LINES:
            told = now
            of_all = round(done / share) if share else total
            line = _line(task, unit, done, of_all, now - begun)
            print(f"{line}, {note}" if note else line, file=sys.stderr, flush=True)

    return tell


def _line(what: str, unit: str, done: int, total: int | None, seconds: float) -> str:
    """Say how much is done, how fast, and how long the rest will take where that is known."""
    rate = done / seconds
    if total is None:
        return f"{what}: {done} {unit}, {rate:.0f}/s"
    left = (total - done) / rate if done else 0
    return (
        f"{what}: {done} of {total} {unit} ({done / total:.0%}), {rate:.0f}/s, "
        f"{left / 60:.0f} min left"
    )


def watched(items: Iterable[Item], task: str, unit: str) -> Iterator[Item]:
    """Pass the items on, and show how many there are so far."""
    return counted(items, progress(task, unit))


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print aligned columns on stdout."""
    table = [list(header), *map(list, rows)]
    widths = [max(len(row[i]) for row in table) for i in range(len(header))]
    for row in table:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        )


def print_lines(*lines: object) -> None:
    """Print lines on stderr, where a verb reports what it did."""
    print(*lines, sep="\n", file=sys.stderr)
