"""What every engine does."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
Handle = TypeVar("Handle")


class Engine(Protocol):
    """Spreads work over processes."""

    def ordered(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield what `work` makes of each item, in the items' order.

        `work` is sent to each process once. Only a few items are under way at a time, so that
        memory does not grow with their number.
        """


def in_order(
    begin: Callable[[Item], Handle],
    end: Callable[[Handle], Result],
    items: Iterable[Item],
    most: int,
) -> Iterator[Result]:
    """Keep at most so many items begun, and end them in their order."""
    begun: deque[Handle] = deque()
    for item in items:
        begun.append(begin(item))
        if len(begun) >= most:
            yield end(begun.popleft())
    while begun:
        yield end(begun.popleft())
