"""Search options of translation models."""

from __future__ import annotations

import math
import shlex
from dataclasses import MISSING, dataclass
from pathlib import Path

from fairseq_ssl.errors import UsageError, check_positive
from fairseq_ssl.inference.scoring import MAX_PENALTY
from fairseq_ssl.io.text_files import convert_fields
from fairseq_ssl.options import check, option

MAX_SOURCE_TOKENS = 10_000
MAX_SEED = 2**32 - 1
QUANTIZATIONS = ("float32", "float16", "bfloat16", "int16", "int8", "int8_float16", "int8_float32")
"""Data types that CTranslate2 supports."""
MAX_POWER = 30
"""Max decimal exponent of length ** lenpen, by which fairseq divides scores in float32."""
NEEDED = {
    "sampling_topk": "sampling",
    "fluency_boost_data": "fluency_boost_lm",
}
"""Options of `DecodingConfig` that require another option, and the required option."""


@dataclass(frozen=True)
class DecodingConfig:
    """A translation model and its search options, named as in fairseq-generate.

    >>> DecodingConfig(("model.pt",), beam=2, nbest=3)
    Traceback (most recent call last):
        ...
    fairseq_ssl.errors.UsageError: `nbest` is 3, more than `beam` (2). Increase `beam`.
    """

    model: tuple[str | Path, ...] = option(
        MISSING,
        "checkpoint of a translation model; several checkpoints form an ensemble; the engine "
        "ctranslate2 also accepts CTranslate2 folders, and converts a checkpoint once, to a folder "
        "next to the checkpoint",
        metavar="CHECKPOINT",
        nargs="+",
    )
    data_dir: str | Path | None = None
    """Folder with the dictionaries of the checkpoint. CTranslate2 models do not need it."""
    source_lang: str | None = None
    """Source language. Both languages default to those in the checkpoint or the data folder."""
    target_lang: str | None = None
    beam: int = option(6, "beam size", low=1)
    lenpen: float = option(1.0, "length penalty", low=-MAX_PENALTY, high=MAX_PENALTY)
    nbest: int = option(1, "number of hypotheses per line", low=1)
    sampling: bool = option(False, "sample tokens instead of using beam search")
    sampling_topk: int = option(
        0, "number of most probable tokens to sample from; 0 samples from all tokens", low=0
    )
    max_source_tokens: int = option(
        250,
        "max source length in tokens; longer lines get empty translations",
        low=1,
        high=MAX_SOURCE_TOKENS,
    )
    max_len_b: int = option(250, "max translation length in tokens", low=1)
    seed: int = option(1, "random seed for sampling and noisy beam search", low=0, high=MAX_SEED)
    max_tokens: int = 2000
    """Maximum number of source tokens per batch, including padding."""
    noisy_beam_beta: float = option(
        0.0,
        "noise strength of noisy beam search (beta_random in Kiyono, 2022, who uses 6); only for "
        "the engine fairseq",
        low=0,
        high=1000,
        metavar="BETA",
    )
    fluency_boost_lm: str | Path | None = option(
        None,
        "language model checkpoint for fluency boost, which keeps only hypotheses less fluent than "
        "the source line by a factor of 1.05 or more; only for the engine fairseq",
        metavar="CHECKPOINT",
    )
    fluency_boost_data: str | Path | None = option(
        None, "folder with the dict.txt of the language model for fluency boost", metavar="DIR"
    )
    fairseq_options: tuple[str, ...] = option(
        (),
        "further fairseq-interactive options, in quotes; only for the engine fairseq",
        parse=shlex.split,
        metavar="'...'",
    )
    compute_type: str = option(
        "float32",
        "data type for computation, such as int8 on a CPU and float16 or int8_float16 on a GPU; "
        "the engine fairseq supports only float32 and float16",
        choices=QUANTIZATIONS,
    )
    device: str = "cpu"
    """``cpu`` or ``cuda`` (one GPU per process). The engine fairseq also supports ``cuda:1``."""
    threads: int | None = None
    """Number of CPU threads per process (default: 1 in worker processes, else torch's setting)."""

    def __post_init__(self) -> None:
        convert_fields(self, ["data_dir", "fluency_boost_lm", "fluency_boost_data"], ["model"])
        object.__setattr__(self, "fairseq_options", tuple(self.fairseq_options))
        if not self.model:
            raise UsageError("`model` is empty. Expected at least one translation model.")
        check_positive("threads", 1 if self.threads is None else self.threads)
        check_positive("max_tokens", self.max_tokens)
        check(self)
        if abs(self.lenpen) * math.log10(self.max_len_b + 1) > MAX_POWER:
            raise UsageError(
                f"`lenpen` is {self.lenpen}, too far from 0 for translations of up to "
                f"{self.max_len_b} tokens. Scores would exceed the range of floats. Choose a "
                "`lenpen` closer to 0, or decrease `max_len_b`."
            )
        if self.fluency_boost_lm and not self.fluency_boost_data:
            raise UsageError(
                "`fluency_boost_lm` needs `fluency_boost_data`, the folder with its dict.txt."
            )
        for name, needed in NEEDED.items():
            if getattr(self, name) != getattr(type(self), name) and not getattr(self, needed):
                raise UsageError(f"`{name}` needs `{needed}`. Set `{needed}`, or remove `{name}`.")
        if self.nbest > self.beam and not self.sampling:
            raise UsageError(
                f"`nbest` is {self.nbest}, more than `beam` ({self.beam}). Increase `beam`."
            )
