"""Checks and help texts of declared options, and wrong values of all noises and filters."""

from __future__ import annotations

import argparse
import math
from dataclasses import Field, dataclass
from typing import Any

import pytest

from fairseq_ssl.analysis import (
    LengthBleuConfig,
    ShiftSimilarityConfig,
    SwappedBleuConfig,
    TokenWinsConfig,
)
from fairseq_ssl.checkpoints.selection import CheckpointSelection
from fairseq_ssl.edits.edits_job import EditDataConfig, EditDictionaryConfig
from fairseq_ssl.errors import UsageError
from fairseq_ssl.filters.chain import FILTERS
from fairseq_ssl.inference.correction import CorrectionConfig
from fairseq_ssl.inference.scoring import ScoringConfig
from fairseq_ssl.inference.server import ServerLimits
from fairseq_ssl.inference.translation import DecodingConfig
from fairseq_ssl.noise.block_noise import NOISES
from fairseq_ssl.options import add_options, check, describe, option, options_of, passed
from fairseq_ssl.rerank import TuningConfig, VectorTraining, WeightSearch
from fairseq_ssl.text import specs
from fairseq_ssl.text.labeled_text import PreparationConfig
from fairseq_ssl.text.position_data import PositionDataConfig
from fairseq_ssl.text.postprocessing import Postprocessing
from fairseq_ssl.text.subwords.model import SubwordTraining
from fairseq_ssl.text.tokenization import Detokenization

KINDS = [
    *(("noise", *item) for item in NOISES.items()),
    *(("filter", *item) for item in FILTERS.items()),
]
CONFIGS: list[tuple[type[Any], dict[str, Any]]] = [
    *((kind, {}) for kind in (LengthBleuConfig, ShiftSimilarityConfig, SwappedBleuConfig)),
    *((kind, {}) for kind in (TokenWinsConfig, Postprocessing, Detokenization, PositionDataConfig)),
    *((kind, {}) for kind in (CheckpointSelection, EditDataConfig, EditDictionaryConfig)),
    *((kind, {}) for kind in (ServerLimits, TuningConfig, VectorTraining, WeightSearch)),
    (CorrectionConfig, {"models": [__file__]}),
    (DecodingConfig, {"model": ["model.pt"]}),
    (PreparationConfig, {"labeled": "train.tsv"}),
    (ScoringConfig, {"kind": "translation", "models": ["model.pt"]}),
    (SubwordTraining, {"size": 100}),
]
"""Classes with options, and the arguments that they need."""
RESOURCES: dict[str, Any] = {"unigrams": None, "mask_token": 0, "confusions": {}, "sides": 2}


@dataclass(frozen=True)
class Config:
    """A config with an option of each kind."""

    count: int = option(4, "number of rounds", low=1)
    rate: float = option(0.5, "probability", low=0, high=1)
    free: float = option(0.0, "any number")
    scale: float = option(1.0, "scale", above=0, high=10)
    part: float = option(0.0, "part; 0 is none", low=0, below=1)
    votes: int | None = option(None, "votes", low=1, usual="more than half")
    unit: str = option("tokens", "unit", choices=("tokens", "characters", "bytes"))
    fast: bool = option(False, "skip the check")
    internal: str = "no option"

    def __post_init__(self) -> None:
        check(self)


def test_help_has_the_range() -> None:
    assert list(map(describe, options_of(Config).values())) == [
        "number of rounds, 1 or more",
        "probability, 0 to 1",
        "any number",
        "scale, above 0, up to 10",
        "part, 0 or more, below 1; 0 is none",
        "votes, 1 or more",
        "unit, tokens, characters or bytes",
        "skip the check, true or false",
    ]


@pytest.mark.parametrize(
    "values",
    [
        *(
            {"count": 0},
            {"count": 1.5},
            {"count": True, "rate": 2},
            {"rate": math.nan},
            {"rate": "1"},
            {"scale": 0},
            {"scale": 10**400},
            {"part": 1},
            {"votes": 0},
        ),
        *(
            {"free": math.inf, "unit": "words"},
            {"free": math.nan},
            {"unit": "token"},
            {"count": "4"},
        ),
    ],
)
def test_wrong_values_are_rejected(values: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=f"`{[*values][-1]}` is .* Expected "):
        Config(**values)
    assert Config(count=1, rate=0, free=1e300, unit="bytes", fast=True).count == 1


def test_a_command_returns_what_was_passed() -> None:
    parser = argparse.ArgumentParser()
    add_options(parser, Config)
    words = ["--count", "2", "--unit", "bytes", "--fast", "--votes", "3"]
    assert passed(parser.parse_args(words), Config) == {
        "count": 2,
        "unit": "bytes",
        "fast": True,
        "votes": 3,
    }
    assert "votes, 1 or more (default: more than half)" in parser.format_help()


def wrong_values(declared: Field[Any]) -> list[Any]:
    """Return values outside the range or the choices of an option."""
    declaration = declared.metadata["option"]
    if declaration.choices:
        return ["wrong"]
    inner = (declaration.low, -1), (declaration.high, 1)
    outer = (declaration.above, 0), (declaration.below, 0)
    return [limit + step for limit, step in (*inner, *outer) if limit is not None]


@pytest.mark.parametrize(("noun", "name", "kind"), KINDS)
def test_wrong_values_of_noises_and_filters_are_rejected(
    noun: str, name: str, kind: type[Any]
) -> None:
    given = {key: value for key, value in RESOURCES.items() if key in kind.__dataclass_fields__}
    for key, declared in options_of(kind).items():
        for value in wrong_values(declared):
            with pytest.raises(UsageError, match=f"Invalid {noun} '{name}': {key} is "):
                specs.build(noun, name, kind, {**given, key: value})


@pytest.mark.parametrize(("kind", "given"), CONFIGS)
def test_wrong_values_of_configs_are_rejected(kind: type[Any], given: dict[str, Any]) -> None:
    kind(**given)
    for name, declared in options_of(kind).items():
        for value in wrong_values(declared):
            with pytest.raises(UsageError, match=f"`{name}` is "):
                kind(**{**given, name: value})
