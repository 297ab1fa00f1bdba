"""Parsing of filter specifications and YAML files, and their errors."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fairseq_ssl.errors import DataError, FairseqSslError, MissingPackageError, UsageError
from fairseq_ssl.filters.chain import (
    FILTERS,
    build_filters,
    describe_filters,
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


@pytest.mark.parametrize("words", ["clean", "clean:max=7", "max-length:target=3", "duplicates"])
def test_filter_names_can_be_parsed(words: str) -> None:
    [name] = build_filters(parse_filters(words), 2).names
    assert build_filters(parse_filters(name), 2) == build_filters(parse_filters(words), 2)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("cleen", f"no filter 'cleen'. Did you mean 'clean'[?] Filters: {', '.join(FILTERS)}."),
        ("cleen:max=3", "no filter 'cleen'. Did you mean 'clean'[?]"),
        ("", "There is no filter ''"),
        ("clean:maxx=3", "no option 'maxx'. Did you mean 'max'[?] It has: min, max, ratio, max-w"),
        ("clean:max=many", "clean:max=many has an invalid value; expected a value such as max=250"),
        ("clean:max=2.5", "a value such as max=250"),
        ("encoding:twice=maybe", "expected true or false"),
        ("max-length:source-unit=word", "unit 'word'"),
        ("duplicates,duplicates:by=source", "listed twice"),
        ("clean:sides=1", "no option 'sides'"),
    ],
)
def test_invalid_specifications_are_rejected(words: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        build_filters(parse_filters(words), 2)


def test_help_lists_all_filters_and_options() -> None:
    shown = describe_filters()
    for words in (*(f"  {kind} " for kind in FILTERS), "max=250: ", "max-word-length=", "by=pair"):
        assert words in shown


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
    ("content", "error", "message"),
    [
        ("", UsageError, "has no key 'filters'"),
        ("- clean", UsageError, "has no key 'filters'"),
        ("filters: clean", UsageError, "is not a list"),
        ("filters: []", UsageError, "is not a list"),
        ("filters: [clean]\nfilter: [x]", UsageError, "unknown key 'filter'. Did you mean"),
        ("filters: [3]", UsageError, "3 is not a filter"),
        ("filters: [{clean: {}, encoding: {}}]", UsageError, "is not a filter"),
        ("filters: [{cleen: {}}]", UsageError, "f.yaml: There is no filter 'cleen'. Did you"),
        ("filters: [cleen]", UsageError, "f.yaml: There is no filter 'cleen'. Did you"),
        ("filters: [{clean: 3}]", UsageError, "3 are not options"),
        ("filters: [{clean: {maxx: 3}}]", UsageError, "Did you mean 'max'"),
        ("filters: [{clean: {max: many}}]", UsageError, "'many'. Expected an integer"),
        ("filters: [{clean: {max: 2.5}}]", UsageError, "2.5. Expected an integer"),
        ("filters: [{clean: {max: true}}]", UsageError, "True. Expected an integer"),
        ("filters: [{clean: {ratio: true}}]", UsageError, "True. Expected a number"),
        ("filters: [{identical: {ignore-case: 1}}]", UsageError, "1. Expected true or false"),
        ("filters: [{langid: {source: no}}]", UsageError, "False. Expected a string. Quote words"),
        ("filters: [{langid: {candidates: [1]}}]", UsageError, "Expected a string"),
        ("a: b: c\n", DataError, "f.yaml:1 is not valid YAML: mapping values"),
        ("filters: [\n", DataError, "is not valid YAML"),
        ("\0", DataError, "is not valid YAML: "),
        ("filters: [2001-13-45]", DataError, "is not valid YAML: month must be in"),
        pytest.param(
            "filters: " + "9" * 5000, DataError, "is not valid YAML: Exceeds", id="digits"
        ),
        pytest.param(
            "- " * 5000, DataError, "is not valid YAML: it is nested too deeply", id="depth"
        ),
        pytest.param(
            "- " * 21, DataError, "is not valid YAML: it is nested too deeply", id="21 levels"
        ),
        pytest.param("- " * 20, UsageError, "has no key 'filters'", id="20 levels"),
        ("filters: [&a clean, *a]", DataError, "is not valid YAML: aliases, such as"),
    ],
)
def test_invalid_yaml_files_are_rejected(
    tmp_path: Path, content: str, error: type[FairseqSslError], message: str
) -> None:
    path = tmp_path / "f.yaml"
    path.write_text(content)
    with pytest.raises(error, match=message):
        read_filters(path)


def test_missing_file_and_missing_package_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DataError, match="does not exist"):
        read_filters(tmp_path / "gone.yaml")
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(MissingPackageError, match=r"fairseq-ssl\[wmt\]"):
        read_filters(tmp_path / "gone.yaml")


@pytest.mark.parametrize("item", ["clean", CleanFilter, None])
def test_an_item_that_is_not_a_filter(item: object) -> None:
    with pytest.raises(TypeError, match="in the list of filters is a"):
        build_filters([item], 1)  # type: ignore[list-item]


def test_yaml_errors_have_one_line(tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_bytes(b"\xff\n")
    with pytest.raises(DataError) as error:
        read_filters(tmp_path / "f.yaml")
    assert "\n" not in str(error.value)
