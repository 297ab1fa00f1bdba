"""Parsing of filter specifications and YAML files, and their errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairseq_ssl.errors import UsageError
from fairseq_ssl.filters.chain import (
    build_filters,
    parse_filters,
    read_filters,
)
from fairseq_ssl.filters.rules import CleanFilter, EncodingFilter, MaxLengthFilter


def test_specifications_are_parsed_in_order() -> None:
    chain = build_filters(
        parse_filters("clean:max=100:ratio=2,max-length:source-unit=characters,encoding"), 2
    )
    assert chain.filters == (
        CleanFilter(max=100, ratio=2.0),
        MaxLengthFilter(source_unit="characters"),
        EncodingFilter(),
    )
    assert chain.duplicates is None
    assert chain.accepts_any_bytes
    assert chain.names[0] == "clean:min=1:max=100:ratio=2.0:max-word-length=1000"
    assert chain.names[2] == "encoding:twice=true"
    assert chain.source_digests == {}
    assert str(parse_filters("langid:target=en")[0]) == "langid:target=en"


def test_duplicates_filter_is_last() -> None:
    chain = build_filters(parse_filters("duplicates:by=target,clean,encoding:twice=false"), 2)
    assert [name.partition(":")[0] for name in chain.names] == ["clean", "encoding", "duplicates"]
    assert chain.duplicates is not None
    assert chain.duplicates.by == "target"
    assert len(chain.filters) == 2


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
