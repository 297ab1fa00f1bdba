"""The selection of the best scores equals sorting."""

from __future__ import annotations

import numpy as np
import pytest

from fairseq_ssl.learned_filter.score_selection import select_best


@pytest.mark.parametrize("seed", range(20))
def test_the_selected_scores_are_the_first_of_a_stable_sort(seed: int) -> None:
    draw = np.random.default_rng(seed)
    special = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, 5e-324, -5e-324, 1e300, -2.5]
    scores = np.where(
        draw.random(500) < 0.5, draw.choice(special, 500), draw.normal(size=500).round(seed % 5)
    )
    arrays = np.split(scores, np.sort(draw.integers(0, 501, 6)))
    keep = float(draw.choice([0.01, 3, 50, 77.7, 100]))
    selection = select_best(lambda: arrays, keep)
    best = np.argsort(-scores, kind="stable")[: max(1, round(5 * keep))]
    kept = np.concatenate([selection.is_kept(part, n) for n, part in enumerate(arrays)])
    assert np.flatnonzero(kept).tolist() == sorted(best.tolist())
    assert (selection.pairs, selection.kept) == (500, len(best))
    assert selection.threshold == scores[best].min()
    whole = select_best(lambda: [scores], keep)
    assert (whole.digest, whole.equal) == (selection.digest, [sum(selection.equal)])
