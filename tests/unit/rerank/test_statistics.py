"""Scores of sums of counts compared with sacreBLEU."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from fairseq_ssl.metrics.bleu import SUM_METRICS, BleuSums, sum_metric
from fairseq_ssl.rerank.candidates import CandidateStatistics
from tests.unit.rerank.cases import texts

WORDS = "The cat sat, on a mat. It's 3.5% cats' 猫は座る。 (well-known) É U.S."


def metric(aim: str, tokenizer: str) -> Any:
    if aim == "bleu":
        return BLEU(tokenize=tokenizer, force=True)
    return CHRF(word_order=2 if aim == "chrf++" else 0)


@pytest.mark.parametrize(
    ("aim", "tokenizer", "references"),
    [
        *(("bleu", "13a", 1), ("bleu", "13a", 3), ("bleu", "none", 1), ("bleu", "intl", 3)),
        *(("bleu", "char", 1), ("bleu", "zh", 3), ("bleu", "ja-mecab", 1)),
        *(("chrf", "", 1), ("chrf++", "", 3)),
    ],
)
def test_scores_of_sums_equal_scores_of_texts(aim: str, tokenizer: str, references: int) -> None:
    lists = texts(1, 40, 5, WORDS)
    expected_texts = [
        [one[0] for one in texts(seed, 40, 1, WORDS)] for seed in range(2, 2 + references)
    ]
    ours = CandidateStatistics.of(sum_metric(aim, tokenizer), lists, expected_texts)
    assert ours.counts.shape[:2] == (40, max(map(len, lists)))
    draw, real = random.Random(1), metric(aim, tokenizer)
    for size in (1, 2, 40):
        some = ours.subset(np.arange(size))
        for _ in range(10):
            choices = np.array([draw.randrange(len(rows)) for rows in lists[:size]])
            chosen = [rows[k] for rows, k in zip(lists, choices, strict=False)]
            score = real.corpus_score(chosen, [lines[:size] for lines in expected_texts]).score
            assert some.score(choices) == pytest.approx(score, abs=1e-9)
            sums = some.chosen(choices).sum(0)
            assert some.metric.values(sums) == pytest.approx(score, abs=1e-9)
            assert some.metric.values(np.stack([sums, 0 * sums]))[1] == 0
    assert ours.metric.signature() == str(real.get_signature())


@pytest.mark.parametrize("aim", SUM_METRICS)
def test_sentence_scores_equal_those_of_sacrebleu(aim: str) -> None:
    lists = texts(3, 30, 3, WORDS)
    expected_texts = [one[0] for one in texts(4, 30, 1, WORDS)]
    ours = CandidateStatistics.of(sum_metric(aim), lists, [expected_texts])
    real = BLEU(effective_order=True) if aim == "bleu" else metric(aim, "")
    found = ours.metric.by_sentence(ours.counts)
    for rows, reference, scores in zip(lists, expected_texts, found, strict=True):
        for text, score in zip(rows, scores, strict=False):
            assert score == pytest.approx(real.sentence_score(text, [reference]).score, abs=1e-9)


def test_padding_repeats_the_first_candidate() -> None:
    lists = [["a b", "c", "d"], ["d e f", "d"]]
    first, second, third = CandidateStatistics.of(BleuSums(), lists, [["a", "d"]]).counts[1]
    assert (third == first).all()
    assert (third != second).any()
