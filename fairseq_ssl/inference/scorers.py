"""Selection of the scorer for each kind of model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from fairseq_ssl.inference import loading
from fairseq_ssl.inference.scoring import (
    LANGUAGE_MODEL,
    MASKED_MODEL,
    TRANSLATION,
    Scorer,
    ScoringConfig,
)

ScorerLoader = Callable[[ScoringConfig, int], Scorer]
"""Function that loads a scorer from a config and a worker index, which selects the GPU."""


def scorer_loader(config: ScoringConfig) -> ScorerLoader:
    """Return the function that loads the scorer for `config.kind`.

    Raise UsageError if a checkpoint is of a different kind.
    """
    from fairseq_ssl.inference import language_models, translation_scorer

    is_folder = any(Path(path).is_dir() for path in config.models)  # a model of transformers
    if not (config.kind == MASKED_MODEL and is_folder):
        loading.check_models(config)
    if config.kind == TRANSLATION:
        loading.writes_right_to_left(config)
        return translation_scorer.TranslationScorer
    if config.kind == LANGUAGE_MODEL:
        return language_models.LanguageModelScorer
    return language_models.MaskedModelScorer


def with_name(config: ScoringConfig) -> ScoringConfig:
    """Return the config, with a default score name if `config.name` is empty.

    The default is lm, mlm or s2t (t2s with `reverse`), with the suffix -r2l if right-to-left.
    """
    if config.name:
        return config
    if config.kind != TRANSLATION:
        return replace(config, name="lm" if config.kind == LANGUAGE_MODEL else "mlm")
    direction = "t2s" if config.reverse else "s2t"
    return replace(
        config, name=direction + ("-r2l" if loading.writes_right_to_left(config) else "")
    )
