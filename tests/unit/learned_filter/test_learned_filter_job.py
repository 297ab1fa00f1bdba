"""Jobs of learned filters with replaced models, and selection of pairs by scores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.inference.scoring import TRANSLATION, ScoringConfig
from fairseq_ssl.learned_filter import (
    FeatureExtractor,
    PairFilter,
    keep_best,
    score_pairs,
    train_filter,
)
from fairseq_ssl.learned_filter import learned_filter_job as job
from fairseq_ssl.learned_filter.classifier import PairClassifier

SIDES = ("s.en", "s.de")


@pytest.fixture
def features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FeatureExtractor:
    monkeypatch.chdir(tmp_path)
    for name in (*SIDES, "model.pt", "a.counts", "b.counts"):
        Path(name).write_text("a 1\n")
    data = tmp_path / "parent/data"
    data.mkdir(parents=True)
    (data / "dict.de.txt").write_text("c 1\nd 1\n")
    monkeypatch.setattr(job, "scorer_loader", lambda config: None)
    scoring = ScoringConfig(TRANSLATION, ("model.pt",), data_dir=data, languages=("en", "de"))
    return FeatureExtractor(translation=scoring, counts=("a.counts", "b.counts"))


def test_another_dictionary_gives_other_scores(
    features: FeatureExtractor, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = iter((1.0, 2.0))
    monkeypatch.setattr(PairFilter, "scores", lambda self, pairs: np.full(1, next(scores)))
    classifier = PairClassifier(("cross-entropy",), np.zeros(1), np.ones(1), np.ones(1), 0.0)
    Path("filter").mkdir()
    for side in ("source", "target"):
        Path(f"filter/counts.{side}").write_text("a 1\n")
    PairFilter(features, {}, classifier).write(Path("filter"), {})
    assert score_pairs("filter", SIDES, "similarity")
    assert not score_pairs("filter", SIDES, "similarity")
    Path("parent/data/dict.de.txt").write_text("d 1\nc 1\n")
    assert score_pairs("filter", SIDES, "similarity", overwrite=True)
    assert float(Path("similarity").read_text()) == 2


@pytest.mark.parametrize("output", ["parent/data", "parent"])
def test_the_data_folder_is_not_replaced(features: FeatureExtractor, output: str) -> None:
    with pytest.raises(UsageError, match="would replace"):
        train_filter(SIDES, SIDES, output, features, overwrite=True)


PAIRS = ("en", "de")


@pytest.fixture(autouse=True)
def pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("en").write_text("a\nb\nc\nd\n")
    Path("de").write_text("A\nB\nC\nD\n")
    Path("scores").write_text("1\n-inf\n2\n1\n")


def test_outputs_of_different_names_are_not_complete() -> None:
    assert keep_best(PAIRS, "scores", ("kept.en", "kept.de"), 50)
    assert Path("kept.de").read_text() == "A\nC\n"
    Path("other.de").write_text("a file of another job\n")
    with pytest.raises(UsageError, match=r"kept\.en exists, and is not an output of this job"):
        keep_best(PAIRS, "scores", ("kept.en", "other.de"), 50)


def test_changed_scores_are_not_complete() -> None:
    Path("scores").write_text("4\n3\n1\n0\n")
    assert keep_best(PAIRS, "scores", ("kept.en", "kept.de"), 50)
    assert keep_best(PAIRS, "scores", ("kept.en", "kept.de"), 50) is None
    Path("scores").write_text("0\n1\n3\n4\n")
    with pytest.raises(UsageError, match="not an output of this job"):
        keep_best(PAIRS, "scores", ("kept.en", "kept.de"), 50)


@pytest.mark.parametrize("outputs", [("kept", "kept"), ("en", "kept"), ("scores", "kept")])
def test_outputs_are_different_files(outputs: tuple[str, str]) -> None:
    with pytest.raises(UsageError):
        keep_best(PAIRS, "scores", outputs, 50)
    assert not Path("kept").exists()
    assert Path("en").read_text() == "a\nb\nc\nd\n"


@pytest.mark.parametrize("bad", ["x", "", "1 2", "nan"])
def test_lines_that_are_not_numbers(bad: str) -> None:
    Path("scores").write_text(f"1\n{bad}\n2\n3\n")
    with pytest.raises(DataError, match=r"One of the 4 lines that begin at .*scores:1 is not"):
        keep_best(PAIRS, "scores", ("kept.en", "kept.de"), 50)


@pytest.mark.parametrize("signature", ["[]", "{}", "{"])
def test_signatures_of_other_files(signature: str) -> None:
    Path("scores.json").write_text(signature)
    assert keep_best(PAIRS, "scores", ("kept.en", "kept.de"), 25)
    assert Path("kept.en").read_text() == "c\n"


def test_a_share_is_not_a_percentage(caplog: pytest.LogCaptureFixture) -> None:
    assert keep_best(PAIRS, "scores", ("kept.en", "kept.de"), 0.5)
    assert "`keep` is a percentage: 0.5 keeps 0.5 % of the pairs" in caplog.text


@pytest.mark.parametrize(("keep", "kept"), [(25, "c\n"), (50, "a\nc\n"), (75, "a\nc\nd\n")])
def test_the_first_of_equal_pairs_are_kept(keep: float, kept: str) -> None:
    summary = keep_best(PAIRS, "scores", ("kept.en", "kept.de"), keep)
    assert summary
    assert (summary.pairs, summary.kept) == (4, keep // 25)
    assert summary.threshold == (2 if keep == 25 else 1)
    assert Path("kept.en").read_text() == kept
