"""Binarised sentences of which the damaged ones are told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from fairseq_ssl.errors import DataError

Unread = Callable[[str], DataError]


class CheckedLines:
    """One side of a data set of fairseq's, whose ids are all in its dictionary."""

    def __init__(self, lines: Any, dictionary: Any, unread: Unread) -> None:
        self.lines = lines
        self.dictionary = dictionary
        self.unread = unread

    def __getitem__(self, place: int) -> Tensor:
        """Return a sentence [time]."""
        try:
            ids: Tensor = self.lines[place]
        except (IndexError, OSError, OverflowError, ValueError) as error:
            raise self.unread(str(error)) from error
        if not ids.numel():
            raise self.unread("a line without an end.")
        only_copied = getattr(self.dictionary, "surfaces", ())
        least, most = map(int, ids.aminmax())
        if least < 0 or most >= len(self.dictionary) + len(only_copied):
            raise self.unread("an id that its dictionary has not.")
        return ids

    def __len__(self) -> int:
        return len(self.lines)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.lines, name)
