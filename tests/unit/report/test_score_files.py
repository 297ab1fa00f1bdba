"""Files of scores, as several commands write them, and what is none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairseq_ssl.metrics.metric import BootstrapResult, SeedRange
from fairseq_ssl.report.score_files import (
    ReportedScore,
    ScoreComparison,
    best_scores,
    metric_direction,
    parse_breakdowns,
    parse_comparisons,
    parse_scores,
    score_table,
)

CLASSES = {
    "signature": "classify-score|lines:4",
    "systems": {
        "alone": {"seeds": 2, "error": {"mean": 10, "sd": 1.4, "values": [9, 11]}},
        "mixed": {
            "seeds": 2,
            "error": {"mean": 8, "sd": 1.4, "values": [7, 9]},
            "confusion": [[1, 0], [0, 1]],
            "against": {"baseline": "alone", "difference": -2, "interval": [-3, -1], "p": 0.004},
        },
    },
}


def shown(content: Any) -> list[tuple[str, str, tuple[float, ...]]]:
    return [(one.system, one.metric, one.values) for one in parse_scores(content, "test", "ours")]


def test_the_same_number_by_several_methods_is_not_one_number() -> None:
    """MaxMatch and ERRANT both call theirs F_0.5; they were averaged as if they were seeds."""
    m2 = {"F_0.5": 60.0, "signature": "m2|lines:2"}
    errant = {"F_0.5": 50.0, "signature": "errant|lines:2"}
    found = score_table([*parse_scores(m2, "test", "ours"), *parse_scores(errant, "test", "ours")])
    assert found.headings() == [("test", "m2 F_0.5"), ("test", "errant F_0.5")]
    assert found.rows == {"ours": [SeedRange((60.0,)), SeedRange((50.0,))]}


def test_numbers_made_in_another_way_are_no_seeds() -> None:
    plain, lower = ({"name": "BLEU", "score": 1, "signature": s} for s in ("case:mixed", "case:lc"))
    found = score_table([*parse_scores(plain, "test", "a"), *parse_scores(lower, "test", "a")])
    assert found.headings() == [("test", "BLEU [1]"), ("test", "BLEU [2]")]


def test_seeds_that_two_files_tell_are_counted_once() -> None:
    single = [ReportedScore("ours", "test", "GLEU", (value,), "gleu") for value in (1.0, 3.0)]
    together = ReportedScore("ours", "test", "GLEU", (1.0, 3.0), "gleu")
    for scores in ([*single, together], [together, *single], [single[0], together]):
        assert score_table(scores).rows == {"ours": [SeedRange((1.0, 3.0))]}


def test_several_metrics_of_sacrebleu_are_told() -> None:
    bleu = {"name": "BLEU", "score": 30, "signature": "nrefs:1"}
    assert shown([bleu, {**bleu, "name": "chrF2", "score": 50}]) == [
        ("ours", "BLEU", (30.0,)),
        ("ours", "chrF2", (50.0,)),
    ]


def test_scores_of_classes_are_told_and_less_error_is_better() -> None:
    assert shown(CLASSES) == [("alone", "error", (9, 11)), ("mixed", "error", (7, 9))]
    assert best_scores(score_table(parse_scores(CLASSES, "test", "x"))) == [8]
    (comparison,) = parse_comparisons(CLASSES, "x")
    assert comparison == ScoreComparison(
        "x: error against alone",
        {"mixed": BootstrapResult(-2, -3, -1, 0.004)},
        lower_is_better=True,
    )


@pytest.mark.parametrize(
    ("metric", "way"),
    [("BLEU", 1), ("macro f1", 1), ("calibration error", -1), ("TER", -1), ("lines", 0)],
)
def test_of_some_metrics_less_is_better(metric: str, way: int) -> None:
    assert metric_direction(metric) == way


def test_scores_by_type_are_told() -> None:
    told = {"NOUN": {"ours": {"mean": 50.0, "deviation": 0, "seeds": [50.0]}}}
    (found,) = parse_breakdowns({"signature": "errant", "types": told}, "test.errant")
    assert found == ("test.errant: by type", {"NOUN": {"ours": SeedRange((50.0,))}})


@pytest.mark.parametrize(
    "text",
    [
        "3",
        "null",
        "[1, {}]",
        '{"signature": 1, "systems": {"a": "x", "b": {"F": {"seeds": 3}, "G": 4}}}',
        '{"signature": "x", "systems": [], "score": NaN, "more": Infinity, "is": true}',
        '{"against the baseline": {"a": 3, "b": {"difference": "x"}}, "types": {"x": 3}}',
        '{"signature": "x", "systems": {"a": {"against": {"baseline": "b", "interval": 3}}}}',
    ],
)
def test_of_other_json_nothing_is_told(text: str) -> None:
    content = json.loads(text)
    assert not shown(content)
    assert not list(parse_comparisons(content, "x"))
    assert not list(parse_breakdowns(content, "x"))
