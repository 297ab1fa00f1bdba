"""Some lines of a text, drawn in one pass over it."""

from __future__ import annotations

import random
from collections.abc import Iterable


def sampled(lines: Iterable[str], size: int, seed: int) -> list[str]:
    """Return `size` of the lines, each as likely as any other, in their order.

    No more than these are held at a time, and the same seed gives the same lines.
    """
    draw = random.Random(seed)
    kept: list[tuple[int, str]] = []
    for number, line in enumerate(lines):
        if number < size:
            kept.append((number, line))
        elif (place := draw.randrange(number + 1)) < size:
            kept[place] = (number, line)
    return [line for _, line in sorted(kept)]
