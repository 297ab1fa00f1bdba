"""A file or folder that many processes want at once: one makes it, the others wait."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fairseq_ssl.atomic_output import exclusive
from fairseq_ssl.errors import OutputError


def made_once(
    made: Path, is_done: Callable[[], bool], make: Callable[[], None], hint: str = ""
) -> None:
    """Make it unless it is done; `hint` ends the error of a file that cannot be written."""
    if is_done():
        return
    try:
        with exclusive(made, wait=True):
            if not is_done():
                make()
    except OutputError as error:
        raise OutputError(f"{error}{hint}") from None
