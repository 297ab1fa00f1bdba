"""Specifications and YAML files of filters; attributes and code of filter objects as parameters."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fairseq_ssl.cli.main import main
from fairseq_ssl.errors import UsageError
from fairseq_ssl.filters import Filter, filter_files
from fairseq_ssl.filters.chain import build_filters, parse_filters, read_filters
from fairseq_ssl.filters.rules import CleanFilter, EncodingFilter, MaxLengthFilter, Row
from tests.conftest import environment


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
    assert chain.names[2:] == ("encoding:twice=true", "duplicates:by=target"), "always the last"
    assert chain.source_digests == {}
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
        self.words = {"words": set(words)}
        self.other = object()

    def score(self, rows: Sequence[Row]) -> list[bool]:
        """Return True for listed lines."""
        return [row[0] in self.words["words"] for row in rows]

    def accept(self, score: bool) -> bool:
        """Return the score."""
        return score


def test_attributes_of_filter_objects_are_parameters(tmp_path: Path) -> None:
    source, output = [tmp_path / "s"], [tmp_path / "x"]
    source[0].write_text("a\nb\nc\n")
    words = [chr(code) for code in range(ord("b"), ord("z"))]
    assert filter_files(source, output, [Listed(*words)])
    assert filter_files(source, output, [Listed(*reversed(words))]) is None
    with pytest.raises(UsageError, match="not an output of this job"):
        filter_files(source, output, [Listed("a")])
    assert output[0].read_text() == "b\nc\n"


@dataclass
class Numbers:
    """A value whose repr is shortened."""

    numbers: NDArray[np.float64]


class Plain:
    """A value without a repr."""

    def __init__(self, word: str) -> None:
        self.word = word

    def is_word(self, word: str) -> bool:
        """Return True for the word."""
        return word == self.word


ONE_OF_3000 = np.eye(1, 3000, 1000)[0]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (re.compile("x" * 300 + "a"), re.compile("x" * 300 + "b")),
        (re.compile("a"), re.compile("a", re.IGNORECASE)),
        (Plain("a"), Plain("b")),
        (Plain("a").is_word, Plain("b").is_word),
        (partial(Plain, "a"), partial(Plain, "b")),
        (Numbers(np.zeros(3000)), Numbers(ONE_OF_3000)),
        (deque(["a"]), deque(["b"])),
        (threading.Lock(), Plain("a")),
        (np.zeros(3000), ONE_OF_3000),
        (torch.zeros(3000), torch.tensor(ONE_OF_3000)),
        (ONE_OF_3000, ONE_OF_3000.astype(object)),
        (len, str),
        (main, environment),
    ],
)
def test_states_of_objects_are_parameters(one: Any, other: Any) -> None:
    found = []
    for value in (one, other, one):
        kept = Listed("a")
        kept.words["value"] = value
        found.append(build_filters([kept], 1).object_digests)
    assert found[0] != found[1]
    assert found[0] == found[2]


class Lazy(Filter[bool]):
    """Filter with a model that is loaded at its first use, and that refers to the filter."""

    def __init__(self) -> None:
        self.own = self

    @cached_property
    def model(self) -> list[str]:
        """The words that are kept."""
        return ["a"]

    def score(self, rows: Sequence[Row]) -> list[bool]:
        """Return True for the lines of the model."""
        return [row[0] in self.model for row in rows]

    def accept(self, score: bool) -> bool:
        """Return the score."""
        return score


def test_a_model_that_is_loaded_lazily_is_no_parameter(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("a\nb\n")
    lazy = Lazy()
    assert filter_files([tmp_path / "s"], [tmp_path / "x"], [lazy])
    assert "model" in vars(lazy)
    assert filter_files([tmp_path / "s"], [tmp_path / "x"], [lazy]) is None


def test_digests_are_equal_in_all_processes() -> None:
    code = (
        "from fairseq_ssl.filters.chain import _digest, _stable_repr\n"
        "words = {'a', 'b', 'c', 'd', 'e'}\n"
        "print(_digest(_stable_repr([dict.fromkeys(words, 1), words, [print]], {})))"
    )
    environments = ({**os.environ, "PYTHONHASHSEED": seed} for seed in "123")
    found = {subprocess.check_output([sys.executable, "-c", code], env=one) for one in environments}
    assert len(found) == 1


CELL = """
from functools import cache
from fairseq_ssl.filters import Filter
limit = 2
@cache
def is_long(count):
    return any(count > one for one in [limit])
class Long(Filter):
    minimum = 0
    def score(self, rows):
        return [len(row[0].split()) for row in rows]
    def accept(self, count):
        return is_long(count) and count > self.least
    @property
    def least(self):
        return Long.minimum + 0
"""
EDITS = [("count > one", "count < one"), ("limit = 2", "limit = 3"), ("+ 0", "+ 9")]
EDITS += [("minimum = 0", "minimum = 9"), ("and count >", "and count <")]


@pytest.mark.parametrize("edit", EDITS)
def test_code_of_classes_without_a_file_is_a_parameter(
    edit: tuple[str, str], tmp_path: Path
) -> None:
    def run(cell: str) -> bool:
        names: dict[str, Any] = {"__name__": "notebook"}
        exec(cell, names)
        return filter_files([tmp_path / "s"], [tmp_path / "x"], [names["Long"]()]) is not None

    (tmp_path / "s").write_text("a b c\na\n")
    assert run(CELL)
    assert not run(CELL)
    assert (tmp_path / "x").read_text() == "a b c\n"
    with pytest.raises(UsageError, match="not an output of this job"):
        run(CELL.replace(*edit))
