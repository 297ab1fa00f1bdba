"""A folder that appears when all of it is written, and not before."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fairseq_ssl.atomic_output import exclusive, write_errors


@contextmanager
def whole_folder(output: Path) -> Iterator[Path]:
    """Yield a temporary folder, ``.tmp``, that in the end takes the name of `output`.

    What an earlier run left in it is deleted.
    """
    temporary = output.with_name(f"{output.name}.tmp")
    with exclusive(output), write_errors(output):
        try:
            if temporary.exists():
                shutil.rmtree(temporary)
            temporary.mkdir()
            yield temporary
            _replace(temporary, output)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def _replace(temporary: Path, output: Path) -> None:
    """Rename; an older folder is moved away first and deleted last, so it is never seen in part."""
    older = temporary.with_name(f"{temporary.name}.old")
    shutil.rmtree(older, ignore_errors=True)
    if output.exists():
        output.rename(older)
    temporary.rename(output)
    shutil.rmtree(older, ignore_errors=True)
