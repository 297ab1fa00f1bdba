"""Selection of the scorer for a kind of model."""

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
"""Loads a scorer, given the config and the index of the process, which selects the GPU."""


def scorer_loader(config: ScoringConfig) -> ScorerLoader:
    """Return the function that loads a scorer.

    Raise UsageError if a model is not of the configured kind.
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
    """Return the config with a default name: lm, mlm, s2t or t2s, and -r2l for right-to-left."""
    if config.name:
        return config
    if config.kind != TRANSLATION:
        return replace(config, name="lm" if config.kind == LANGUAGE_MODEL else "mlm")
    direction = "t2s" if config.reverse else "s2t"
    return replace(
        config, name=direction + ("-r2l" if loading.writes_right_to_left(config) else "")
    )
