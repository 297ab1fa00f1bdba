"""Correction in rounds, with fake taggers."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from fairseq_ssl.edits.alignment import token_edits
from fairseq_ssl.edits.engine import MIN_WINDOWS
from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.generation.edit_generator import parse_weights
from fairseq_ssl.inference.correction import change_probabilities
from tests.unit.generation.fake_tagger import (
    FakeTagger,
    Scores,
    by_sentence,
    corrected,
    dictionary,
    sure,
)

ROUNDS = {
    "a e": "KEEP KEEP REPLACE_b",  # reveals that c is missing
    "a b": "KEEP KEEP APPEND_c",
    "d d": "KEEP DELETE KEEP",
}


def test_next_round_has_only_changed_sentences() -> None:
    tagger = FakeTagger(dictionary(), by_sentence(ROUNDS))
    found = corrected(tagger, sentences=["x x x x", "a e", "d d"], history=True)
    assert [one["text"] for one in found] == ["x x x x", "a b c", "d"]
    assert [one["steps"] for one in found] == [1, 3, 2]
    assert tagger.seen == [
        *(["x", "x", "x", "x"], ["a", "e"], ["d", "d"]),
        *(["a", "b"], ["d"]),
        ["a", "b", "c"],
    ]
    assert tagger.shapes == [(3, 6), (2, 4), (1, 5)]
    history = [tagger.words.string(one["tokens"]) for one in found[1]["history"]]
    assert history == ["a b", "a b c", "a b c"]
    assert [edit[:3] for edit in found[1]["edits"]] == [(1, 2, "REPLACE_b"), (2, 2, "APPEND_c")]
    assert [edit.origin for edit in found[1]["edits"]] == [2, 2]
    assert found[1]["tokens"][-1] == tagger.words.eos()


def test_edits_of_inserted_tokens_are_marked() -> None:
    rounds = {
        "d e": "KEEP APPEND_a_new KEEP",
        "d a new e": "KEEP KEEP KEEP REPLACE_b REPLACE_c",
        "d a b c": "KEEP REPLACE_x APPEND_c KEEP KEEP",
        "x a c b c": "KEEP KEEP KEEP KEEP DELETE KEEP",
    }
    (found,) = corrected(FakeTagger(dictionary(), by_sentence(rounds)), sentences=["d e"])
    assert found["text"] == "x a c c"
    assert [(one.round, one.label, one.origin, one.is_inserted) for one in found["edits"]] == [
        *[(1, "APPEND_a_new", 1, True), (2, "REPLACE_b", 1, True), (2, "REPLACE_c", 2, False)],
        *[(3, "REPLACE_x", 1, False), (3, "APPEND_c", 1, True), (4, "DELETE", 1, True)],
    ]


@pytest.mark.parametrize(
    ("inserted", "merged", "last", "text"),
    [
        (0, 2, 2, "x ab c x"),
        (1, 2, 2, "a xb c x"),  # x follows a
        (1, 1, 1, "ax b x d"),
    ],
)
def test_merges_do_not_touch_changes_further_right(
    inserted: int, merged: int, last: int, text: str
) -> None:
    replaced = last + 2  # beside the merged tokens, the replacement would be the same change
    rounds = [
        {inserted: ("APPEND_x", 0.9), replaced: ("REPLACE_x", 0.8)},
        {merged: ("MERGE_space", 0.6)},
    ]

    def scores(words: list[str]) -> Scores:
        edits = rounds.pop(0)
        rows = [edits.get(at, ("KEEP", 0.9)) for at in range(len(words) + 1)]
        return [{label: math.log(p), "DELETE": math.log(1 - p)} for label, p in rows]

    tagger = FakeTagger(dictionary(), scores)
    (found,) = corrected(tagger, sentences=["a b c d"], iterations=2)
    assert found["text"] == text
    assert found["edits"][-1].last == last
    source = ["a", "b", "c", "d"]
    changes = token_edits(source, text.split())
    *_, other = change_probabilities(source, source, changes, found["edits"])
    assert other == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("edits", "sentence", "limit", "text", "steps"),
    [
        (ROUNDS, "a e", 1, "a b", 1),
        (ROUNDS, "a e", 2, "a b c", 2),
        # a cycle of edits
        ({"a": "KEEP REPLACE_b", "b": "KEEP REPLACE_c", "c": "KEEP REPLACE_b"}, "a", 9, "b", 3),
        # the input again
        ({"b c": "KEEP REPLACE_x KEEP", "x c": "KEEP REPLACE_b KEEP"}, "b c", 4, "b c", 2),
        # an edit without an effect
        ({"a b": "KEEP KEEP REPLACE_b"}, "a b", 4, "a b", 1),
    ],
)
def test_end_of_the_rounds(
    edits: dict[str, str], sentence: str, limit: int, text: str, steps: int
) -> None:
    tagger = FakeTagger(dictionary(), by_sentence(edits))
    (found,) = corrected(tagger, sentences=[sentence], iterations=limit)
    assert (found["text"], found["steps"], len(tagger.seen)) == (text, steps, steps)


def test_empty_sentences() -> None:
    gone = sure({"a": "DELETE"})
    found = corrected(FakeTagger(dictionary(), gone), sentences=["a a", "", "b"], history=True)
    assert [one["text"] for one in found] == ["", "", "b"]
    assert [one["tokens"].tolist() for one in found[:2]] == [[2], [2]]
    assert [one["steps"] for one in found] == [2, 1, 1]
    filled = FakeTagger(dictionary(), by_sentence({"": "APPEND_x"}))
    assert [one["text"] for one in corrected(filled, sentences=["", "a"])] == ["x", "a"]


def test_unknown_words_and_special_symbols() -> None:
    tagger = FakeTagger(dictionary(), sure({"Berlins": "SUFFIX_-s", "e": "APPEND_a_new"}))
    (found,) = corrected(tagger, sentences=["zwei Berlins e ?"], iterations=1)
    assert found["text"] == "zwei Berlin e a new ?"
    tagger = FakeTagger(dictionary(), sure({"b": "DELETE"}))
    (found,) = corrected(tagger, sentences=["a </s> b <pad> c <s>"])
    assert found["tokens"].tolist() == [4, 2, 1, 6, 0, 2]
    assert tagger.seen[0] == ["a", "<unk>", "b", "<unk>", "c", "<unk>"]


def uncertain(words: list[str]) -> Scores:
    """Return the logarithms of probabilities that sum to 1."""
    rows = {
        "<s>": {"KEEP": 0.8, "APPEND_x": 0.2},
        "a": {"DELETE": 0.6, "KEEP": 0.4},
        "b": {"APPEND_c": 0.7, "KEEP": 0.3},
    }
    kept = {"KEEP": 0.9, "DELETE": 0.1}
    return [
        {name: math.log(value) for name, value in rows.get(word, kept).items()}
        for word in ["<s>", *words]
    ]


def test_scores_computed_by_hand() -> None:
    words = dictionary()
    (found,) = corrected(FakeTagger(words, uncertain), sentences=["a b d"], iterations=1)
    assert found["text"] == "b c d"
    log = math.log
    wanted = [log(0.7), log(0.7), log(0.9), log(0.8)]
    assert found["positional_scores"].tolist() == pytest.approx(wanted, abs=1e-5)
    assert found["score"] == pytest.approx(
        (log(0.8) + log(0.6) + log(0.7) + log(0.9)) / 4, abs=1e-5
    )
    assert [(*edit[:3], round(edit[3], 4)) for edit in found["edits"]] == [
        (1, 1, "DELETE", 0.6),
        (1, 2, "APPEND_c", 0.7),
    ]
    assert len(found["positional_scores"]) == len(found["tokens"])
    # the input of the second round is b c d
    again = corrected(FakeTagger(words, uncertain), sentences=["a b d"], iterations=2)[0]
    assert again["text"] == "b c c d"
    wanted = [log(0.7), log(0.7), log(0.9), log(0.9), log(0.8)]
    assert again["positional_scores"].tolist() == pytest.approx(wanted, abs=1e-5)


def test_hypotheses_do_not_depend_on_the_batch() -> None:
    sentences = ["a b d", "", "d d d d d d d", "a", "b ? b", "new a"]
    together = corrected(FakeTagger(dictionary(), uncertain), sentences=sentences)
    for sentence, one in zip(sentences, together, strict=True):
        (alone,) = corrected(FakeTagger(dictionary(), uncertain), sentences=[sentence])
        for key in ("text", "steps", "edits"):
            assert alone[key] == one[key]
        assert alone["score"] == pytest.approx(one["score"])
        assert torch.equal(alone["positional_scores"], one["positional_scores"])


def constant(**probabilities: float) -> Callable[[list[str]], Scores]:
    row = {name: math.log(value) for name, value in probabilities.items()}
    return lambda words: [row for _ in ["<s>", *words]]


def test_ensemble_averages_probabilities_with_weights() -> None:
    words = dictionary()
    one = FakeTagger(words, constant(KEEP=0.4, DELETE=0.6))
    other = FakeTagger(words, constant(KEEP=0.5, APPEND_x=0.5))
    third = FakeTagger(words, constant(APPEND_x=0.9, DELETE=0.1))
    for taggers, weights, text, start in (
        ((one, other), None, "d", 0.45),
        ((one, other, third), None, "x d x", 1.4 / 3),
        ((one, other), (2, 1), "d", 13 / 30),  # keep 13/30, delete 12/30, append 5/30
        ((one, other), (9, 1), "", 0.41),  # delete 54/100
        ((one, other), (0.5, 4.5), "d", 0.49),  # append 45/100
    ):
        (found,) = corrected(*taggers, sentences=["d"], weights=weights, iterations=1)
        assert found["text"] == text
        assert found["positional_scores"].exp().tolist()[-1] == pytest.approx(start, abs=1e-5)


@pytest.mark.parametrize("weights", ["2", "2,1,1", "2,-1", "0,0", "nan,1", "inf,1", "2,x", ""])
def test_invalid_weights_are_rejected(weights: str) -> None:
    tagger = FakeTagger(dictionary(), constant(KEEP=1.0))
    with pytest.raises(ConfigurationError, match="weights"):
        corrected(tagger, tagger, sentences=["d"], weights=parse_weights(weights))


def test_ensemble_averages_error_probabilities_with_and_without_detection_heads() -> None:
    words = dictionary()

    scores = constant(KEEP=0.3, APPEND_x=0.7)
    plain = FakeTagger(words, scores)
    with_head = FakeTagger(words, scores, lambda some: [math.log(0.1 / 0.9)] * (len(some) + 1))

    def is_left_alone(*taggers: FakeTagger, threshold: float) -> bool:
        (found,) = corrected(
            *taggers, sentences=["d"], min_sentence_confidence=threshold, iterations=1
        )
        if found["edits"]:
            return False
        assert found["positional_scores"].exp().tolist() == pytest.approx([0.3, 0.3], abs=1e-5)
        return True

    for taggers, error in (((plain,), 0.7), ((with_head,), 0.1), ((plain, with_head), 0.4)):
        assert is_left_alone(*taggers, threshold=error + 0.01)
        assert not is_left_alone(*taggers, threshold=error - 0.01)


def test_half_precision_logits_give_float32_probabilities() -> None:
    scores = constant(KEEP=math.exp(11), APPEND_x=math.exp(10))
    (found,) = corrected(FakeTagger(dictionary(), scores, dtype=torch.float16), sentences=["d"])
    wanted = 1 / (1 + math.exp(-1))
    assert found["positional_scores"].exp().tolist() == pytest.approx([wanted] * 2, abs=1e-6)


def local(words: list[str]) -> Scores:
    """Return labels that depend on two words of context on each side: y means keep."""
    rows: Scores = [{"KEEP": 0.0}]
    for at, word in enumerate(words):
        around = words[max(0, at - 2) : at + 3]
        edits = {"a": "DELETE", "b": "APPEND_c", "c": "REPLACE_a_new", "crys": "SUFFIX_-s"}
        rows.append({"KEEP" if "y" in around else edits.get(word, "KEEP"): 0.0})
    return rows


def test_windows_do_not_change_corrections() -> None:
    words = dictionary()
    pattern = "a b d y d crys e c e e d a d b new c c y a d d ? b"
    sentences = [" ".join((pattern + " ") * n).strip() for n in (1, 4, 2)] + ["a", ""]
    whole = corrected(FakeTagger(words, local), sentences=sentences)
    for positions in (18, 20, 33):  # windows overlap in 4 tokens or more
        tagger = FakeTagger(words, local, positions=positions)
        found = corrected(tagger, sentences=sentences)
        assert [one["text"] for one in found] == [one["text"] for one in whole]
        assert [one["edits"] for one in found] == [one["edits"] for one in whole]
        assert max(map(len, tagger.seen)) == positions - 2
        assert max(rows for rows, _ in tagger.shapes) <= max(MIN_WINDOWS, len(sentences))
        assert max(time for _, time in tagger.shapes) == positions


def test_later_windows_do_not_edit_the_start() -> None:
    tagger = FakeTagger(dictionary(), sure({"<s>": "APPEND_x"}), positions=6)
    long = FakeTagger(dictionary(), sure({"<s>": "APPEND_x"}), positions=12)
    (found,) = corrected(long, tagger, sentences=["a b c d e a b c d e"], iterations=1)
    assert found["text"] == "x a b c d e a b c d e"
    assert max(map(len, long.seen)) == 4  # the minimum of the ensemble
