"""SIF sentence vectors of examples."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fairseq_ssl.errors import DataError
from fairseq_ssl.learned_filter.features import SentenceVectors


def test_rare_words_have_higher_weights(tmp_path: Path) -> None:
    (tmp_path / "v.vec").write_text("3 2\nthe 1 0\nowl 0 1\nunseen 1 1\n")
    vectors = SentenceVectors.of(tmp_path / "v.vec", {"the": 90, "owl": 9, "lost": 1}, 0.1)
    the, owl = 0.1 / (0.1 + 0.9), 0.1 / (0.1 + 0.09)
    both = np.array([2 * the, owl])
    sentences = [["the", "owl", "the"], [], ["lost", "unseen"], ["owl"]]
    expected = [both / np.linalg.norm(both), [0, 0], [0, 0], [0, 1]]
    assert vectors(sentences) == pytest.approx(np.array(expected), abs=1e-6)
    assert vectors([]).shape == (0, 2)


def test_vectors_without_words_of_the_text_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "v.vec").write_text("1 2\neule 0 1\n")
    with pytest.raises(DataError, match=r"v\.vec"):
        SentenceVectors.of(tmp_path / "v.vec", {"owl": 1})
