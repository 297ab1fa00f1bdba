"""How far long work is: a bar on a terminal, a line every 30 seconds elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

from tqdm import tqdm

Item = TypeVar("Item")
SILENCE = 30.0
"""Seconds between lines where there is no terminal."""


class Advance(Protocol):
    """What work calls when it has got on."""

    def __call__(self, count: int, share: float | None = None, note: str = "") -> None:
        """Tell of so many more units, and what else there is to say.

        `share` of all is done now, where their number is unknown.
        """


def progress(
    what: str, unit: str, total: int | None = None, clock: Callable[[], float] = time.monotonic
) -> Advance:
    """Return what to call with the number of units just done."""
    if sys.stderr.isatty():
        bar = tqdm(total=total, desc=what, unit=f" {unit}", leave=False)

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
        if now - told >= SILENCE:
            told = now
            of_all = round(done / share) if share else total
            line = _line(what, unit, done, of_all, now - begun)
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


def watched(items: Iterable[Item], what: str, unit: str) -> Iterator[Item]:
    """Pass the items on and tell how many there were."""
    tell = progress(what, unit)
    for item in items:
        yield item
        tell(1)
