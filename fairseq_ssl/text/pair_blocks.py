"""Two files of parallel lines, cut into blocks of whole lines that can be worked on apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fairseq_ssl.text.lines import open_text
from fairseq_ssl.text.row_blocks import RowBlock, row_blocks


@dataclass(frozen=True)
class PairBlock(RowBlock):
    """The same lines of both files."""

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield the lines side by side, without their newlines."""
        return zip(self.lines(0), self.lines(1), strict=True)


def pair_blocks(left: Path, right: Path) -> Iterator[PairBlock]:
    """Yield the blocks of two files, unpacked if .gz; both must have equally many lines."""
    with open_text(left) as file, open_text(right) as other:
        for block in row_blocks((file, other), (str(left), str(right))):
            yield PairBlock(block.names, block.first, block.data, block.ends, block.share)
