"""A file that appears when all of it is written, and not before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from fairseq_ssl.errors import DataError
from fairseq_ssl.text.lines import line_writer


@contextmanager
def whole_file(output: Path) -> Iterator[TextIO]:
    """Yield a file for lines that in the end takes the name of `output`, compressed if .gz."""
    gz = ".gz" if output.suffix == ".gz" else ""
    aside = output.with_name(f"{output.name.removesuffix(gz)}.tmp{gz}")
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        with line_writer(aside) as file:
            yield file
        aside.replace(output)
    except OSError as error:
        raise DataError(f"{output} could not be written: {error.strerror}.") from None
    finally:
        aside.unlink(missing_ok=True)
