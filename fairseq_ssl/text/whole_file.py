"""A file of lines that appears when all of it is written, and not before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from fairseq_ssl.atomic_output import atomic_path
from fairseq_ssl.text.lines import line_writer


@contextmanager
def whole_file(output: Path) -> Iterator[TextIO]:
    """Yield a file for lines that in the end takes the name of `output`, compressed if .gz."""
    compressed = ".gz" if output.suffix == ".gz" else ""
    with atomic_path(output, compressed) as temporary, line_writer(temporary) as file:
        yield file
