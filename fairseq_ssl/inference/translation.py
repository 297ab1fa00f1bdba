"""Translation of blocks of lines: settings, decoders, and aligned output lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from fairseq_ssl.io.blocks import ByteBlock
from fairseq_ssl.io.executors import worker_number
from fairseq_ssl.io.text_files import compress_chunk


@dataclass(frozen=True)
class DecodingConfig:
    """A model and how to decode with it; sizes are in tokens."""

    models: tuple[Path, ...]
    """Checkpoints, of an ensemble where there are several; or one folder of CTranslate2's."""
    data_dir: Path | None = None
    """Folder of the dictionaries (None: the one the model was trained on)."""
    languages: tuple[str | None, str | None] = (None, None)
    """Source and target (None: the ones the checkpoint or that folder tells)."""
    beam: int = 6
    length_penalty: float = 1.0
    nbest: int = 1
    sampling: bool = False
    top_k: int = 0
    """0: any token may be sampled."""
    temperature: float = 1.0
    longest: int = 250
    """Tokens that are written at most."""
    batch_tokens: int = 4000
    """Tokens of a batch of sources, padding included."""
    compute_type: str = "float32"
    device: str = "cpu"
    threads: int = 1
    options: tuple[str, ...] = ()
    """Of fairseq-generate, for the fairseq engine alone."""


DecodedLine = list[str] | None
"""The lines for a sentence, best first, where a search may keep none; None: it failed."""


class Decoder(Protocol):
    """Writes sentences for sentences."""

    def decode(self, sentences: Sequence[list[str]], ids: Sequence[int]) -> list[DecodedLine]:
        """Return what is written for each sentence of tokens.

        What is random depends on the ids, or on a seed set by `begin`.
        """

    def begin(self, seed: int) -> None:
        """Draw from here on what this seed gives."""


DecoderLoader = Callable[[DecodingConfig, int], Decoder]
"""Loads a decoder in the process that uses it, whose number, from 0, chooses its GPU."""


MADE, GIVEN = "made", "given"
TRANSLATION_OUTPUTS = (MADE, GIVEN)
TRANSLATION_COUNTS = (
    "lines",
    "blank",
    "too_long",
    "undecodable",
    "failed",
    "pairs",
    "read",
    "written",
)


@dataclass(frozen=True)
class TranslatedBlock:
    """What became of a block."""

    outputs: tuple[bytes, ...]
    end: int
    counts: Counter[str]
    """By the names in `TRANSLATION_COUNTS`; `read` and `written` are tokens."""


@dataclass(frozen=True)
class Line:
    """A line as it was given."""

    data: bytes
    start: int
    """Its first byte in the text."""
    tokens: list[str]
    fate: str = ""
    """Why it is not translated, a name in `TRANSLATION_COUNTS`."""


@dataclass(frozen=True)
class Translation:
    """Translates the lines of a block, long ones first, and writes them in the order given.

    A line that can not be translated gets an empty one, so that all stay side by side; one of which
    the search keeps nothing is left out. What is random depends on the seed and the place of the
    line or block in the text, and on nothing else.
    """

    load: DecoderLoader
    decoding: DecodingConfig
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
        columns: dict[str, list[bytes]] = {name: [] for name in TRANSLATION_OUTPUTS}
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
            compress_chunk(b"".join(line + b"\n" for line in columns[name]), compressed)
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
def _decoder(load: DecoderLoader, decoding: DecodingConfig, worker: int) -> Decoder:
    """Return the decoder of this process, which is loaded once."""
    return load(decoding, worker)
