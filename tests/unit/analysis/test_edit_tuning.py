"""Tuning of confidence thresholds for a score with a known maximum."""

from __future__ import annotations

from collections.abc import Mapping

from fairseq_ssl.analysis.edit_tuning import GRID, trials

PEAK = {
    "edit_keep_bias": 0.2,
    "edit_min_confidence": 0.5,
    "edit_min_sentence_confidence": 0.0,
}


def score(options: Mapping[str, float]) -> dict[str, float]:
    return {"f0.5": -sum(abs(options[name] - value) for name, value in PEAK.items())}


def test_best_values_of_previous_options_are_kept() -> None:
    results = list(trials(score, "f0.5"))
    assert len(results) == 1 + sum(len(values) - 1 for values in GRID.values())
    assert results[0].options == {name: values[0] for name, values in GRID.items()}
    assert max(results, key=lambda trial: trial.scores["f0.5"]).options == PEAK
    assert all(trial.options["edit_keep_bias"] == 0.2 for trial in results[len(GRID) + 20 :])


def test_lower_value_is_kept_if_scores_are_equal() -> None:
    results = list(trials(lambda options: {"exact": 1.0}, "exact"))
    assert max(results, key=lambda trial: trial.scores["exact"]) is results[0]
    assert all(sum(value > 0 for value in trial.options.values()) <= 1 for trial in results)
