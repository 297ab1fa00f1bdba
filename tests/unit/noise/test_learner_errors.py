"""Learner errors: counts of examples, comparison with a slow edit distance, files."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_ssl.errors import DataError, MissingPackageError
from fairseq_ssl.noise.default_learner_errors import DEFAULT_ERRORS
from fairseq_ssl.noise.learner_errors import (
    ERROR_KINDS,
    MAX_GRAM_TOKENS,
    LearnerErrorCounter,
    LearnerErrors,
    count_learner_errors,
)
from fairseq_ssl.signature import Signature

PAIRS = [
    ("I likes the nature .", "I like nature ."),  # a verb, and a word too much: which, is not clear
    ("He live in the city .", "He lives in the city ."),
    ("She is good at the to swim .", "She is good at swimming ."),  # a verb, and two words
    ("It depends of the", "It depends on the"),
    ("We went to home", "We went home"),
    ("I am here", "I am here"),
    ("I agree", "In my view , I agree"),
    ("x a b c", "a b c z z"),
    ("I see it", "I saw seen it"),  # one verb, since one word was written
    ("a q r b", "a s t b"),  # which word replaces which is not clear
    ("", "a"),
    ("a", " "),
]
COUNTED = LearnerErrors(
    deleted={"to": 1, "x": 1},
    missing={"In": 1, "my": 1, "view": 1, ",": 1, "z": 2},
    replaced={"on": {"of": 1}},
    errors=(1, 3, 3, 2, 1),
    kinds={"append": 7, "verb": 4, "replace": 3, "delete": 5},
)


def counted(pairs: list[tuple[str, str]]) -> LearnerErrors:
    counting = LearnerErrorCounter()
    for written, corrected in pairs:
        counting.add(written, corrected)
    return counting.words()


def test_counts_of_an_example() -> None:
    assert counted(PAIRS) == COUNTED


def test_common_removes_rare_words() -> None:
    twice = counted([*PAIRS, *PAIRS[3:5]]).common(2)
    assert twice.deleted == {"to": 2}
    assert twice.missing == {"z": 2}
    assert twice.replaced == {"on": {"of": 2}}
    assert twice.errors == (1, 5, 3, 2, 1)
    assert COUNTED.common(2).replaced == {}


def test_skipped_pairs_are_counted() -> None:
    counting = LearnerErrorCounter()
    counting.add("", "a")
    counting.add("a", "\t")
    counting.add("a", "a " * (MAX_GRAM_TOKENS + 1))
    counting.add("a", "a " * MAX_GRAM_TOKENS)
    assert (counting.blank, counting.long) == (2, 1)
    assert counting.words().errors == (0, 0, 0, 0, 1)


def distance(source: str, target: str) -> int:
    """Return the edit distance in words by its recursive definition."""
    row = list(range(len(target) + 1))
    for i, word in enumerate(source, 1):
        last, row = row, [i]
        for j, other in enumerate(target, 1):
            row.append(min(last[j] + 1, row[-1] + 1, last[j - 1] + (word != other)))
    return row[-1]


@given(pairs=st.lists(st.tuples(st.text("abc", min_size=1), st.text("abc", min_size=1))))
def test_number_of_errors_is_the_edit_distance(pairs: list[tuple[str, str]]) -> None:
    words = counted([(" ".join(source), " ".join(target)) for source, target in pairs])
    distances = [distance(*pair) for pair in pairs]
    assert sum(words.kinds.values()) == sum(distances)
    assert words.errors == tuple(
        sum(min(number, 4) == errors for number in distances) for errors in range(5)
    )
    longer = sum(len(target) - len(source) for source, target in pairs)
    assert words.kinds["append"] - words.kinds["delete"] == longer


def test_write_and_read_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "words.json"
    for words in (COUNTED, DEFAULT_ERRORS):
        words.write(path, Signature("learner-errors", {"least": 1}))
        assert LearnerErrors.read(path) == words
    content = json.loads(path.read_text(encoding="utf-8"))
    assert content["signature"].startswith("learner-errors|least:1|version:")
    assert content["least"] == 1
    deleted = list(content["deleted"].items())
    assert deleted == sorted(deleted, key=lambda item: (-item[1], item[0]))
    assert [*path.parent.iterdir()] == [path]
    words.write(tmp_path / "words.json.gz", Signature("learner-errors"))
    assert LearnerErrors.read(tmp_path / "words.json.gz") == words


def bad(**changes: Any) -> dict[str, Any]:
    """Return valid content with changed keys. None removes a key."""
    good = {
        "deleted": {"the": 2},
        "missing": {"a": 1},
        "replaced": {"in": {"on": 1}},
        "errors": [1, 2],
        "kinds": dict.fromkeys(ERROR_KINDS, 1),
    }
    return {name: value for name, value in {**good, **changes}.items() if value is not None}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (bad(missing=None, mising={}), "no 'missing'. Expected .* Is 'mising' a misspelling"),
        (bad(errors=None), "no 'errors'. Expected deleted, missing, replaced, errors, kinds"),
        (bad(errors=[]), r"'errors' is \[\]. Expected a list of counts"),
        (bad(errors=[0.5]), r"'errors' is \[0.5\]"),
        (bad(kinds={"append": 1}), "'kinds' .* Expected a count for each of append, verb"),
        (bad(deleted={}), "'deleted' is {}. Expected one word or more"),
        (bad(deleted={"a": 0}), "Expected one word or more"),
        (bad(deleted=["a"]), "Expected words, each with its count"),
        (bad(deleted={"a": -1}), "'deleted: a' is -1. Expected a count"),
        (bad(deleted={"a": True}), "'deleted: a' is true. Expected a count"),
        (bad(missing={"a b": 1}), "'missing' is \"a b\". Expected words without spaces"),
        (bad(missing={"": 1}), "Expected words without spaces"),
        (bad(missing={"a\0": 1}), "Expected words without spaces or NUL"),
        (bad(replaced=[]), "'replaced' is .*. Expected words, with the"),
        (bad(replaced={"in": 3}), "'replaced: in' is 3. Expected words"),
        (bad(replaced={"in": {}}), "'replaced: in' is {}. Expected one word"),
        (bad(replaced={"in": {"on": "x" * 99}}), r"'replaced: in: on' is \"x{39}\.\.\.. Expected"),
        ([], r"contains a list\. Expected an object with learner"),
    ],
)
def test_invalid_files_are_rejected(content: object, message: str, tmp_path: Path) -> None:
    path = tmp_path / "words.json"
    path.write_text(json.dumps(content))
    with pytest.raises(DataError, match=message) as error:
        LearnerErrors.read(path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("wrong", ["ab", ("a",), ("a", "b", "c"), ("a", None), 1])
def test_items_that_are_not_pairs_are_rejected(wrong: Any) -> None:
    with pytest.raises(TypeError, match=re.escape(f"Pair 2 is {wrong!r}. Expected two strings.")):
        count_learner_errors([("a", "b"), wrong])


def test_missing_rapidfuzz_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rapidfuzz.distance", None)
    with pytest.raises(MissingPackageError, match=r"rapidfuzz.*fairseq-ssl\[noise\]"):
        LearnerErrorCounter()
