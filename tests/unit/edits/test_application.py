"""The choice of edits in cases computed by hand, and edits of ids, which equal edits of tokens."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_ssl.data.oov_dictionary import OovDictionary
from fairseq_ssl.edits.application import EditApplier, TopEdits, choose_edits
from fairseq_ssl.edits.decoding import CorrectionSearch
from fairseq_ssl.edits.dictionary import EditDictionary
from fairseq_ssl.edits.engine import TOP
from fairseq_ssl.edits.extraction import apply_labels
from fairseq_ssl.edits.transforms import Transforms
from fairseq_ssl.errors import UsageError
from fairseq_ssl.text.spans import Spans
from tests.unit.edits.plain_edits import is_possible as possible
from tests.unit.generation.fake_tagger import EDITS, dictionary

Row = dict[str, float]
SOME: list[Row] = [
    {"KEEP": 0.9, "APPEND_x": 0.1},
    {"KEEP": 0.4, "DELETE": 0.45, "APPEND_b": 0.15},
    {"KEEP": 0.2, "DELETE": 0.3, "REPLACE_c": 0.5},
    {"KEEP": 0.7, "DELETE": 0.3},
]
"""The start and three tokens."""


def scored(rows: list[Row], errors: list[float] | None = None) -> TopEdits:
    """Return the scores of an engine with these probabilities."""
    probabilities = np.zeros((len(rows), len(EDITS.labels)), np.float32)
    for at, row in enumerate(rows):
        for name, value in row.items():
            probabilities[at, EDITS.names.index(name)] = value
    kept, others = probabilities[:, 0], probabilities[:, 1:]
    best = np.argsort(-others, axis=1, kind="stable")[:, :TOP]
    found = np.array(errors, np.float32) if errors else 1 - kept
    return TopEdits(kept, found, best + 1, np.take_along_axis(others, best, 1))


def choose(
    rows: list[Row],
    words: str = "d d d",
    errors: list[float] | None = None,
    starts: tuple[int, ...] = (0,),
    greedy: bool = False,
    **options: Any,
) -> list[tuple[str, float]]:
    known, search = dictionary(), CorrectionSearch(**options)
    ids = np.array([known.bos(), *map(known.index, words.split())])
    text = Spans(ids, np.diff(starts, append=len(ids)))
    applier = EditApplier(replace(EDITS, greedy=greedy), known)
    candidates = applier.candidates(scored(rows, errors), text, search.keep_bias or 0)
    chosen = choose_edits(candidates, text.starts, search)
    return [
        (EDITS.names[label], round(float(probability), 6))
        for label, probability in zip(chosen.labels, chosen.probabilities, strict=True)
    ]


KEPT = [("KEEP", 0.9), ("KEEP", 0.4), ("KEEP", 0.2), ("KEEP", 0.7)]
CHOSEN = [("KEEP", 0.9), ("DELETE", 0.45), ("REPLACE_c", 0.5), ("KEEP", 0.7)]
FEWER = [("KEEP", 0.9), ("KEEP", 0.4), ("REPLACE_c", 0.5), ("KEEP", 0.7)]


def test_biases_affect_the_choice_but_not_the_returned_probabilities() -> None:
    assert choose(SOME) == CHOSEN
    assert choose(SOME, keep_bias=0.1) == FEWER
    assert choose(SOME, keep_bias=0.31)[2] == ("KEEP", 0.2)
    assert choose(SOME, keep_bias=-0.5)[3] == ("DELETE", 0.3)


def test_edits_below_min_confidence_are_not_chosen() -> None:
    assert choose(SOME, min_confidence=0.46) == FEWER
    assert choose(SOME, min_confidence=0.44) == CHOSEN


def test_sentences_below_min_sentence_confidence_are_unchanged() -> None:
    assert choose(SOME, min_sentence_confidence=0.79) == CHOSEN
    assert choose(SOME, min_sentence_confidence=0.81) == KEPT
    errors = [0.1, 0.2, 0.3, 0.6]
    assert choose(SOME, errors=errors, min_sentence_confidence=0.59) == CHOSEN
    assert choose(SOME, errors=errors, min_sentence_confidence=0.61) == KEPT
    # each sentence has its own maximum error probability
    two = [*SOME, *SOME], "d d d <s> d d d", [*errors, 0.1, 0.5, 0.1, 0.1]
    assert choose(*two, starts=(0, 4), min_sentence_confidence=0.55) == CHOSEN + KEPT


def test_start_can_only_be_kept_or_appended_to() -> None:
    rows = [{"KEEP": 0.1, "APPEND_x": 0.15, "REPLACE_b": 0.25, "SUFFIX_+s": 0.5, "DELETE": 0.3}]
    assert choose(rows, "") == [("APPEND_x", 0.15)]
    assert choose([{"DELETE": 1.0}], "", keep_bias=-1.0)[0][0] != "DELETE"


def test_a_greedy_dictionary_keeps_a_word_that_the_best_edit_cannot_change() -> None:
    rows = [{"KEEP": 1.0}, {"SUFFIX_-s": 0.5, "DELETE": 0.3, "KEEP": 0.2}]
    assert choose(rows, "d")[1] == ("DELETE", 0.3)
    assert choose(rows, "d", greedy=True)[1] == ("KEEP", 0.2)
    assert choose(rows, "ds", greedy=True)[1] == ("SUFFIX_-s", 0.5)


ALL_TRANSFORMS = [
    EDITS,
    *(
        EditDictionary.of_counts({("the",): 3}, 1, 2, transforms)
        for transforms in (
            *(Transforms.of([], groups) for groups in (("case",), ("split",), ("verb", "number"))),
            Transforms.of([("e", "ing", [])]),
        )
    ),
]


@pytest.mark.parametrize("edits", ALL_TRANSFORMS)
def test_possible_edits_are_those_of_the_edit_dictionary(edits: EditDictionary) -> None:
    words = dictionary("walks Talk of a cry")
    tokens = ["walks", "Talk", "unknown", "of", "a", "cry", "UPPER", "?", "unknown"]
    text = Spans.of([np.array([words.bos(), *map(words.index, tokens)])])
    shape, applier = (len(text.ids), 1), EditApplier(edits, words)
    kept, certain = np.zeros(len(text.ids), np.float32), np.ones(shape, np.float32)
    for label in range(1, len(edits.labels)):
        top = TopEdits(kept, kept, np.full(shape, label), certain)
        is_possible = [
            possible(edits, label, word) and not (word == tokens[-1] and at == len(tokens))
            if edits.labels[label].merge
            else possible(edits, label, word)
            for at, word in enumerate([None, *tokens])
        ]
        labels = applier.candidates(top, text, 0).labels
        assert (labels == label).tolist() == is_possible


@pytest.mark.parametrize(
    ("name", "value"), [("keep_bias", 1.1), ("min_confidence", -0.1), ("keep_bias", np.nan)]
)
def test_invalid_options_are_rejected(name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=name):
        CorrectionSearch(**{name: value})


WORDS = "a b c walk Walks crying of"
UNKNOWN = "new talked Berlin ? 12"
tokens = st.sampled_from([*WORDS.split(), *UNKNOWN.split()]) | st.text("abs", min_size=1)


def labels_for(words: list[str | None]) -> st.SearchStrategy[list[int]]:
    """Return a strategy of labels that apply to a word. None is the start of a sentence."""
    return st.tuples(
        *(
            st.sampled_from([n for n in range(len(EDITS.labels)) if possible(EDITS, n, word)])
            for word in words
        )
    ).map(list)


@st.composite
def cases(draw: st.DrawFn) -> list[tuple[list[str], list[int]]]:
    sentences = draw(st.lists(st.lists(tokens, max_size=6), min_size=1, max_size=4))
    return [(one, draw(labels_for([None, *one]))) for one in sentences]


def spans(words: OovDictionary, sentences: list[list[str]]) -> Spans:
    return Spans.of([np.array([0, *map(words.index, one)]) for one in sentences])


def plainly_edited(sentence: list[str], labels: list[int]) -> list[str]:
    """Apply labels one at a time, then the merges, each to the tokens around its place."""
    result: list[str] = []
    places = []
    for word, number in zip(["", *sentence], labels, strict=True):
        label = EDITS.labels[number]
        if label.transform:
            changed = EDITS.transforms.apply(number - EDITS.first_transform, word)
            result += changed.split(" ") if changed else []
        else:
            result += [token for token in label.edited(word) if token]
        if label.merge:
            places.append((len(result), label.merge))
    removed = 0
    for place, merge in places:
        at = place - removed
        if at < len(result):
            merged = merge.merged(result[at - 1], result[at])
            result[at - 1 : at + 1] = merged
            removed += 2 - len(merged)
    return result


@given(case=cases())
def test_edited_ids_equal_edited_tokens(case: list[tuple[list[str], list[int]]]) -> None:
    words = dictionary(WORDS)
    text = spans(words, [sentence for sentence, _ in case])
    labels = np.array([label for _, some in case for label in some])
    after, origins = EditApplier(EDITS, words)(text, labels)
    found = [row.tolist() for row in np.split(after.ids, after.starts[1:])]
    assert all(row[0] == 0 for row in found)
    assert [[words[one] for one in row[1:]] for row in found] == [
        plainly_edited(sentence, some) for sentence, some in case
    ]
    # the label at the origin of an id kept or inserted it, except next to merges
    for token, origin in zip(after.ids.tolist(), origins.tolist(), strict=True):
        label = EDITS.labels[labels[origin]]
        if (
            token != text.ids[origin]
            and label.transform is None
            and not any(EDITS.labels[number].merge for number in labels)
        ):
            assert words[token] in label.gram
    assert sorted(origins.tolist()) == origins.tolist()


def test_edits_without_merges_equal_those_of_the_library() -> None:
    words, sentence = dictionary(WORDS), ["walk", "Walks", "a"]
    names = ["APPEND_x", "SUFFIX_+s", "CASE_lower", "REPLACE_a_new"]
    labels = [EDITS.names.index(name) for name in names]
    after, _ = EditApplier(EDITS, words)(spans(words, [sentence]), np.array(labels))
    expected = apply_labels(sentence, [EDITS.labels[label] for label in labels])
    assert [words[token] for token in after.ids[1:].tolist()] == expected


def test_new_words_have_one_id() -> None:
    words = dictionary(WORDS)
    edit = EditApplier(EDITS, words)
    text = spans(words, [["walk"], ["walks"], ["walked"]])
    labels = [EDITS.names.index(name) for name in ("KEEP", "SUFFIX_+ed", "KEEP", "SUFFIX_-s+ed")]
    after, _ = edit(text, np.array([*labels, 0, 0]))
    assert len({*after.ids[[1, 3, 5]].tolist()}) == 1
    assert edit(text, np.array([*labels, 0, 0])).text.ids.tolist() == after.ids.tolist()


def test_merges_computed_by_hand() -> None:
    words = dictionary("every one well known b a")
    text = spans(words, [["every", "one", "b", "a"], ["well", "known", "every", "one"], ["b"]])
    names = ["KEEP", "MERGE_space", "APPEND_x", "MERGE_swap", "KEEP"]
    names += ["APPEND_c", "MERGE_hyphen", "MERGE_space", "DELETE", "REPLACE_x"]
    names += ["KEEP", "MERGE_swap"]
    labels = np.array([EDITS.names.index(name) for name in names])
    after, origins = EditApplier(EDITS, words)(text, labels)
    assert " ".join(words[token] for token in after.ids.tolist()) == (
        "<s> everyone x a b <s> c well-knownx <s> b"
    )
    assert after.lengths.tolist() == [5, 3, 2]
    assert origins.tolist() == [0, 1, 2, 3, 4, 5, 5, 6, 10, 11]
