"""A folder that appears when all of it is written, and not before."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fairseq_ssl.errors import DataError


@contextmanager
def whole_folder(output: Path) -> Iterator[Path]:
    """Yield a folder aside, ``.tmp``, that in the end takes the name and place of `output`.

    What an earlier run left there half-written is thrown away.
    """
    aside = output.with_name(f"{output.name}.tmp")
    try:
        if aside.exists():
            shutil.rmtree(aside)
        aside.mkdir(parents=True)
        yield aside
        _take_place(aside, output)
    except OSError as error:
        raise DataError(f"{output} could not be written: {error}") from None
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _take_place(aside: Path, output: Path) -> None:
    """Rename; an older folder is moved away first and deleted last, so it is never seen in part."""
    older = aside.with_name(f"{aside.name}.old")
    shutil.rmtree(older, ignore_errors=True)
    if output.exists():
        output.rename(older)
    aside.rename(output)
    shutil.rmtree(older, ignore_errors=True)
