"""Edits of ids equal edits of tokens."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fairseq_ssl.data.oov_dictionary import OovDictionary
from fairseq_ssl.data.spans import Spans
from fairseq_ssl.edits.extraction import apply_labels
from fairseq_ssl.generation.edit_choice import ChosenEdits, EditedIds
from tests.unit.edits.plain_edits import is_possible
from tests.unit.generation.fake_tagger import EDITS, dictionary

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


def test_case_computed_by_hand() -> None:
    words = dictionary(WORDS)
    text = spans(words, [["a", "walk", "?"], [], ["b"]])
    names = [
        "APPEND_a_new",
        "REPLACE_a_new",
        "SUFFIX_+ed",
        "APPEND_x",
        "APPEND_c",
        "KEEP",
        "DELETE",
    ]
    after, origins = EditedIds(EDITS, words)(text, np.array([EDITS.ids[one] for one in names]))
    assert after.lengths.tolist() == [8, 2, 1]
    assert " ".join(words[one] for one in after.ids.tolist()) == (
        "<s> a new a new walked ? x <s> c <s>"
    )
    assert origins.tolist() == [0, 0, 0, 1, 1, 2, 3, 3, 4, 4, 5]


def test_new_words_have_one_id() -> None:
    words = dictionary(WORDS)
    edit = EditedIds(EDITS, words)
    text = spans(words, [["walk"], ["walks"], ["walked"]])
    labels = [EDITS.ids[name] for name in ("KEEP", "SUFFIX_+ed", "KEEP", "SUFFIX_-s+ed")]
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
    found = resolved(edit, [EDITS.ids[name] for name in names], text)
    after, origins = edit(text, found.labels)
    assert " ".join(words[one] for one in after.ids.tolist()) == (
        "<s> everyone a b <s> c well-known everyone <s> b"
    )
    assert after.lengths.tolist() == [4, 4, 2]
    assert origins.tolist() == [0, 1, 3, 3, 5, 5, 6, 8, 10, 11]
    kept = [2, 4, 7, 9, 11]
    assert found.labels[kept].tolist() == [0] * 5
    assert found.probabilities.tolist() == [0.25 if at in kept else 0.5 for at in range(12)]
