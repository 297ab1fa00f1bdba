"""ERRANT: edits and types with a small pipeline, and comparison with errant_compare."""

from __future__ import annotations

import pickle
import sys
from collections import Counter
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairseq_ssl.errors import DataError, MissingPackageError
from fairseq_ssl.metrics.edit_extraction import Annotator, packages
from fairseq_ssl.metrics.errant import (
    TIERS,
    TypedCounts,
    choose_annotator,
    compare_edits,
    count_categories,
    errant_scores,
)
from fairseq_ssl.text.m2 import M2Edit, M2Sentence, format_m2
from tests.unit.metrics.small_pipeline import small_pipeline


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Annotator:
    return Annotator(str(small_pipeline(tmp_path_factory.mktemp("model"))))


@pytest.mark.parametrize(
    ("source", "corrected", "expected"),
    [
        ("the cat sit on mat .", "the cat sits on the mat .", "R:VERB:SVA=sits M:DET=the"),
        ("the cats sat at the mat .", "the cat sat on mat .", "R:NOUN:NUM=cat R:PREP=on U:DET="),
        ("the  cat", "the cat ", ""),
        ("a caat sat", "a cat sat", "R:SPELL=cat"),
    ],
)
def test_edits_have_types(typed: Annotator, source: str, corrected: str, expected: str) -> None:
    found = [f"{edit.type}={edit.correction}" for edit in typed.edits(source, corrected)]
    assert " ".join(found) == expected


def test_a_blank_pipeline_finds_edits_without_types() -> None:
    found = Annotator(None).edits("the cat sit on mat .", "the cat sits on the mat .")
    assert found == [M2Edit(2, 3, "NA", "sits"), M2Edit(4, 4, "NA", "the")]
    assert packages().startswith("errant-")


def test_a_sentence_for_which_errant_needs_gigabytes_is_rejected() -> None:
    with pytest.raises(DataError, match=r"'a a a.*' has 5,001 words"):
        Annotator(None).edits("Dogs bark .", " ".join(["a"] * 5001))


def test_missing_model_is_reported() -> None:
    with pytest.raises(MissingPackageError) as caught:
        Annotator("no_such_model")
    assert "no_such_model" in str(caught.value)


READER = '@readers = "srsly.read_json.v1"\npath = "CANARY"\n'
WRITER = '@loggers = "spacy.ConsoleLogger.v3"\noutput_file = "CANARY"\n'
TORCH = '@architectures = "spacy.TorchBiLSTMEncoder.v1"\nwidth = 8\ndepth = 1\ndropout = 0\n'
SETTINGS = "\n[nlp]\nlang = 'en'\npipeline = ['%s']\n[components]\n"
RULER = f"{SETTINGS % 'ruler'}[components.ruler]\nfactory = 'attribute_ruler'\n"
LISTED = '[{"@readers": "srsly.read_json.v1", "path": "CANARY"}]'


@pytest.mark.parametrize(
    "config",
    [
        f"{RULER}[components.ruler.x]\n{READER}",
        f"{RULER}[components.ruler.x]\n{WRITER}",
        f"{RULER}[components.ruler.model]\n{TORCH}",
        f"{RULER}x = {LISTED}\n",
        f"{RULER}x = ${{training.x}}\n[training]\n[training.x]\n{READER}",
        f"{SETTINGS % '../x'}../x = {{'factory': 'attribute_ruler'}}\n",
    ],
    ids=["reader", "writer", "torch", "list", "another section", "path"],
)
def test_pipelines_that_call_functions_or_leave_the_folder_are_rejected(
    config: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = small_pipeline(tmp_path)
    (path / "config.cfg").write_text(config.replace("'", '"'))
    with pytest.raises(DataError, match=r"small_pipeline was rejected: its config.cfg contains '"):
        Annotator(str(path))
    assert not (tmp_path / "CANARY").exists()


DAMAGES = {
    "config.cfg": [b"", b"[nlp]\n", b"\xff", b"[nlp]\nlang = 5\npipeline = 3\n[components]\n"],
    "meta.json": [b"", b"[]", b"\xff"],
    "tokenizer": [b"", b"\xc1", b"\x81\xa1a"],
    "vocab/strings.json": [b"{", b"\xff"],
    "vocab/lookups.bin": [b"\xc1"],
    "attribute_ruler/patterns": [b"\xc1", b"\x93\x01\x02\x03"],
}


@pytest.mark.parametrize(
    ("name", "content"), [(name, content) for name in DAMAGES for content in DAMAGES[name]]
)
def test_damaged_pipelines_are_reported_in_one_line(
    name: str, content: bytes, tmp_path: Path
) -> None:
    path = small_pipeline(tmp_path)
    (path / name).write_bytes(content)
    with pytest.raises(DataError, match="small_pipeline") as caught:
        Annotator(str(path))
    assert "\n" not in str(caught.value)


def test_pickles_in_arrays_are_not_loaded(tmp_path: Path) -> None:
    msgpack: Any = import_module("srsly.msgpack")

    class Canary:
        def __reduce__(self) -> Any:
            return open, (str(tmp_path / "CANARY"), "w")

    data = pickle.dumps(Canary())
    array = {b"nd": True, b"type": "|O", b"kind": b"O", b"shape": (1,), b"data": data}
    path = small_pipeline(tmp_path)
    (path / "attribute_ruler/patterns").write_bytes(msgpack.packb(array, use_bin_type=True))
    (path / "vocab/vectors").write_bytes(b"\x93NUMPY\x01\x00")
    np.save(path / "vocab/vectors.npy", np.array([Canary()], dtype=object), allow_pickle=True)
    (path / "vocab/vectors.npy").replace(path / "vocab/vectors")
    with pytest.raises(DataError, match="small_pipeline"):
        Annotator(str(path))
    assert not (tmp_path / "CANARY").exists()


def test_pipelines_without_known_tags_are_reported(tmp_path: Path) -> None:
    pipeline = spacy.load(small_pipeline(tmp_path))
    ruler: Any = pipeline.get_pipe("attribute_ruler")
    ruler.add([[{"LOWER": "sits"}]], {"TAG": "FOO"})
    pipeline.to_disk(tmp_path / "other")
    with pytest.raises(DataError, match="FOO"):
        Annotator(str(tmp_path / "other")).edits("the cat sit .", "the cat sits .")
    spacy.blank("en").to_disk(tmp_path / "blank")
    with pytest.raises(DataError, match="blank contains no component that sets TAG"):
        Annotator(str(tmp_path / "blank"))


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
