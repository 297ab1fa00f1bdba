"""Standard output in UTF-8, whose errors say that it is standard output that failed."""

from __future__ import annotations

import io
import os
import sys
from typing import Any

NAME = "stdout"
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
            error.filename = NAME
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
