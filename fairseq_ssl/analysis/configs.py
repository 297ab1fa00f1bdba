"""Options of the analyses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fairseq_ssl.errors import UsageError
from fairseq_ssl.inference.scoring import MAX_PENALTY
from fairseq_ssl.options import check, integers, option
from fairseq_ssl.text.tokenization import Detokenization


@dataclass(frozen=True)
class AnalysisConfig:
    """Options shared by all analyses."""

    subset: str = option("valid", "split of the data to analyze", metavar="SPLIT")
    max_tokens: int = option(4000, "max number of source tokens per batch, with padding", low=1)

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True)
class SplitsConfig(AnalysisConfig):
    """Options of analyses that read one or more splits."""

    subset: str = option(
        "valid",
        "splits of the data to concatenate and analyze, such as valid,test",
        metavar="SPLIT,...",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not all(self.subsets) or len(set(self.subsets)) < len(self.subsets):
            raise UsageError(f"`subset` is {self.subset!r}. Expected distinct split names.")

    @property
    def subsets(self) -> list[str]:
        """Names of the splits."""
        return self.subset.split(",")


@dataclass(frozen=True)
class TranslationConfig(AnalysisConfig, Detokenization):
    """Options for translation, named as in fairseq-generate, and for BLEU."""

    beam: int = option(4, "beam size", low=1)
    lenpen: float = option(1.0, "length penalty", low=-MAX_PENALTY, high=MAX_PENALTY)
    max_len_a: float = 1.5
    max_len_b: int = 20
    tokenize: str = option("13a", "sacreBLEU tokenizer", metavar="NAME")
    separator: str = option("<sep>", "token between joined sentences", metavar="TOKEN")

    def parameters(self) -> dict[str, Any]:
        """Return the search and text options that are part of a signature."""
        search = ("beam", "lenpen", "max_len_a", "max_len_b", "max_tokens")
        text = ("subwords", "moses", "tokenize", "separator")
        groups = {"search": search, "text": text}
        return {
            "beam": self.beam,
            **{key: {name: getattr(self, name) for name in names} for key, names in groups.items()},
        }


@dataclass(frozen=True)
class LengthBleuConfig(SplitsConfig, TranslationConfig):
    """Options of `score_by_length`."""

    length_bounds: tuple[int, ...] = option(
        (10, 20, 30, 40, 50, 60, 70),
        "max source length in each bucket, in tokens without </s>; an additional bucket contains "
        "all longer sentences",
        parse=integers,
        metavar="N,N,...",
    )
    separator: str = option("<sep>", "token to remove from outputs and references", metavar="TOKEN")

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_bounds("length_bounds", self.length_bounds)


@dataclass(frozen=True)
class SwappedBleuConfig(TranslationConfig):
    """Options of `score_swapped`."""

    subset: str = option("train", "split of the data to analyze", metavar="SPLIT")
    lines: int = option(
        10_000,
        "number of lines to sample from the split",
        low=1,
    )
    seed: int = option(1, "random seed", low=0)


@dataclass(frozen=True)
class TokenWinsConfig(SplitsConfig):
    """Options of `compare_gold_tokens`."""

    rank_bounds: tuple[int, ...] = option(
        (5000, 15000, 25000),
        "highest frequency rank in each row of the table; rank 1 is the most frequent token in the "
        "training targets; an additional row contains all higher ranks",
        parse=integers,
        metavar="N,N,...",
    )
    position_bounds: tuple[int, ...] = option(
        (10, 20, 30, 40, 50, 60, 70),
        "last target position in each column of the table; the first token has position 1; an "
        "additional column contains all later positions",
        parse=integers,
        metavar="N,N,...",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_bounds("rank_bounds", self.rank_bounds)
        _check_bounds("position_bounds", self.position_bounds)


@dataclass(frozen=True)
class ShiftSimilarityConfig(AnalysisConfig):
    """Options of `compare_shifted_states`."""

    offsets: tuple[int, ...] = option(
        (0, 100, 250, 500),
        "position offsets in tokens, at least two, each 0 or more; the encoder states with these "
        "offsets are compared with each other",
        parse=integers,
        metavar="K,K,...",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.offsets) < 2 or min(self.offsets) < 0:
            raise UsageError(
                f"`offsets` is {list(self.offsets)}. Expected at least two values >= 0."
            )


def _check_bounds(name: str, bounds: Sequence[int]) -> None:
    """Raise UsageError unless the upper bounds of buckets are increasing and above 0."""
    if not all(before < end for before, end in zip([0, *bounds], bounds, strict=False)):
        raise UsageError(f"`{name}` is {list(bounds)}. Expected increasing integers >= 1.")
