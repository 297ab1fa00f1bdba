"""A block of a text, translated: from its lines to lines that stand beside each other."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

from fairseq_ssl.engines.decoding import Decoder, Decoding, Loader
from fairseq_ssl.io.blocks import ByteBlock
from fairseq_ssl.io.executors import worker_number

MADE, GIVEN = "made", "given"
OUTPUTS = (MADE, GIVEN)
COUNTS = ("lines", "blank", "too_long", "undecodable", "failed", "pairs", "read", "written")


@dataclass(frozen=True)
class TranslatedBlock:
    """What became of a block."""

    outputs: tuple[bytes, ...]
    end: int
    counts: Counter[str]
    """By the names in `COUNTS`; `read` and `written` are tokens."""


@dataclass(frozen=True)
class Line:
    """A line as it was given."""

    data: bytes
    start: int
    """Its first byte in the text."""
    tokens: list[str]
    fate: str = ""
    """Why it is not translated, a name in `COUNTS`."""


@dataclass(frozen=True)
class Translation:
    """Translates the lines of a block, long ones first, and writes them in the order given.

    A line that can not be translated gets an empty one, so that all stay side by side; one of which
    the search keeps nothing is left out. What is random depends on the seed and the place of the
    line or block in the text, and on nothing else.
    """

    load: Loader
    decoding: Decoding
    seed: int
    most: int
    """Tokens of a line that is translated."""
    outputs: tuple[str, ...] = (MADE,)
    compressed: tuple[bool, ...] = (False,)

    def __call__(self, block: ByteBlock) -> TranslatedBlock:
        """Translate the block."""
        lines = self._lines(block)
        good = [line for line in lines if not line.fate]
        decoder = _decoder(self.load, self.decoding, worker_number())
        decoder.begin(self.seed * 1_000_003 + block.number)
        decoded = decoder.decode([line.tokens for line in good], [line.start for line in good])
        found = {line.start: written for line, written in zip(good, decoded, strict=True)}
        counts = Counter(line.fate or "translated" for line in lines)
        columns: dict[str, list[bytes]] = {name: [] for name in OUTPUTS}
        for line in lines:
            written = found.get(line.start)
            counts["failed"] += not line.fate and written is None
            counts["read"] += 0 if line.fate else len(line.tokens)
            for text in [""] if written is None else written:
                columns[MADE].append(text.encode("utf-8"))
                columns[GIVEN].append(line.data)
                counts["written"] += len(text.split())
        counts.update(lines=len(lines), pairs=len(columns[MADE]))
        pieces = tuple(
            compressed(b"".join(line + b"\n" for line in columns[name]), compressed)
            for name, compressed in zip(self.outputs, self.compressed, strict=True)
        )
        return TranslatedBlock(pieces, block.end, counts)

    def _lines(self, block: ByteBlock) -> list[Line]:
        lines, start = [], block.start
        for data in block.data.removesuffix(b"\n").split(b"\n"):
            lines.append(self._line(data, start))
            start += len(data) + 1
        return lines

    def _line(self, data: bytes, start: int) -> Line:
        try:
            tokens = data.decode("utf-8").split()
        except UnicodeDecodeError:
            return Line(data, start, [], "undecodable")
        fate = "" if tokens else "blank"
        return Line(data, start, tokens, "too_long" if len(tokens) > self.most else fate)


@lru_cache(maxsize=1)
def _decoder(load: Loader, decoding: Decoding, worker: int) -> Decoder:
    """Return the decoder of this process, which is loaded once."""
    return load(decoding, worker)
