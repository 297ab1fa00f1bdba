"""A file or folder that many processes want at once: one makes it, the others wait."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from pathlib import Path

from fairseq_ssl.errors import DataError


def made_once(
    made: Path, is_done: Callable[[], bool], make: Callable[[], None], hint: str = ""
) -> None:
    """Make it unless it is done; a lock beside it holds back others, on a shared disk too."""
    if is_done():
        return
    lock = made.with_name(f"{made.name}.lock")
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        with lock.open("w") as held:
            fcntl.lockf(held, fcntl.LOCK_EX)
            if not is_done():
                make()
        lock.unlink(missing_ok=True)
    except OSError as error:
        raise DataError(f"{made} could not be written: {error.strerror}.{hint}") from None
