"""Learner errors and verb forms: examples, a slow edit distance, grammar books, files."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_ssl.errors import DataError
from fairseq_ssl.noise.default_learner_errors import DEFAULT_ERRORS
from fairseq_ssl.noise.learner_errors import (
    ERROR_KINDS,
    MAX_GRAM_TOKENS,
    LearnerErrorCounter,
    LearnerErrors,
    verb_forms,
)
from fairseq_ssl.signature import Signature
from tests.conftest import run_command

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


def test_counts_of_examples() -> None:
    assert counted(PAIRS) == COUNTED
    twice = counted([*PAIRS, *PAIRS[3:5]]).common(2)
    assert (twice.deleted, twice.missing) == ({"to": 2}, {"z": 2})
    assert twice.replaced == {"on": {"of": 2}}
    assert twice.errors == (1, 5, 3, 2, 1)
    assert COUNTED.common(2).replaced == {}
    counting = LearnerErrorCounter()
    for written, corrected in (("", "a"), ("a", "\t"), ("a", "a " * (MAX_GRAM_TOKENS + 1))):
        counting.add(written, corrected)
    assert (counting.blank, counting.long) == (2, 1), "these pairs are not counted"
    counting.add("a", "a " * MAX_GRAM_TOKENS)
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


GOOD = {
    **{"deleted": {"the": 2}, "missing": {"a": 1}, "replaced": {"in": {"on": 1}}},
    **{"errors": [1, 2], "kinds": dict.fromkeys(ERROR_KINDS, 1)},
}


WRONG: dict[str, list[Any]] = {
    "errors": [None, [], [0.5]],
    "kinds": [{"append": 1}],
    "deleted": [{}, {"a": 0}, ["a"], {"a": -1}, {"a": True}],
    "missing": [{"a b": 1}, {"": 1}, {"a\0": 1}],
    "replaced": [[], {"in": 3}, {"in": {}}, {"in": {"on": "x"}}],
}


@pytest.mark.parametrize(("key", "value"), [(key, one) for key in WRONG for one in WRONG[key]])
def test_wrong_files_name_the_key(key: str, value: Any, tmp_path: Path) -> None:
    path = tmp_path / "words.json"
    path.write_text(json.dumps(GOOD))
    LearnerErrors.read(path)
    path.write_text(json.dumps({**GOOD, key: value}))
    with pytest.raises(DataError, match=rf"words\.json.*'{key}"):
        LearnerErrors.read(path)


FORMS = """
walk walked walking walks
Walk Walked Walking Walks
WENT GO GOES GOING GONE
is am are be been being was were
has had have having
can could
saw sawed sawing sawn saws see seeing seen sees
puts put putting
"""


def test_forms_of_common_words() -> None:
    for row in FORMS.strip().splitlines():
        word, *others = row.split()
        assert verb_forms(word) == tuple(others)
    for word in ("the", "I", "'s", "n't", "2nd", "<mask>", ".", "日本"):
        assert verb_forms(word) == ()


LEFT_OUT = """
import sys
from fairseq_ssl.noise.learner_errors import verb_forms

assert verb_forms("goes")
assert not {"spacy", "torch"} & set(sys.modules)
import spacy
"""


def test_spacy_is_not_imported_but_importable() -> None:
    run_command(sys.executable, "-c", LEFT_OUT)
