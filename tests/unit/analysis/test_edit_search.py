"""The search over stored probabilities equals decodings with each combination of options."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_ssl.analysis.edit_search import GRID, NO_LABEL, EditSearch, label_pairs
from fairseq_ssl.analysis.edit_tuning import StoredScores
from fairseq_ssl.edits.application import EditCandidates, TopEdits, choose_edits
from fairseq_ssl.edits.decoding import CorrectionSearch
from fairseq_ssl.edits.dictionary import DELETE_ID, KEEP_ID
from fairseq_ssl.edits.extraction import LabelExtractor
from fairseq_ssl.generation.edit_generator import EditGenerator
from fairseq_ssl.generation.torch_engine import TorchEngine
from fairseq_ssl.text.spans import Spans
from tests.unit.generation.fake_tagger import EDITS, FakeTagger, Scores, batch, dictionary

SMALL = {
    "keep_bias": (-0.2, -0.1, 0.0, 0.1, 0.2),
    "min_confidence": (0.0, 0.3, 0.45, 0.6),
    "min_sentence_confidence": (0.0, 0.5, 0.8),
}
PAIRS = [
    ("a b c d", "a b x c d"),
    ("a b", "a b"),
    ("d d e", "d e"),
    ("e a b c d e a b", "e a b c a new e walks b"),
    ("", "x"),
    ("c c a", "c zebra a"),
]


def scores(words: list[str]) -> Scores:
    """Return random scores that depend on the word and its neighbors."""
    rows = []
    for at, word in enumerate(["<s>", *words]):
        draw = random.Random(f"{word} {words[at : at + 1]}")
        names = ("DELETE", "APPEND_x", "REPLACE_c", "APPEND_a_new", "REPLACE_b")
        rows.append({"KEEP": 0.5, **{name: draw.gauss(-1, 1.5) for name in names}})
    return rows


def test_counts_equal_decodings_of_one_round() -> None:
    words = dictionary()
    tagger = FakeTagger(words, scores, positions=7)
    sample = batch(words, *(source for source, _ in PAIRS))
    generator = EditGenerator([tagger], words, EDITS, CorrectionSearch(iterations=1))
    rounds = generator.rounds
    pairs = [(source.split(), target.split()) for source, target in PAIRS]
    text = rounds.encode([source for source, _ in pairs])
    gold = label_pairs(LabelExtractor(EDITS), pairs)
    candidates = rounds.applier.candidates(rounds.engine(text), text, min(SMALL["keep_bias"]))
    search = EditSearch(candidates, text.starts, gold)
    counts = search.count(SMALL)
    assert search.gold_edits == 6
    seen = set()
    for index, values in zip(np.ndindex(counts.exact.shape), product(*SMALL.values()), strict=True):
        options: dict[str, Any] = dict(zip(SMALL, values, strict=True))
        rounds.search = CorrectionSearch(iterations=1, **options)
        predicted = correct = exact = 0
        for (hypothesis,), labels in zip(
            generator.generate([tagger], sample), np.split(gold, text.starts[1:]), strict=True
        ):
            chosen = {edit.position: EDITS.names.index(edit.label) for edit in hypothesis["edits"]}
            wanted = {at: label for at, label in enumerate(labels.tolist()) if label != KEEP_ID}
            predicted += len(chosen)
            correct += sum(wanted.get(at) == label for at, label in chosen.items())
            exact += chosen == wanted
        assert (predicted, correct, exact) == tuple(int(one[index]) for one in counts)
        f05 = 100 * 1.25 * correct / (predicted + 0.25 * 6)
        assert search.scores(counts, "f0.5")[index] == pytest.approx(f05)
        assert search.scores(counts, "exact")[index] == pytest.approx(100 * exact / len(PAIRS))
        seen.add((predicted, correct, exact))
    assert len(seen) > 10
    assert len({one[1] for one in seen}) > 1


def twentieths(draw: random.Random, count: int) -> np.ndarray[Any, Any]:
    return np.array([draw.randint(0, 20) / 20 for _ in range(count)], np.float32)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.lists(st.integers(1, 5), min_size=1, max_size=6))
def test_ties_and_thresholds_equal_the_choice(seed: int, lengths: list[int]) -> None:
    """Probabilities are on the grid, so that ties and equality with thresholds are common."""
    draw = random.Random(seed)
    count = sum(lengths)
    starts = Spans(np.zeros(count), np.array(lengths)).starts
    labels = np.array([draw.randint(2, 4) for _ in range(count)])
    keep, best, errors = (twentieths(draw, count) for _ in range(3))
    candidates = EditCandidates(keep, errors, labels, best)
    gold = np.array([draw.choice([KEEP_ID, KEEP_ID, DELETE_ID, 2, 3, NO_LABEL]) for _ in labels])
    counts = EditSearch(candidates, starts, gold).count(SMALL)
    for index, values in zip(np.ndindex(counts.exact.shape), product(*SMALL.values()), strict=True):
        options: dict[str, Any] = dict(zip(SMALL, values, strict=True))
        search = CorrectionSearch(**options)
        chosen = choose_edits(candidates, starts, search).labels
        is_equal = chosen == gold
        expected = (
            (chosen != KEEP_ID).sum(),
            (is_equal & (gold != KEEP_ID)).sum(),
            np.logical_and.reduceat(is_equal, starts).sum(),
        )
        assert tuple(one[index] for one in counts) == expected


def single(kept: float, other: float, gold: int) -> EditSearch:
    keep, best, error = np.array([[kept], [other], [1 - kept]], np.float32)
    candidates = EditCandidates(keep, error, np.array([2]), best)
    return EditSearch(candidates, np.array([0]), np.array([gold]))


def test_fewer_and_lower_options_are_preferred() -> None:
    default = dict.fromkeys(GRID, 0.0)
    assert single(0.3, 0.7, 2).best("f0.5", 5)[0] == default
    assert len(single(0.3, 0.7, 2).best("f0.5", 5)) == 2
    # a wrong edit with the probability 0.51 disappears with any of three options
    assert single(0.49, 0.51, KEEP_ID).best("exact")[0] == {**default, "keep_bias": 0.05}
    # a correct edit is found by a negative bias of keep
    assert single(0.56, 0.44, 2).best("f0.5")[0] == {**default, "keep_bias": -0.15}


def test_gold_labels_mark_edits_without_a_label(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [(["a", "b"], ["a", "zebra", "b", "x"]), (["c"], ["c"])]
    labels = label_pairs(LabelExtractor(EDITS), pairs)
    assert labels.tolist() == [0, NO_LABEL, EDITS.names.index("APPEND_x"), 0, 0]
    monkeypatch.setattr("fairseq_ssl.edits.extraction.align_tokens", lambda *sides: None)
    assert label_pairs(LabelExtractor(EDITS), pairs[:1]).tolist() == [NO_LABEL, 0, 0]


def test_models_read_each_sentence_once() -> None:
    words = dictionary()
    tagger = FakeTagger(words, scores)
    engine = TorchEngine([tagger], words)
    stored = StoredScores(engine, batch_size=2)
    rows = [[0, 4, 5], [0], [0, 6], [0, 4, 5], [0, 7, 8, 4, 4]]
    text = Spans.of([np.array(row) for row in rows])
    reported: list[int] = []
    first = stored(text, reported.append)
    assert sum(reported) == len(rows)
    assert [len(one) for one in tagger.seen] == [4, 2, 1, 0]
    direct = engine(text)
    for name in TopEdits._fields:
        np.testing.assert_allclose(getattr(first, name), getattr(direct, name), rtol=1e-6)
    tagger.seen.clear()
    again = stored(text.select(np.array([4, 2])))
    assert tagger.seen == []
    assert again.kept.tolist() == first.kept[[*range(9, 14), 4, 5]].tolist()
