"""Translation of blocks of lines: search options, decoders, and outputs aligned with the input."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from fairseq_ssl.errors import UsageError
from fairseq_ssl.io.blocks import ByteBlock
from fairseq_ssl.io.executors import worker_number
from fairseq_ssl.io.text_files import compress_chunk

MAX_LENGTH_PENALTY = 20
"""A length to a higher power is outside the range of floats."""
MAX_SOURCE_TOKENS = 10_000


@dataclass(frozen=True)
class DecodingConfig:
    """A translation model and its search options, in the names of fairseq-generate.

    >>> DecodingConfig((Path("model.pt"),), beam=2, nbest=3)
    Traceback (most recent call last):
        ...
    fairseq_ssl.errors.UsageError: `nbest` is 3, more than `beam`, which is 2.
    """

    model: tuple[Path, ...]
    """Checkpoints, several for an ensemble; or the folder of a CTranslate2 model."""
    data_dir: Path | None = None
    """Folder of the model's dictionaries. The folder of a CTranslate2 model has its own."""
    source_lang: str | None = None
    """Default: that of the checkpoint, or of the data in the folder."""
    target_lang: str | None = None
    beam: int = 6
    lenpen: float = 1.0
    nbest: int = 1
    """Hypotheses of each line."""
    sampling: bool = False
    sampling_topk: int = 0
    """Sample from the K most probable tokens (0: from all)."""
    temperature: float = 1.0
    max_source_tokens: int = 250
    """Lines with more tokens are not translated."""
    max_len_b: int = 250
    """Maximum tokens of a hypothesis."""
    seed: int = 1
    """Seed of sampling and of the noisy beam search."""
    max_tokens: int = 2000
    """Source tokens of a batch, padding included."""
    noisy_beam_beta: float = 0.0
    """Noise strength of the noisy beam search."""
    noisy_beam_granularity: str = "candidate"
    fluency_boost_lm: Path | None = None
    """Keep only hypotheses that this language model finds less fluent than the source."""
    fluency_boost_data: Path | None = None
    fluency_boost_ratio: float = 1.05
    fairseq_options: tuple[str, ...] = ()
    """Other command-line options of fairseq-generate."""
    compute_type: str = "float32"
    device: str = "cpu"
    threads: int = 1

    def __post_init__(self) -> None:
        for name in ("beam", "nbest", "max_len_b", "max_tokens", "threads"):
            check_positive(name, getattr(self, name))
        _check_range("max_source_tokens", self.max_source_tokens, 1, MAX_SOURCE_TOKENS)
        _check_range("temperature", self.temperature, 0.01, 100)
        _check_range("lenpen", self.lenpen, -MAX_LENGTH_PENALTY, MAX_LENGTH_PENALTY)
        _check_range("noisy_beam_beta", self.noisy_beam_beta, 0, 1000)
        for name in ("seed", "sampling_topk"):
            if getattr(self, name) < 0:
                raise UsageError(f"`{name}` is {getattr(self, name)}. Expected 0 or more.")
        if self.sampling_topk and not self.sampling:
            raise UsageError("`sampling_topk` needs `sampling`.")
        if self.nbest > self.beam and not self.sampling:
            raise UsageError(f"`nbest` is {self.nbest}, more than `beam`, which is {self.beam}.")


def check_positive(name: str, value: int) -> None:
    """Reject a parameter below 1."""
    if value < 1:
        raise UsageError(f"`{name}` is {value}. Expected 1 or more.")


def _check_range(name: str, value: float, low: float, high: float) -> None:
    """Reject a parameter outside its range, and NaN."""
    if not low <= value <= high:
        raise UsageError(f"`{name}` is {value}. Expected {low} to {high}.")


Hypotheses = list[str] | None
"""The hypotheses of a sentence, best first, none if the search keeps none; None: it failed."""


