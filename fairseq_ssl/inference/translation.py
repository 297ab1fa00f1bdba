"""Translation of blocks of lines: search options, decoders, and outputs aligned with the input."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from fairseq_ssl.errors import UsageError, check_positive
from fairseq_ssl.inference.scoring import MAX_PENALTY
from fairseq_ssl.io.blocks import ByteBlock
from fairseq_ssl.io.executors import worker_number
from fairseq_ssl.io.jobs import BlockResult, Fingerprints
from fairseq_ssl.io.text_files import compress_chunk, convert_fields
from fairseq_ssl.options import check, option

MAX_SOURCE_TOKENS = 10_000
MAX_SEED = 2**32 - 1
QUANTIZATIONS = ("float32", "float16", "bfloat16", "int16", "int8", "int8_float16", "int8_float32")
"""Data types of CTranslate2."""
MAX_POWER = 30
"""Max decimal exponent of length ** lenpen, by which fairseq divides scores in single precision."""
NEEDED = {
    "sampling_topk": "sampling",
    "fluency_boost_data": "fluency_boost_lm",
}
"""Options of `DecodingConfig` without effect unless a second option is set."""


@dataclass(frozen=True)
class DecodingConfig:
    """A translation model and its search options, in the names of fairseq-generate.

    >>> DecodingConfig(("model.pt",), beam=2, nbest=3)
    Traceback (most recent call last):
        ...
    fairseq_ssl.errors.UsageError: `nbest` is 3, more than `beam` (2). Increase `beam`.
    """

    model: tuple[str | Path, ...] = option(
        MISSING,
        "translation model, several for an ensemble; for ctranslate2 a checkpoint, which is "
        "converted once to a folder next to it, or the folder of a CTranslate2 model",
        metavar="CHECKPOINT",
        nargs="+",
    )
    data_dir: str | Path | None = None
    """Folder with the dictionaries of the checkpoint. Not needed for a CTranslate2 model."""
    source_lang: str | None = None
    """Source and target language (default: from the checkpoint or the data folder)."""
    target_lang: str | None = None
    beam: int = option(6, "beam size", low=1)
    lenpen: float = option(1.0, "length penalty", low=-MAX_PENALTY, high=MAX_PENALTY)
    nbest: int = option(1, "hypotheses for each line", low=1)
    sampling: bool = option(False, "sample each token instead of a beam search")
    sampling_topk: int = option(
        0, "for sampling: draw from the N most probable tokens, from all if 0", low=0
    )
    max_source_tokens: int = option(
        250,
        "max source length in tokens; longer lines have empty translations",
        low=1,
        high=MAX_SOURCE_TOKENS,
    )
    max_len_b: int = option(250, "max length of a translation in tokens", low=1)
    seed: int = option(1, "random seed of sampling and noise", low=0, high=MAX_SEED)
    max_tokens: int = 2000
    """Maximum number of source tokens of a batch, including padding."""
    noisy_beam_beta: float = option(
        0.0,
        "noise strength of the noisy beam search, beta_random in the thesis, which uses 6; for "
        "the engine fairseq",
        low=0,
        high=1000,
        metavar="BETA",
    )
    fluency_boost_lm: str | Path | None = option(
        None,
        "for the engine fairseq: language model for fluency boost; keep only hypotheses that are "
        "less fluent than the source line by a factor of 1.05 or more",
        metavar="CHECKPOINT",
    )
    fluency_boost_data: str | Path | None = option(
        None, "folder with the dict.txt of the language model", metavar="DIR"
    )
    fairseq_options: tuple[str, ...] = option(
        (),
        "for the engine fairseq: additional options of fairseq-generate, in quotes",
        parse=shlex.split,
        metavar="'...'",
    )
    compute_type: str = option(
        "float32",
        "data type of the computation: int8 for CPUs, float16 or int8_float16 for GPUs; float32 or "
        "float16 for the engine fairseq",
        choices=QUANTIZATIONS,
    )
    device: str = "cpu"
    """``cpu``, ``cuda`` for one GPU per process, or for the engine ``fairseq`` also ``cuda:1``."""
    threads: int | None = None
    """CPU threads of each process (None: 1 in worker processes, otherwise unchanged)."""

    def __post_init__(self) -> None:
        convert_fields(self, ["data_dir", "fluency_boost_lm", "fluency_boost_data"], ["model"])
        object.__setattr__(self, "fairseq_options", tuple(self.fairseq_options))
        if not self.model:
            raise UsageError("`model` is empty. Expected at least one checkpoint.")
        check_positive("threads", 1 if self.threads is None else self.threads)
        check_positive("max_tokens", self.max_tokens)
        check(self)
        if abs(self.lenpen) * math.log10(self.max_len_b + 1) > MAX_POWER:
            raise UsageError(
                f"`lenpen` is {self.lenpen}, too far from 0 for translations of {self.max_len_b} "
                "tokens, `max_len_b`. Their scores would exceed the range of floats."
            )
        if self.fluency_boost_lm and not self.fluency_boost_data:
            raise UsageError(
                "`fluency_boost_lm` needs `fluency_boost_data`, the folder with its dict.txt."
            )
        for name, needed in NEEDED.items():
            if getattr(self, name) != getattr(type(self), name) and not getattr(self, needed):
                raise UsageError(f"`{name}` needs `{needed}`.")
        if self.nbest > self.beam and not self.sampling:
            raise UsageError(
                f"`nbest` is {self.nbest}, more than `beam` ({self.beam}). Increase `beam`."
            )


Hypotheses = list[str] | None
"""Hypotheses of a sentence, best first. Empty if the search drops all; None if it failed."""


class Decoder(Protocol):
    """Interface of decoders."""

    def decode(self, sentences: Sequence[list[str]], ids: Sequence[int]) -> list[Hypotheses]:
        """Return the hypotheses of each sentence.

        Args:
            sentences: tokens of each sentence.
            ids: unique id of each sentence, which seeds noisy beam search.
        """

    def set_seed(self, seed: int) -> None:
        """Seed sampling for the next sentences."""


DecoderLoader = Callable[[DecodingConfig, int], Decoder]
"""Loads a decoder, given the config and the index of the process, which selects the GPU."""


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
"""Counts of a block, of lines unless noted: `read` and `written` count tokens."""


@dataclass(frozen=True)
class SourceLine:
    """A line of the source text."""

    data: bytes
    start: int
    """Offset of the first byte in the text."""
    tokens: list[str]
    problem: str = ""
    """Reason for not translating the line, a name in `TRANSLATION_COUNTS`, or ""."""


@dataclass(frozen=True)
class BlockTranslator:
    """Function that translates the lines of a block.

    Output lines match the input order, whatever the batching. A line that cannot be translated has
    an empty translation. A line is omitted from all outputs if the search keeps no hypothesis for
    it. Random numbers depend only on the seed and the position of the line or block in the text.
    """

    load: DecoderLoader
    config: DecodingConfig
    outputs: tuple[str, ...] = (OUTPUT,)
    compressed: tuple[bool, ...] = (False,)
    files: Fingerprints = ()
    """Fingerprints of the models. If they change, a process loads the models again."""

    def __call__(self, block: ByteBlock) -> BlockResult:
        """Translate a block with the decoder of this process."""
        decoder = process_decoder(self.load, self.config, worker_number(), self.files)
        return self.translate(block, decoder)

    def translate(self, block: ByteBlock, decoder: Decoder) -> BlockResult:
        """Translate a block with `decoder`, which is seeded by the index of the block."""
        lines = self._lines(block)
        valid = [line for line in lines if not line.problem]
        decoder.set_seed(self.config.seed * 1_000_003 + block.number)
        decoded = decoder.decode([line.tokens for line in valid], [line.start for line in valid])
        translations = {line.start: one for line, one in zip(valid, decoded, strict=True)}
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
        return BlockResult(chunks, block.end, counts)

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
def process_decoder(
    load: DecoderLoader, config: DecodingConfig, worker: int, files: Fingerprints
) -> Decoder:
    """Return the decoder of this process. It is loaded once, and again if `files` change."""
    return load(config, worker)


def option_words(options: Mapping[str, Any]) -> list[str]:
    """Return options as command-line arguments. False omits an option."""
    words = []
    for name, value in options.items():
        if value is not False:
            option = f"--{name.replace('_', '-')}"
            words.append(option if value is True else f"{option}={value}")
    return words
