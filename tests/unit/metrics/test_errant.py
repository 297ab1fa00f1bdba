"""ERRANT: edits and types with a small pipeline, and comparison with errant_compare."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairseq_ssl.errors import MissingPackageError
from fairseq_ssl.metrics.edit_extraction import Annotator, packages
from fairseq_ssl.metrics.errant import (
    TIERS,
    TypedCounts,
    choose_annotator,
    compare_edits,
    count_categories,
    errant_scores,
)
from fairseq_ssl.text.m2 import M2Edit, M2Sentence, format_m2, main_type
from tests.unit.metrics.small_pipeline import small_pipeline


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Annotator:
    return Annotator(str(small_pipeline(tmp_path_factory.mktemp("model"))))


@pytest.mark.parametrize(
    ("source", "corrected", "expected"),
    [
        ("the cat sit on mat .", "the cat sits on the mat .", ["R:VERB:SVA sits", "M:DET the"]),
        ("the cats sat at the mat .", "the cat sat on mat .", None),
        ("a cat sat .", "a cat sat .", []),
        ("the  cat", "the cat ", []),
        ("a caat sat", "a cat sat", ["R:SPELL cat"]),
    ],
)
def test_edits_have_types(
    typed: Annotator, source: str, corrected: str, expected: list[str] | None
) -> None:
    found = [f"{edit.type} {edit.correction}" for edit in typed.edits(source, corrected)]
    reference = ["R:NOUN:NUM cat", "R:PREP on", "U:DET "] if expected is None else expected
    assert found == reference


def test_sentence_has_one_annotator_per_correction(typed: Annotator) -> None:
    (found,) = typed.sentences([("the cat sit .", ["the cat sat .", "the cat sit ."], 3)])
    assert found == M2Sentence(
        ("the", "cat", "sit", "."), {0: [M2Edit(2, 3, "R:VERB:TENSE", "sat")], 1: []}, 3
    )


def test_a_blank_pipeline_finds_edits_without_types() -> None:
    found = Annotator(None).edits("the cat sit on mat .", "the cat sits on the mat .")
    assert found == [M2Edit(2, 3, "NA", "sits"), M2Edit(4, 4, "NA", "the")]
    assert packages().startswith("errant-")


@pytest.mark.parametrize("model", ["no_such_model", "."])
def test_missing_model_is_reported(model: str) -> None:
    with pytest.raises(MissingPackageError) as caught:
        Annotator(model)
    message = str(caught.value)
    assert "python -m spacy download en_core_web_sm" in message
    assert "`untyped`" in message
    assert ("no_such_model" in message) == (model != ".")


def test_missing_package_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "errant", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'fairseq-ssl\[gec\]'"):
        Annotator(None)


def test_counts_of_examples() -> None:
    ours = [M2Edit(0, 1, "R:NOUN", "x"), M2Edit(2, 2, "M:DET", "the"), M2Edit(3, 4, "UNK", "y")]
    theirs = [M2Edit(0, 1, "R:SPELL", "x"), M2Edit(2, 3, "R:DET", "the"), M2Edit(5, 6, "UNK", "z")]
    found = compare_edits(ours, theirs)
    assert found.correct == Counter({"R:SPELL": 1})  # the annotator's type
    assert found.wrong == Counter({"M:DET": 1})
    assert found.missing == Counter({"R:DET": 1})
    categories = count_categories([found, found, TypedCounts(Counter({"R:SPELL": 1}))], "type")
    assert list(categories.items()) == [("SPELL", (3, 0, 0)), ("DET", (0, 2, 2))]
    assert compare_edits([M2Edit(0, 1, "U", "-NONE-")], [M2Edit(0, 1, "U", "")]).totals() == (
        1,
        0,
        0,
    )
    assert errant_scores((1, 1, 3)) == pytest.approx((0.5, 0.25, 1.25 * 0.125 / 0.375))
    assert errant_scores((0, 0, 0)) == (1, 1, 1)
    assert errant_scores((0, 1, 1)) == (0, 0, 0)
    assert [main_type(kind) for kind in ("R:NOUN:NUM", "UNK", "M:DET")] == [
        "NOUN:NUM",
        "UNK",
        "DET",
    ]


def counts(correct: int, wrong: int, missing: int, kind: str = "NA") -> TypedCounts:
    return TypedCounts(*(Counter({kind: count}) for count in (correct, wrong, missing)))


def test_annotators_are_chosen_by_f_so_far() -> None:
    few, many = counts(0, 1, 0), counts(1, 0, 7)
    assert choose_annotator([[few, many]]) == [many]  # F is 0 or 0.42
    before = counts(2, 0, 0)
    assert choose_annotator([[before], [few, many]]) == [before, few]  # 0.71 or 0.68
    before, many = counts(7200, 800, 800), counts(1, 0, 5)
    assert choose_annotator([[before], [few, many]]) == [before, many]  # 0.89991 or 0.89990
    same = [counts(1, 0, 0, kind) for kind in ("M:DET", "M:PREP")]
    assert choose_annotator([same]) == same[:1]


edit = st.builds(
    lambda start, length, kind, text: M2Edit(start, start + length, kind, text),
    st.integers(0, 2),
    st.integers(0, 1),
    st.sampled_from(["M:DET", "R:NOUN", "R:NOUN:NUM", "U:DET", "UNK"]),
    st.sampled_from(["a", "b", ""]),
)
several = st.lists(edit, max_size=4)


@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(st.tuples(several, st.lists(several, min_size=1, max_size=3)), min_size=1, max_size=3)
)
def test_counts_equal_those_of_errant_compare(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    sentences: list[tuple[list[M2Edit], list[list[M2Edit]]]],
) -> None:
    compare_m2: Any = import_module("errant.commands.compare_m2")
    for name, column in (
        ("ours", [{0: ours} for ours, _ in sentences]),
        ("gold", [dict(enumerate(gold)) for _, gold in sentences]),
    ):
        blocks = [M2Sentence(("a", "b", "c"), annotators) for annotators in column]
        text = "\n".join(line for block in blocks for line in format_m2(block))
        (tmp_path / name).write_text(text + "\n", encoding="utf-8")
    words: list[Any] = ["errant_compare", "-hyp", tmp_path / "ours", "-ref", tmp_path / "gold"]
    found = choose_annotator(
        [[compare_edits(ours, each) for each in gold] for ours, gold in sentences]
    )
    for number, tier in enumerate(TIERS, 1):
        monkeypatch.setattr(sys, "argv", [*map(str, words), "-cat", str(number)])
        capsys.readouterr()
        compare_m2.main()
        lines = [line.split() for line in capsys.readouterr().out.strip().splitlines()]
        categories = count_categories(found, tier)
        total = tuple(sum(each[at] for each in categories.values()) for at in range(3))
        assert lines[-2] == _row(total)
        table = {line[0]: line[1:] for line in lines[2 : lines.index([])]}
        assert table == {kind: _row(counts) for kind, counts in categories.items()}


def _row(counts: Iterable[int]) -> list[str]:
    numbers = list(counts)
    return [*map(str, numbers), *(str(round(number, 4)) for number in errant_scores(numbers))]
