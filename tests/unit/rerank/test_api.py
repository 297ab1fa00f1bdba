"""The public API of re-ranking: docstring examples; reading, tuning and applying."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fairseq_ssl import rerank
from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.rerank.weights import apply_to_lines

LINES = [
    "0 ||| a b c d ||| good= 2 bad= 1 ||| 0",
    "0 ||| a x c d ||| good= 1 bad= 2 ||| 0",
    "1 ||| e f x h ||| good= 0 bad= 3 ||| 0",
    "1 ||| e f g h ||| good= 1 bad= 1 extra= 1 ||| 0",
]
REFERENCE = ["a b c d", "e f g h"]


def test_read_tune_and_apply(tmp_path: Path) -> None:
    (tmp_path / "dev.nbest").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    nbest = rerank.NBest.read(tmp_path / "dev.nbest")
    assert nbest.features == ["good", "bad"]
    search = rerank.WeightSearch("grid", step=0.5)
    config = rerank.TuningConfig(tokenize="none", folds=2)
    tuned = rerank.tune(nbest, [REFERENCE], config, search=search)
    assert rerank.apply(nbest, tuned.weights) == REFERENCE
    assert tuned.scores["these weights"] == pytest.approx(100)
    assert tuned.parameters["search"] == "grid"
    analysis = rerank.analyze(nbest, [REFERENCE], {"good": 1}, config)
    assert analysis.features["good"].alone == pytest.approx(100)
    assert analysis.weights == {"good": 1, "bad": 0}


@pytest.mark.parametrize("scale", [1e-7, 0.1, 3.0, 1e300])
def test_only_the_ratio_of_weights_selects_candidates(scale: float) -> None:
    nbest = rerank.NBest.parse(["0 ||| b ||| s= -1 t= -4", "0 ||| a ||| s= -2 t= -1"])
    assert rerank.apply(nbest, {"s": 2 * scale, "t": scale}) == ["a"]
    assert rerank.apply(nbest, {"s": 4 * scale, "t": scale}) == ["b"]
    assert rerank.apply(nbest, {"s": 3 * scale, "t": scale}) == ["b"], "a tie"
    analysis = rerank.analyze(
        nbest, [["a"]], {"s": 2 * scale, "t": scale}, rerank.TuningConfig("chrf")
    )
    assert analysis.scores["these weights"] == 100
    assert analysis.weights == {"s": 2 * scale, "t": scale}


@pytest.mark.parametrize("scale", [1.0, 0.9 / 0.11])
def test_small_weights_are_exact(scale: float) -> None:
    lines = ["0 ||| x ||| a= -1 b= -100000", "0 ||| y ||| a= -2.6 b= 0"]
    weights = {"a": 0.11 * scale, "b": 1.6e-6 * scale}
    assert rerank.apply(rerank.NBest.parse(lines), weights) == ["x"]
    totals = [float(line.split()[-1]) for line in apply_to_lines(lines, weights, "list", True)]
    assert totals == sorted(totals, reverse=True)
    assert totals == pytest.approx([scale * -0.27, scale * -0.286])


@pytest.mark.parametrize("outlier", ["-2e7", "-1e20"])
def test_an_outlier_does_not_change_other_sentences(outlier: str) -> None:
    lines = ["0 ||| bad ||| s= -1.004", "0 ||| good ||| s= -1.001", f"1 ||| a ||| s= {outlier}"]
    assert rerank.apply(rerank.NBest.parse(lines), {"s": 1}) == ["good", "a"]
    assert list(apply_to_lines(lines, {"s": 1}, "list")) == ["good", "a"]


def test_wrong_requests_name_the_culprit() -> None:
    nbest, references = rerank.NBest.parse(LINES), [REFERENCE]
    requests: dict[str, Callable[[], object]] = {
        "weights": lambda: rerank.apply(nbest, {"good": 0}),
        "'bad'": lambda: rerank.apply(nbest, {"good": 5e6, "bad": 1}),
        "nan": lambda: rerank.analyze(nbest, references, {"good": float("nan")}),
        "extra": lambda: rerank.analyze(nbest, references, {"good": 1, "extra": 2}),
        "folds": lambda: rerank.TuningConfig(folds=1),
        "features": lambda: rerank.TuningConfig(features=()),
        "`references` is empty": lambda: rerank.tune(nbest, []),
        "reference 0": lambda: rerank.tune(nbest, [REFERENCE[:1]]),
        "step": lambda: rerank.WeightSearch("grid", step=0.3),
        "no n-best lists": lambda: rerank.merge({}),
        "systems": lambda: rerank.post_ensemble([REFERENCE], Path("x.vec")),
    }
    for culprit, request in requests.items():
        with pytest.raises((DataError, UsageError), match=culprit):
            request()
