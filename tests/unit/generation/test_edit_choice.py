"""The choice of edits, in cases computed by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from fairseq_ssl.data.oov_dictionary import OovDictionary
from fairseq_ssl.edits.dictionary import EditDictionary
from fairseq_ssl.edits.transforms import Transforms
from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.generation.edit_choice import (
    EditCandidates,
    EditChoice,
    PossibleEdits,
    best_candidates,
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
            probabilities[at, EDITS.ids[name]] = value
    ids = np.array([known.bos(), *map(known.index, words.split())])
    found_errors = torch.tensor(errors) if errors else 1 - probabilities[:, 0]
    possible, at_start = PossibleEdits(EDITS, known), np.array(starts)
    columns = best_candidates(probabilities, found_errors, possible, ids, at_start)
    candidates = EditCandidates(*columns.numpy())
    candidates = candidates._replace(other_labels=candidates.other_labels.astype(np.int64))
    np.testing.assert_allclose(candidates.kept, [row.get("KEEP", 0) for row in rows], rtol=1e-6)
    found = EditChoice(**settings)(candidates, at_start)
    return [
        (EDITS.names[label], round(float(probability), 6))
        for label, probability in zip(found.labels, found.probabilities, strict=True)
    ]


def test_most_probable_edit_is_chosen() -> None:
    wanted = [("KEEP", 0.9), ("DELETE", 0.45), ("REPLACE_c", 0.5), ("KEEP", 0.7)]
    assert choose(SOME) == wanted


def test_biases_affect_the_choice_but_not_the_returned_probabilities() -> None:
    keep = [("KEEP", 0.9), ("KEEP", 0.4), ("REPLACE_c", 0.5), ("KEEP", 0.7)]
    assert choose(SOME, keep_bias=0.1) == keep
    assert choose(SOME, keep_bias=0.31)[2] == ("KEEP", 0.2)
    delete = [("KEEP", 0.9), ("DELETE", 0.45), ("DELETE", 0.3), ("KEEP", 0.7)]
    assert choose(SOME, delete_bias=0.21) == delete
    assert choose(SOME, delete_bias=0.41)[3] == ("DELETE", 0.3)
    assert choose(SOME, keep_bias=-0.5)[3] == ("DELETE", 0.3)


def test_edits_below_min_confidence_are_not_chosen() -> None:
    keep = [("KEEP", 0.9), ("KEEP", 0.4), ("REPLACE_c", 0.5), ("KEEP", 0.7)]
    assert choose(SOME, min_confidence=0.46) == keep
    assert choose(SOME, min_confidence=0.44) == choose(SOME)
    # the threshold applies to the probability without bias
    assert choose(SOME, min_confidence=0.46, delete_bias=0.1) == keep


def test_sentences_below_min_sentence_confidence_are_unchanged() -> None:
    assert choose(SOME, min_sentence_confidence=0.79) == choose(SOME)
    kept = [("KEEP", 0.9), ("KEEP", 0.4), ("KEEP", 0.2), ("KEEP", 0.7)]
    assert choose(SOME, min_sentence_confidence=0.81) == kept
    errors = [0.1, 0.2, 0.3, 0.6]
    assert choose(SOME, errors=errors, min_sentence_confidence=0.59) == choose(SOME)
    assert choose(SOME, errors=errors, min_sentence_confidence=0.61) == kept
    # each sentence has its own maximum error probability
    two = [*SOME, *SOME]
    found = choose(
        *(two, "d d d <s> d d d", [*errors, 0.1, 0.5, 0.1, 0.1]),
        starts=(0, 4),
        min_sentence_confidence=0.55,
    )
    assert found == choose(SOME) + kept


def test_start_can_only_be_kept_or_appended_to() -> None:
    rows = [{"KEEP": 0.1, "APPEND_x": 0.15, "REPLACE_b": 0.25, "SUFFIX_+s": 0.5, "DELETE": 0.3}]
    assert choose(rows, "") == [("APPEND_x", 0.15)]
    assert choose(rows, "", delete_bias=1.0, keep_bias=-1.0) == [("APPEND_x", 0.15)]
    assert choose([{"DELETE": 1.0}], "", keep_bias=-1.0)[0][0] != "DELETE"


def test_transforms_apply_to_known_and_unknown_words() -> None:
    row = {"SUFFIX_-s": 0.4, "CASE_lower": 0.3, "SUFFIX_+s": 0.2, "KEEP": 0.1}
    words = dictionary("d walks a Walk")
    found = choose([{"KEEP": 1.0}, *[row] * 7], "d walks a Walk Berlins ? <unk>", known=words)
    assert [name for name, _ in found[1:]] == [
        *("SUFFIX_+s", "SUFFIX_-s", "KEEP", "CASE_lower"),
        *("SUFFIX_-s", "SUFFIX_+s", "KEEP"),
    ]
    assert [round(probability, 6) for _, probability in found[1:3]] == [0.2, 0.4]


def test_possible_transforms_are_cached() -> None:
    words = dictionary("walks talk")
    possible = PossibleEdits(EDITS, words)
    asked = []

    class Spy:
        nspecial = words.nspecial

        def __len__(self) -> int:
            return len(words)

        def __getitem__(self, token: int) -> str:
            asked.append(words[token])
            return words[token]

    possible = PossibleEdits(EDITS, Spy())
    for line in ("walks new", "talk walks", "new newer newest walks", "walks"):
        ids = np.array([words.bos(), *map(words.index, line.split())])
        possible.mask_impossible(torch.ones(len(ids), len(EDITS.labels)), ids, np.array([0]))
    assert sorted(asked) == ["new", "newer", "newest", "talk", "walks"]


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
    ("name", "value"),
    [
        *(("keep_bias", 1.1), ("keep_bias", -1.1), ("delete_bias", float("nan"))),
        *(("min_confidence", -0.1), ("min_sentence_confidence", 1.5)),
    ],
)
def test_invalid_options_are_rejected(name: str, value: float) -> None:
    flag = f"--edit-{name.replace('_', '-')} is {value}"
    with pytest.raises(ConfigurationError, match=flag):
        EditChoice(**{name: value})