class Decoder(Protocol):
    """Translates sentences with the model of one process."""

    def decode(self, sentences: Sequence[list[str]], ids: Sequence[int]) -> list[Hypotheses]:
        """Return the hypotheses of each sentence of tokens.

        Random numbers depend on the ids, or on the seed set by `set_seed`.
        """

    def set_seed(self, seed: int) -> None:
        """Seed the random numbers of the next sentences."""


DecoderLoader = Callable[[DecodingConfig, int], Decoder]
"""Loads a decoder in the process with this index, from 0, which selects its GPU."""


OUTPUT, SOURCE_OUTPUT = "output", "source_output"
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
    """The outputs of a block."""

    outputs: tuple[bytes, ...]
    end: int
    counts: Counter[str]
    """By the names in `TRANSLATION_COUNTS`; `read` and `written` are tokens."""


@dataclass(frozen=True)
class SourceLine:
    """A line of the source text."""

    data: bytes
    start: int
    """Its first byte in the text."""
    tokens: list[str]
    problem: str = ""
    """The reason why the line is not translated, a name in `TRANSLATION_COUNTS`."""


@dataclass(frozen=True)
class BlockTranslator:
    """Translates the lines of a block.

    Output lines match the input order, whatever the batching. A line that cannot be translated has
    an empty translation. A line of which the search keeps no hypothesis is left out of all outputs.
    Random numbers depend only on the seed and the position of the line or block in the text.
    """

    load: DecoderLoader
    config: DecodingConfig
    outputs: tuple[str, ...] = (OUTPUT,)
    compressed: tuple[bool, ...] = (False,)

    def __call__(self, block: ByteBlock) -> TranslatedBlock:
        """Translate the block with the decoder of this process."""
        return self.translate(block, _decoder(self.load, self.config, worker_number()))

    def translate(self, block: ByteBlock, decoder: Decoder) -> TranslatedBlock:
        """Translate the block."""
        lines = self._lines(block)
        good = [line for line in lines if not line.problem]
        decoder.set_seed(self.config.seed * 1_000_003 + block.number)
        decoded = decoder.decode([line.tokens for line in good], [line.start for line in good])
        translations = {line.start: one for line, one in zip(good, decoded, strict=True)}
        counts = Counter(line.problem or "translated" for line in lines)
        columns: dict[str, list[bytes]] = {OUTPUT: [], SOURCE_OUTPUT: []}
        for line in lines:
            hypotheses = translations.get(line.start)
            counts["failed"] += not line.problem and hypotheses is None
            counts["read"] += 0 if line.problem else len(line.tokens)
            for text in [""] if hypotheses is None else hypotheses:
                columns[OUTPUT].append(text.encode("utf-8"))
                columns[SOURCE_OUTPUT].append(line.data)
                counts["written"] += len(text.split())
        counts.update(lines=len(lines), pairs=len(columns[OUTPUT]))
        chunks = tuple(
            compress_chunk(b"".join(line + b"\n" for line in columns[name]), compressed)
            for name, compressed in zip(self.outputs, self.compressed, strict=True)
        )
        return TranslatedBlock(chunks, block.end, counts)

    def _lines(self, block: ByteBlock) -> list[SourceLine]:
        lines, start = [], block.start
        for data in block.data.removesuffix(b"\n").split(b"\n"):
            lines.append(self._line(data, start))
            start += len(data) + 1
        return lines

    def _line(self, data: bytes, start: int) -> SourceLine:
        try:
            tokens = data.decode("utf-8").split()
        except UnicodeDecodeError:
            return SourceLine(data, start, [], "undecodable")
        if len(tokens) > self.config.max_source_tokens:
            return SourceLine(data, start, tokens, "too_long")
        return SourceLine(data, start, tokens, "" if tokens else "blank")


@lru_cache(maxsize=1)
def _decoder(load: DecoderLoader, config: DecodingConfig, worker: int) -> Decoder:
    """Return the decoder of this process, which is loaded once."""
    return load(config, worker)
