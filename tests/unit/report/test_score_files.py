"""Score files of several commands, and other JSON files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fairseq_ssl.errors import DataError
from fairseq_ssl.metrics import Accuracy
from fairseq_ssl.metrics.metric import BootstrapResult, SeedRange
from fairseq_ssl.metrics.tables import score_systems
from fairseq_ssl.report.page import best_scores, score_table
from fairseq_ssl.report.score_files import (
    ReportedScore,
    ScoreComparison,
    collect_files,
    parse_breakdowns,
    parse_comparisons,
    parse_scores,
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


def test_metrics_of_the_same_name_are_different_columns() -> None:
    """MaxMatch and ERRANT both report F_0.5. Their scores are not seeds of one metric."""
    m2 = {"F_0.5": 60.0, "signature": "m2|lines:2"}
    errant = {"F_0.5": 50.0, "signature": "errant|lines:2"}
    table = score_table([*parse_scores(m2, "test", "ours"), *parse_scores(errant, "test", "ours")])
    assert table.headings() == [("test", "m2 F_0.5"), ("test", "errant F_0.5")]
    assert table.rows == {"ours": [SeedRange([60.0]), SeedRange([50.0])]}


def test_different_signatures_are_different_columns() -> None:
    plain, lower = ({"name": "BLEU", "score": 1, "signature": s} for s in ("case:mixed", "case:lc"))
    table = score_table(parse_scores([plain, lower], "test", "a"))
    assert table.headings() == [("test", "BLEU [1]"), ("test", "BLEU [2]")]


def test_parameters_of_a_comparison_do_not_separate_columns() -> None:
    parts = ["lines:2", "lines:2|resamples:1000|seed:12345"]
    files = [{"BLEU": 1.0, "signature": f"bleu|{part}|version:1"} for part in parts]
    table = score_table(
        score
        for system, file in zip("ab", files, strict=True)
        for score in parse_scores(file, "test", system)
    )
    assert table.columns == [("test", "BLEU", "bleu|lines:2|version:1")]


def test_seeds_in_two_files_are_counted_once() -> None:
    runs = [ReportedScore("ours", "test", "GLEU", (value,), "gleu", str(value)) for value in (1, 3)]
    together = ReportedScore("ours", "test", "GLEU", (1.0, 3.0), "gleu")
    for scores in ([*runs, together], [together, *runs], [runs[0], together]):
        assert score_table(scores).rows == {"ours": [SeedRange([1.0, 3.0])]}


def test_files_of_one_folder_are_not_seeds(tmp_path: Path) -> None:
    for name, line in (("a", "x y"), ("b", "x z")):
        output = tmp_path / f"{name}.out"
        output.write_text(f"{line}\n")
        for systems in ({name: [output]}, {str(output): [output]}):
            content = score_systems(Accuracy([["x y"]]), systems).content()
            assert content.get("system") == (name if name in systems else None)
            folder = tmp_path / ("named" if name in systems else "unnamed.1")
            folder.mkdir(exist_ok=True)
            (folder / f"test.{name}.json").write_text(json.dumps(content))
    table = score_table(collect_files([tmp_path / "named"]).scores)
    assert table.rows == {"a": [SeedRange([100.0])], "b": [SeedRange([0.0])]}
    expected = (
        r"test\.a\.json and .*test\.b\.json contain different scores of unnamed on the test set"
    )
    with pytest.raises(DataError, match=expected):
        collect_files([tmp_path / "unnamed.1"])


@pytest.mark.parametrize("seeds", ["1", "12"])
def test_one_seed_in_the_files_of_runs_and_in_a_summary(seeds: str, tmp_path: Path) -> None:
    alone = {"accuracy": 50.0, "signature": "accuracy"}
    named = {
        "systems": {"ours": {"accuracy": {"mean": 50.0, "values": [50.0]}}},
        "signature": "accuracy",
    }
    for content in (alone, named):  # of `score` and of `classify score`
        for seed in seeds:
            (tmp_path / f"ours.{seed}").mkdir(exist_ok=True)
            (tmp_path / f"ours.{seed}/test.json").write_text(json.dumps(content))
        (tmp_path / "test.json").write_text(json.dumps(named))
        table = score_table(collect_files([tmp_path]).scores)
        assert table.rows == {"ours": [SeedRange([50.0] * len(seeds))]}


def test_scores_of_classify_score() -> None:
    assert shown(CLASSES) == [("alone", "error", (9, 11)), ("mixed", "error", (7, 9))]
    assert best_scores(score_table(parse_scores(CLASSES, "test", "x"))) == [8]
    (comparison,) = parse_comparisons(CLASSES, "x")
    assert comparison == ScoreComparison(
        "x: error against alone",
        {"mixed": BootstrapResult(-2, -3, -1, 0.004)},
        lower_is_better=True,
    )


def test_scores_by_type() -> None:
    types = {"NOUN": {"ours": {"mean": 50.0, "deviation": 0, "seeds": [50.0]}}}
    (breakdown,) = parse_breakdowns({"signature": "errant", "types": types}, "test.errant")
    assert breakdown == ("test.errant: by type", {"NOUN": {"ours": SeedRange([50.0])}})


def write_scores(path: Path, value: float, **more: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"BLEU": value, "signature": "bleu|lines:2", **more}))


def written_rows(folder: Path) -> dict[str, list[SeedRange | None]]:
    return score_table(collect_files([folder]).scores).rows


def test_a_score_in_several_files_is_counted_once(tmp_path: Path) -> None:
    levels = {"levels": {"A": {"a": {"mean": 50.0, "deviation": 0.0, "seeds": [50.0]}}}}
    for name, more in (("bleu", {}), ("levels", levels), ("length", levels)):
        write_scores(tmp_path / f"a.1/test.{name}.json", 50.0, **more)
    assert written_rows(tmp_path) == {"a": [SeedRange([50.0])]}
    write_scores(tmp_path / "a.2/test.bleu.json", 50.0)
    assert written_rows(tmp_path) == {"a": [SeedRange([50.0, 50.0])]}


@pytest.mark.parametrize("folder", ["", "base.1"])
def test_test_sets_with_periods_are_those_of_the_outputs(folder: str, tmp_path: Path) -> None:
    names = {"wmt.en-de": 50.0, "wmt.en-fr": 52.0}
    for name, value in names.items():
        write_scores(tmp_path / folder / f"{name}.bleu.json", value, system="base")
    with pytest.raises(DataError, match=r"different scores of base on the test set wmt\."):
        collect_files([tmp_path])
    for name in names:
        (tmp_path / "base.1").mkdir(exist_ok=True)
        (tmp_path / f"base.1/{name}.txt").write_text("a\n")
    table = score_table(collect_files([tmp_path]).scores)
    assert table.headings() == [(name, "BLEU") for name in names]


def test_folders_below_those_of_runs_are_not_read(tmp_path: Path) -> None:
    write_scores(tmp_path / "a.1/old/test.json", 50.0)
    assert written_rows(tmp_path) == {}


def test_parameters_of_an_analysis_are_not_scores(tmp_path: Path) -> None:
    content = {"signature": "length-bleu|beam:4|lines:2", "beam": 4, "lines": 2, "by_length": [1]}
    (tmp_path / "lengths.json").write_text(json.dumps(content))
    files = collect_files([tmp_path])
    assert (files.scores, list(files.analyses.values())) == ([], [content])


def test_decimal_numbers_are_not_seeds(tmp_path: Path) -> None:
    for name in ("noise0.1", "noise0.5", "lr0.001.1", "lr0.001.2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "test.txt").write_text("a\n")
    systems = collect_files([tmp_path]).systems("test")
    found = {name: len(paths) for name, paths in systems.items()}
    assert found == {"noise0.1": 1, "noise0.5": 1, "lr0.001": 2}
