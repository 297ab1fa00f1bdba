"""Specifications and YAML files of filters, and filter objects."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest

from fairseq_ssl.errors import UsageError
from fairseq_ssl.filters import Filter, filter_files
from fairseq_ssl.filters.chain import build_filters, parse_filters, read_filters
from fairseq_ssl.filters.rules import CleanFilter, EncodingFilter, MaxLengthFilter, Row


def test_specifications_are_parsed_in_order() -> None:
    words = "duplicates:by=target,clean:max=100:ratio=2,max-length:source-unit=characters,encoding"
    chain = build_filters(parse_filters(words), 2)
    assert chain.filters == (
        CleanFilter(max=100, ratio=2.0),
        MaxLengthFilter(source_unit="characters"),
        EncodingFilter(),
    )
    assert chain.duplicates is not None
    assert chain.duplicates.by == "target"
    assert chain.accepts_any_bytes
    assert chain.names[0] == "clean:min=1:max=100:ratio=2.0:max-word-length=1000"
    assert chain.names[2:] == ("encoding:twice=true", "duplicates:by=target:near=0.0"), (
        "always the last"
    )
    assert chain.sources == {}
    assert str(parse_filters("langid:target=en")[0]) == "langid:target=en"


@pytest.mark.parametrize(
    ("words", "culprit"),
    [
        ("cleen:max=3", "cleen"),
        ("clean:maxx=3", "maxx"),
        ("clean:max=2.5", "clean:max=2.5"),
        ("encoding:twice=maybe", "twice"),
        ("max-length:source-unit=word", "word"),
        ("duplicates,duplicates:by=source", "duplicates"),
        ("clean:sides=1", "sides"),
        ("langid:source=eng", "'eng'"),
        ("langid:source=en:candidates=en+xx", "'xx'"),
        ("langid:source=en:target=de:candidates=en+fr", "'de'"),
    ],
)
def test_wrong_specifications_name_the_culprit(words: str, culprit: str) -> None:
    with pytest.raises(UsageError, match=culprit):
        build_filters(parse_filters(words), 2)


def test_yaml_equals_specification(tmp_path: Path) -> None:
    path = tmp_path / "filters.yaml"
    path.write_text(
        "filters:\n"
        "  - langid: {source: en, target: 'no', candidates: [en, 'no', da]}\n"
        "  - clean: {max: 100, ratio: 2, max-word-length: 30}\n"
        "  - identical: {ignore-case: true}\n"
        "  - encoding:\n"
        "  - duplicates\n"
        "  - max-length:source=3\n"
    )
    words = (
        "langid:source=en:target=no:candidates=en+no+da,clean:max=100:ratio=2:max-word-length=30,"
        "identical:ignore-case=true,encoding,duplicates,max-length:source=3"
    )
    assert list(map(str, read_filters(path))) == list(map(str, parse_filters(words)))
    assert read_filters(path) == parse_filters(words)


@pytest.mark.parametrize(
    ("content", "culprit"),
    [
        ("- clean", "'filters'"),
        ("filters: []", "filters"),
        ("filters: [clean]\nfilter: [x]", "'filter'"),
        ("filters: [3]", "3"),
        ("filters: [{cleen: {}}]", "f.yaml: There is no filter 'cleen'"),
        ("filters: [{clean: {maxx: 3}}]", "'maxx'"),
        ("filters: [{clean: {max: true}}]", "True"),
        ("filters: [{langid: {source: no}}]", "False"),
        ("filters: [{langid: {candidates: [1]}}]", "1"),
        ("- " * 20, "'filters'"),
    ],
)
def test_wrong_yaml_files_name_the_culprit(tmp_path: Path, content: str, culprit: str) -> None:
    path = tmp_path / "f.yaml"
    path.write_text(content)
    with pytest.raises(UsageError, match=culprit):
        read_filters(path)


class Listed(Filter[bool]):
    """Keep listed lines."""

    def __init__(self, *words: str) -> None:
        self.words = words

    def score(self, rows: Sequence[Row]) -> list[bool]:
        """Return True for listed lines."""
        return [row[0] in self.words for row in rows]

    def accept(self, score: bool) -> bool:
        """Return the score."""
        return score


def test_jobs_with_filter_objects_start_anew(tmp_path: Path) -> None:
    source, output = [tmp_path / "s"], [tmp_path / "x"]
    source[0].write_text("a\nb\nc\n")
    assert filter_files(source, output, [Listed("b", "c")])
    for words in (("b", "c"), ("a",)):
        with pytest.raises(UsageError, match="not an output of this job"):
            filter_files(source, output, [Listed(*words)])
    assert output[0].read_text() == "b\nc\n"
    assert filter_files(source, output, [Listed("a")], overwrite=True)
    assert output[0].read_text() == "a\n"


def test_objects_of_built_in_filters_have_no_source(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("a\nb c\n")
    assert filter_files([tmp_path / "s"], [tmp_path / "x"], [CleanFilter(max=1)])
    assert filter_files([tmp_path / "s"], [tmp_path / "x"], [CleanFilter(max=1)]) is None


def test_a_class_without_a_file_has_a_new_source_in_each_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = ModuleType("typed_in")
    module.Listed = type("Listed", (Listed,), {"__module__": "typed_in"})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "typed_in", module)
    first, second = (build_filters("typed_in:Listed", 1).sources for _ in range(2))
    assert first.keys() == second.keys() == {"typed_in:Listed"}
    assert first != second
