"""Verb forms compared with those of grammar books."""

from __future__ import annotations

import sys

import pytest

from fairseq_ssl.noise import learner_errors
from fairseq_ssl.noise.learner_errors import VerbForms
from tests.conftest import run_command

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
        assert VerbForms()[word] == tuple(others)
    for word in ("the", "I", "'s", "n't", "2nd", "<mask>", ".", "日本"):
        assert VerbForms()[word] == ()


def test_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learner_errors, "MAX_FORMS", 10)
    forms = VerbForms()
    for i in range(35):
        assert forms["x" * (i + 1)] == ()
        assert forms["goes"] == ("go", "going", "gone", "went")
    assert len(forms) <= 10


LEFT_OUT = """
import sys
from fairseq_ssl.noise.learner_errors import VerbForms

assert VerbForms()["goes"]
assert not {"spacy", "torch"} & set(sys.modules)
import spacy
"""


def test_spacy_is_not_imported_but_importable() -> None:
    run_command(sys.executable, "-c", LEFT_OUT)
