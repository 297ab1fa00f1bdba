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


def plain(outputs: list[str], sources: list[str], references: list[str]) -> float:
    """Count the occurrences of n-grams one by one."""
    right, there = [0] * 4, [0] * 4
    for output, source, reference in zip(outputs, sources, references, strict=True):
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
            right[n - 1] += max(total, 0)
            there[n - 1] += len(ours)
    if not all(right):
        return 0.0
    lengths = [sum(len(line.split()) for line in lines) for lines in (outputs, references)]
    precision = sum(math.log(r / t) for r, t in zip(right, there, strict=True)) / 4
    return 100 * math.exp(min(0, 1 - lengths[1] / lengths[0]) + precision)


@given(st.lists(st.tuples(sentence, sentence, sentence), min_size=1, max_size=5))
def test_counts_equal_a_slow_reference(lines: list[tuple[str, str, str]]) -> None:
    outputs, sources, references = map(list, zip(*lines, strict=True))
    found = gleu(outputs, sources, [references])
    assert found.values == {"GLEU": pytest.approx(plain(outputs, sources, references))}


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


def test_several_references_are_sampled() -> None:
    sources, outputs = ["a b c d e"] * 40, ["a b c d x"] * 40
    good, bad = ["a b c d x"] * 40, ["a b q r s"] * 40
    found = gleu(outputs, sources, [good, bad])
    assert found.values["mean of single references"] == pytest.approx(50)
    assert 40 < found.score < 70
    assert found.values["standard deviation of samples"] > 0
    assert gleu(outputs, sources, [good, bad]) == found


@pytest.mark.skipif(not DATA.is_dir(), reason="needs the folder jfleg in DATA_DIR")
def test_score_reported_by_the_authors() -> None:
    """38.21 for the unchanged source of JFLEG's development set."""
    lines = (DATA / "dev.src").read_text("utf-8").splitlines()
    references = [(DATA / f"dev.ref{i}").read_text("utf-8").splitlines() for i in range(4)]
    assert round(gleu(lines, lines, references).score, 2) == 38.21
