"""The public API: docstring examples, comparison with sacreBLEU, imports of metrics."""

from __future__ import annotations

import copy
import doctest
import pickle
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import sacrebleu

from fairseq_ssl import metrics
from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.metrics import Accuracy, Bleu, Chrf, Errant, Gleu, MaxMatch, paired_bootstrap
from fairseq_ssl.text.m2 import parse_m2

GOLD = [
    "S the cat sit on mat .",
    "A 2 3|||R:VERB:SVA|||sits|||REQUIRED|||-NONE-|||0",
    "A 4 4|||M:DET|||the|||REQUIRED|||-NONE-|||0",
    "",
    "S a mat .",
    "A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||0",
]
HYPOTHESES = ["the cat sits on mat .", "a mat ."]


@pytest.mark.parametrize("module", sorted(metrics.MODULES))
def test_examples(module: str) -> None:
    results = doctest.testmod(import_module(f"fairseq_ssl.metrics.{module}"))
    assert results.attempted > 0
    assert results.failed == 0


def test_a_metric_loads_no_other_metric() -> None:
    code = (
        "import sys; from fairseq_ssl.metrics import MaxMatch; others = 'bleu', 'errant', 'rouge'; "
        "assert not {f'fairseq_ssl.metrics.{name}' for name in others} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_corpus_and_sentence_scores() -> None:
    metric = MaxMatch(parse_m2(GOLD, "gold"))
    score = metric.corpus_score(HYPOTHESES)
    assert score.values["Precision"] == 100
    assert score.values["Recall"] == 50
    assert str(score).startswith("F_0.5 = 83.33 (Precision = 100.00")
    assert metric.sentence_score(HYPOTHESES[0]).score == pytest.approx(score.score)
    assert metric.sentence_score("a mat .", 1).score == 100
    errant = Errant(parse_m2(GOLD, "gold"), untyped=True)
    assert errant.corpus_score(HYPOTHESES).score == pytest.approx(score.score)
    assert errant.sentence_score("the cat sit on mat .").score == 0
    assert str(metric.get_signature()).startswith("m2|beta:0.5|annotators:1|unchanged:2|")


def test_sentence_scores_equal_those_of_sacrebleu() -> None:
    references = ["the cat sits on a mat .", "cats sit on mats ."]
    expected = sacrebleu.sentence_bleu(HYPOTHESES[0], references).score
    assert Bleu().sentence_score(HYPOTHESES[0], references).score == pytest.approx(expected)
    expected = sacrebleu.sentence_chrf(HYPOTHESES[0], references).score
    assert Chrf().sentence_score(HYPOTHESES[0], references).score == pytest.approx(expected)
    gleu = Gleu().sentence_score("a b c d", ["a b c d", "a b c d"], "a b c x")
    assert gleu.score == pytest.approx(100)


def test_references_of_a_call_override_those_of_the_metric() -> None:
    metric = Accuracy([["a", "b"]])
    assert metric.corpus_score(["a", "c"]).score == 50
    assert metric.corpus_score(["a", "c"], [["c", "c"], ["a", "d"]]).score == 100
    assert metric.get_signature().parameters == {"references": 2}
    assert metric.sentence_score("x", ["x"]).score == 100
    assert metric.corpus_score(["a", "c"]).score == 50
    assert metric.get_signature().parameters == {"references": 1}
    assert paired_bootstrap(metric, ["a", "b"], ["a", "c"], resamples=2).difference == 50


def test_sources_of_a_call_override_those_of_the_metric() -> None:
    metric = Gleu([["a b c d e"]], ["a b c d x"])
    expected = metric.corpus_score(["a b c d e"])
    other = ["q r s t u"]
    assert metric.corpus_score(other, [other, other], ["q r s t v"]).score == pytest.approx(100)
    assert metric.get_signature().parameters == {"references": 2, "samples": 500}
    assert metric.corpus_score(["a b c d e"]) == expected
    assert metric.get_signature().parameters == {"references": 1}


def test_a_baseline_is_compared() -> None:
    metric = Accuracy([list("abcdefgh")])
    result = paired_bootstrap(metric, list("abcdefgh"), list("abcdxxxx"), resamples=200)
    assert result.difference == 50
    assert result.low < 50 < result.high
    assert result.p < 0.05
    assert paired_bootstrap(metric, ["a"] * 8, ["a"] * 8, resamples=50).p == 1


REFERENCES = [["a cat", "a dog"]]


def test_accuracy_ignores_the_line_ends_of_readlines(tmp_path: Path) -> None:
    path = tmp_path / "gold"
    path.write_text("a b\nc\n")
    with path.open() as file:
        lines = file.readlines()
    assert Accuracy([path]).corpus_score(lines).score == 100
    assert Accuracy([["a b\r\n", "d\r\n"]]).corpus_score(["a b", "c"]).score == 50


@pytest.mark.parametrize(
    ("call", "error", "culprit"),
    [
        (lambda: Accuracy().corpus_score(["a"]), UsageError, "references"),
        (lambda: Gleu([["a"]]).corpus_score(["a"]), UsageError, "sources"),
        (lambda: Bleu([["a"]]).corpus_score(["a", "b"]), DataError, "references"),
        (lambda: Bleu([[]]).corpus_score([]), DataError, "no lines"),
        (lambda: MaxMatch([], beta=1e200), UsageError, "beta"),
        (lambda: Chrf(word_order=-1), UsageError, "word_order"),
        (lambda: metrics.score_systems(Accuracy([["a"]]), {"ours": []}), UsageError, "ours"),
        (lambda: paired_bootstrap(Accuracy([["a"]]), ["a"], ["a"], seed=-1), UsageError, "seed"),
        (lambda: Accuracy(REFERENCES).corpus_score("ab"), TypeError, "hypotheses"),
        (lambda: Gleu().sentence_score("a", "a"), TypeError, "references"),
        (lambda: Bleu(REFERENCES).corpus_score(["a", None]), TypeError, "Line 2"),  # type: ignore[list-item]
    ],
)
def test_wrong_input_is_named(
    call: Callable[[], object], error: type[Exception], culprit: str
) -> None:
    with pytest.raises(error, match=culprit):
        call()


@pytest.mark.parametrize(
    "metric", [Bleu(REFERENCES), Chrf(REFERENCES, 2), Gleu(REFERENCES, ["", ""])]
)
def test_copies_of_a_metric_score(metric: Any) -> None:
    expected = metric.corpus_score(["a cat", "a cow"])
    before = str(metric.get_signature())
    for copied in (copy.deepcopy(metric), pickle.loads(pickle.dumps(metric))):
        assert copied.corpus_score(["a cat", "a cow"]) == expected
        assert str(copied.get_signature()) == before
