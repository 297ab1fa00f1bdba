"""Jobs of learned filters: the data folder of their models, with the models replaced."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fairseq_ssl.errors import UsageError
from fairseq_ssl.inference.scoring import TRANSLATION, ScoringConfig
from fairseq_ssl.learned_filter import FeatureExtractor, PairFilter, score_pairs, train_filter
from fairseq_ssl.learned_filter import learned_filter_job as job
from fairseq_ssl.learned_filter.classifier import PairClassifier

PAIRS = ("s.en", "s.de")


@pytest.fixture
def features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FeatureExtractor:
    monkeypatch.chdir(tmp_path)
    for name in (*PAIRS, "model.pt", "a.counts", "b.counts"):
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
    assert score_pairs("filter", PAIRS, "scores")
    assert not score_pairs("filter", PAIRS, "scores")
    Path("parent/data/dict.de.txt").write_text("d 1\nc 1\n")
    assert score_pairs("filter", PAIRS, "scores", overwrite=True)
    assert float(Path("scores").read_text()) == 2


@pytest.mark.parametrize("output", ["parent/data", "parent"])
def test_the_data_folder_is_not_replaced(features: FeatureExtractor, output: str) -> None:
    with pytest.raises(UsageError, match="would replace"):
        train_filter(PAIRS, PAIRS, output, features, overwrite=True)
