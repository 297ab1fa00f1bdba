"""The choice of edits in cases computed by hand, and edits of ids, which equal edits of tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fairseq_ssl.data.oov_dictionary import OovDictionary
from fairseq_ssl.data.spans import Spans
from fairseq_ssl.edits.decoding import CorrectionSearch
from fairseq_ssl.edits.dictionary import EditDictionary
from fairseq_ssl.edits.extraction import apply_labels
from fairseq_ssl.edits.transforms import Transforms
from fairseq_ssl.errors import UsageError
from fairseq_ssl.generation.edit_choice import (
    ChosenEdits,
    EditCandidates,
    EditedIds,
    PossibleEdits,
    best_candidates,
    choose_edits,
)
from tests.unit.edits.plain_edits import is_possible
from tests.unit.generation.fake_tagger import EDITS, dictionary

Row = dict[str, float]
SOME: list[Row] = [
    {"KEEP": 0.9, "APPEND_x": 0.1},
    {"KEEP": 0.4, "DELETE": 0.45, "APPEND_b": 0.15},
    {"KEEP": 0.2, "DELETE": 0.3, "REPLACE_c": 0.5},
    {"KEEP": 0.7, "DELETE": 0.3},
]
"""The start and three tokens."""


def choose(
    rows: list[Row],
    words: str = "d d d",
    errors: list[float] | None = None,
    known: OovDictionary | None = None,
    starts: tuple[int, ...] = (0,),
    **settings: Any,
) -> list[tuple[str, float]]:
    known = known or dictionary()
    probabilities = torch.zeros(len(rows), len(EDITS.labels))
    for at, row in enumerate(rows):
        for name, value in row.items():
            probabilities[at, EDITS.names.index(name)] = value
    ids = np.array([known.bos(), *map(known.index, words.split())])
    found_errors = torch.tensor(errors) if errors else 1 - probabilities[:, 0]
    possible, at_start = PossibleEdits(EDITS, known), np.array(starts)
    columns = best_candidates(probabilities, found_errors, possible, ids, at_start)
    candidates = EditCandidates(*columns.numpy())
    candidates = candidates._replace(other_labels=candidates.other_labels.astype(np.int64))
    np.testing.assert_allclose(candidates.kept, [row.get("KEEP", 0) for row in rows], rtol=1e-6)
    found = choose_edits(candidates, at_start, CorrectionSearch(**settings))
    return [
        (EDITS.names[label], round(float(probability), 6))
        for label, probability in zip(found.labels, found.probabilities, strict=True)
    ]


KEPT = [("KEEP", 0.9), ("KEEP", 0.4), ("KEEP", 0.2), ("KEEP", 0.7)]
CHOSEN = [("KEEP", 0.9), ("DELETE", 0.45), ("REPLACE_c", 0.5), ("KEEP", 0.7)]
FEWER = [("KEEP", 0.9), ("KEEP", 0.4), ("REPLACE_c", 0.5), ("KEEP", 0.7)]


def test_biases_affect_the_choice_but_not_the_returned_probabilities() -> None:
    assert choose(SOME) == CHOSEN
    assert choose(SOME, keep_bias=0.1) == FEWER
    assert choose(SOME, keep_bias=0.31)[2] == ("KEEP", 0.2)
    delete = [("KEEP", 0.9), ("DELETE", 0.45), ("DELETE", 0.3), ("KEEP", 0.7)]
    assert choose(SOME, delete_bias=0.21) == delete
    assert choose(SOME, delete_bias=0.41)[3] == ("DELETE", 0.3)
    assert choose(SOME, keep_bias=-0.5)[3] == ("DELETE", 0.3)


def test_edits_below_min_confidence_are_not_chosen() -> None:
    assert choose(SOME, min_confidence=0.46) == FEWER
    assert choose(SOME, min_confidence=0.44) == CHOSEN
    # the threshold applies to the probability without bias
    assert choose(SOME, min_confidence=0.46, delete_bias=0.1) == FEWER


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
    assert choose(rows, "", delete_bias=1.0, keep_bias=-1.0) == [("APPEND_x", 0.15)]
    assert choose([{"DELETE": 1.0}], "", keep_bias=-1.0)[0][0] != "DELETE"


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
    ids = np.array([words.bos(), *map(words.index, tokens)])
    left = torch.ones(len(ids), len(edits.labels))
    PossibleEdits(edits, words).mask_impossible(left, ids, np.array([0]))
    assert left.isfinite().tolist() == [
        [is_possible(edits, label, word) for label in range(len(edits.labels))]
        for word in [None, *tokens]
    ]


@pytest.mark.parametrize(
    ("name", "value"), [("keep_bias", 1.1), ("min_confidence", -0.1), ("delete_bias", np.nan)]
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
            st.sampled_from([n for n in range(len(EDITS.labels)) if is_possible(EDITS, n, word)])
            for word in words
        )
    ).map(list)


@st.composite
def cases(draw: st.DrawFn) -> list[tuple[list[str], list[int]]]:
    sentences = draw(st.lists(st.lists(tokens, max_size=6), min_size=1, max_size=4))
    return [(one, draw(labels_for([None, *one]))) for one in sentences]


def spans(words: OovDictionary, sentences: list[list[str]]) -> Spans:
    return Spans.of([np.array([0, *map(words.index, one)]) for one in sentences])


def resolved(edit: EditedIds, labels: list[int], text: Spans) -> ChosenEdits:
    """Return edits with the probability 0.5, or 0.25 for keep, after `resolve_merges`."""
    kept = np.full(len(labels), 0.25, np.float32)
    return edit.resolve_merges(ChosenEdits(np.array(labels), kept * 2), kept, text)


def without_conflicts(labels: list[int]) -> list[int]:
    """Return the labels of a sentence, with keep for merges at its end and for merged tokens."""
    result: list[int] = []
    is_merged = False
    for at, label in enumerate(labels):
        is_merge = EDITS.names[label].startswith("MERGE")
        result.append(0 if is_merged or (is_merge and at + 1 == len(labels)) else label)
        is_merged = is_merge and result[-1] == label
    return result


@given(case=cases())
def test_edited_ids_equal_edited_tokens(case: list[tuple[list[str], list[int]]]) -> None:
    words = dictionary(WORDS)
    text = spans(words, [sentence for sentence, _ in case])
    edit = EditedIds(EDITS, words)
    labels = resolved(edit, [label for _, some in case for label in some], text).labels
    assert labels.tolist() == [label for _, some in case for label in without_conflicts(some)]
    after, origins = edit(text, labels)
    found = [row.tolist() for row in np.split(after.ids, after.starts[1:])]
    assert all(row[0] == 0 for row in found)
    assert [[words[one] for one in row[1:]] for row in found] == [
        apply_labels(sentence, [EDITS.labels[label] for label in without_conflicts(some)])
        for sentence, some in case
    ]
    # the label at the origin of an id kept or inserted it
    for token, origin in zip(after.ids.tolist(), origins.tolist(), strict=True):
        label = EDITS.labels[labels[origin]]
        if token != text.ids[origin] and label.transform is None:
            assert words[token] in label.gram
    assert sorted(origins.tolist()) == origins.tolist()


def test_new_words_have_one_id() -> None:
    words = dictionary(WORDS)
    edit = EditedIds(EDITS, words)
    text = spans(words, [["walk"], ["walks"], ["walked"]])
    labels = [EDITS.names.index(name) for name in ("KEEP", "SUFFIX_+ed", "KEEP", "SUFFIX_-s+ed")]
    after, _ = edit(text, np.array([*labels, 0, 0]))
    assert len({*after.ids[[1, 3, 5]].tolist()}) == 1
    assert edit(text, np.array([*labels, 0, 0])).text.ids.tolist() == after.ids.tolist()


def test_merges_computed_by_hand() -> None:
    words = dictionary("every one well known b a")
    text = spans(words, [["every", "one", "b", "a"], ["well", "known", "every", "one"], ["b"]])
    names = ["KEEP", "MERGE_space", "APPEND_x", "MERGE_swap", "DELETE"]
    names += ["APPEND_c", "MERGE_hyphen", "MERGE_space", "MERGE_space", "KEEP"]
    names += ["KEEP", "MERGE_swap"]
    edit = EditedIds(EDITS, words)
    found = resolved(edit, [EDITS.names.index(name) for name in names], text)
    after, origins = edit(text, found.labels)
    assert " ".join(words[one] for one in after.ids.tolist()) == (
        "<s> everyone a b <s> c well-known everyone <s> b"
    )
    assert after.lengths.tolist() == [4, 4, 2]
    assert origins.tolist() == [0, 1, 3, 3, 5, 5, 6, 8, 10, 11]
    kept = [2, 4, 7, 9, 11]
    assert found.labels[kept].tolist() == [0] * 5
    assert found.probabilities.tolist() == [0.25 if at in kept else 0.5 for at in range(12)]
