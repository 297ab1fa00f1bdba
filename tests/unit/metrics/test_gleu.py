"""GLEU: examples, comparison with a slow reference, and a score of the authors."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_ssl.metrics import Gleu, MetricScore
from tests.conftest import ROOT

DATA = Path(os.environ.get("DATA_DIR", ROOT.parent / "shared/data")) / "jfleg"
sentence = st.lists(st.sampled_from("abc"), min_size=1, max_size=9).map(" ".join)


def gleu(outputs: list[str], sources: list[str], references: list[list[str]]) -> MetricScore:
    return Gleu(references, sources).corpus_score(outputs)


def plain(output: str, source: str, reference: str) -> list[int]:
    """Count the occurrences of n-grams one by one."""
    counts = [len(output.split()), len(reference.split())]
    for n in range(1, 5):
        ours, before, gold = (
            [tuple(line.split()[i : i + n]) for i in range(len(line.split()) - n + 1)]
            for line in (output, source, reference)
        )
        total = 0
        for gram in set(ours):
            total += min(ours.count(gram), gold.count(gram))
            if gram not in gold:
                total -= min(ours.count(gram), before.count(gram))
        counts += [max(total, 0), len(ours)]
    return counts


@given(sentence, sentence, sentence)
def test_counts_equal_a_slow_reference(output: str, source: str, reference: str) -> None:
    found = Gleu([[reference]], [source]).statistics([output])
    assert found.tolist() == [plain(output, source, reference)]


def test_score_of_an_example() -> None:
    """Wrongly kept words are subtracted from correct words."""
    source, reference = "a b c d e f", "a b c d x y"
    assert gleu([reference], [source], [[reference]]).score == pytest.approx(100)
    # unigrams 4 - 2 of 6, bigrams 3 - 2 of 5, trigrams 2 - 2: no correct trigram
    assert gleu([source], [source], [[reference]]).score == 0
    # "a b c d z z" keeps nothing wrong: 4/6, 3/5, 2/4, 1/3
    expected = 100 * (4 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25
    assert gleu(["a b c d z z"], [source], [[reference]]).score == pytest.approx(expected)
    # brevity penalty: exp(1 - 6/4) times 1
    assert gleu(["a b c d"], [source], [[reference]]).score == pytest.approx(100 * math.exp(-0.5))
    # no bonus for a longer hypothesis: 6/7, 5/6, 4/5, 3/4
    expected = 100 * (6 / 7 * 5 / 6 * 4 / 5 * 3 / 4) ** 0.25
    assert gleu([f"{reference} z"], [source], [[reference]]).score == pytest.approx(expected)


def test_several_references_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The authors' script draws the references 1, 1, 1, 0 and 0 of one line in five rounds."""
    monkeypatch.setattr("fairseq_ssl.metrics.gleu.SAMPLES", 5)
    sources, outputs = ["a b c d e"], ["a b c d x"]
    metric = Gleu([outputs, ["a b q r s"]], sources)
    found = metric.corpus_score(outputs)
    assert found.values == {
        "GLEU": pytest.approx(40),
        "standard deviation of samples": pytest.approx(100 * (0.4 * 0.6) ** 0.5),
        "mean of single references": pytest.approx(50),
    }
    sentence = metric.sentence_score(outputs[0], [outputs[0], "a b q r s"], sources[0])
    smoothed = 100 * (1 / 5 * 1 / 4 * 1 / 3 * 1 / 2) ** 0.25  # no count is above 0
    assert sentence.values == {"GLEU": pytest.approx((100 + smoothed) / 2)}
    assert metric.total_score(metric.statistics(outputs).sum(0)) == pytest.approx(50)
    assert metric.get_signature().parameters == {"references": 2, "samples": 5}


@pytest.mark.parametrize(
    ("output", "reference", "source", "expected"),
    [
        ("I agree .", "I agree .", "I agrees .", 1),
        ("Thank you", "Thank you", "Thank you", 1),
        ("a b c z", "a b c d", "a b c", (3 / 4 * 2 / 3 * 1 / 2) ** 0.25),
        ("", "a b c", "a b c", math.exp(1 - 3)),
    ],
)
def test_zero_counts_of_a_sentence_become_1(
    output: str, reference: str, source: str, expected: float
) -> None:
    """The authors' script smooths the counts of sentences, but not of a corpus."""
    found = Gleu().sentence_score(output, [reference], source)
    assert found.score == pytest.approx(100 * expected)
    assert gleu([output], [source], [[reference]]).score == 0


@pytest.mark.skipif(not DATA.is_dir(), reason="needs the folder jfleg in DATA_DIR")
def test_score_reported_by_the_authors() -> None:
    """38.21 for the unchanged source of JFLEG's development set."""
    lines = (DATA / "dev.src").read_text("utf-8").splitlines()
    references = [(DATA / f"dev.ref{i}").read_text("utf-8").splitlines() for i in range(4)]
    assert round(gleu(lines, lines, references).score, 2) == 38.21
