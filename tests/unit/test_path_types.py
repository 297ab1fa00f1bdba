"""Types of paths in the public API: each can be a string, and a list of paths is not a string."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
import types
import typing
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

import fairseq_ssl
from fairseq_ssl import analysis, checkpoints, filters, inference, noise, report, rerank
from fairseq_ssl.learned_filter import FeatureExtractor, keep_best, score_pairs, train_filter
from fairseq_ssl.metrics import Accuracy, score_systems

PACKAGES = [
    module.name
    for module in pkgutil.iter_modules(fairseq_ssl.__path__)
    if module.ispkg
    and module.name != "plugin"
    and hasattr(importlib.import_module(f"fairseq_ssl.{module.name}"), "__all__")
]
"""Packages with public names for users."""
RESULTS = ("FilterSummary", "NoiseSummary", "ReportFiles")
"""Dataclasses that functions return. Their paths are `Path` objects."""


def type_hints(value: Any) -> dict[str, Any]:
    """The evaluated annotations. Names that only type checkers import are mocks."""
    unknown: dict[str, Any] = {}
    while True:
        try:
            return typing.get_type_hints(value, localns=unknown)
        except NameError as error:
            unknown[str(error.name)] = MagicMock()


def needs_path(hint: Any) -> bool:
    """Return True if a type has a `Path` that cannot be a string.

    Next to a list of lines, a string could be text, and only a `Path` is a file.
    """
    if hint is Path:
        return True
    parts = typing.get_args(hint)
    is_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    if is_union and (str in parts or Sequence[str] in parts):
        parts = tuple(part for part in parts if part is not Path)
    return any(map(needs_path, parts))


def members(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the functions, methods and dataclasses of an exported name."""
    is_dataclass = dataclasses.is_dataclass(value)
    if not inspect.isclass(value) or is_dataclass:
        yield name, value
    if inspect.isclass(value):
        for key, method in inspect.getmembers(value):
            is_public = not key.startswith("_") or (key == "__init__" and not is_dataclass)
            if is_public and (inspect.isfunction(method) or inspect.ismethod(method)):
                yield f"{name}.{key}", method


@pytest.mark.parametrize("package", PACKAGES)
def test_paths_of_all_parameters_and_fields_can_be_strings(package: str) -> None:
    module = importlib.import_module(f"fairseq_ssl.{package}")
    exported = {name: getattr(module, name) for name in module.__all__ if name not in RESULTS}
    found = [
        (f"{name}: {parameter}", hint)
        for key, value in exported.items()
        for name, member in members(key, value)
        if callable(member)
        for parameter, hint in type_hints(member).items()
        if parameter != "return"
    ]
    assert len(found) > 10
    assert [name for name, hint in found if needs_path(hint)] == []


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        (Path, True),
        (Path | None, True),
        (list[Path], True),
        (tuple[str, Path], True),
        (dict[str, Sequence[Path | None]], True),
        (str | Path, False),
        (Sequence[str | Path] | None, False),
        (Path | Sequence[str], False),
        (str, False),
    ],
)
def test_needs_path(hint: Any, expected: bool) -> None:
    assert needs_path(hint) is expected


def calls(path: Any) -> dict[str, Callable[[], object]]:
    """Calls with one path in place of a list of paths, by name of the argument."""
    pairs: Any = ("a", "b")
    extractor = FeatureExtractor()
    metric = Accuracy([["a"]])
    models = {"one": path, "two": path}
    return {
        "analysis.compare_gold_tokens": lambda: analysis.compare_gold_tokens(models, "data"),
        "analysis.compare_shifted_states": lambda: analysis.compare_shifted_states(models, "data"),
        "analysis.score_by_length": lambda: analysis.score_by_length(models, "data"),
        "analysis.score_swapped": lambda: analysis.score_swapped(models, "data"),
        "analysis.tune_edit_confidence": lambda: analysis.tune_edit_confidence("a", "b", path),
        "checkpoints.average": lambda: checkpoints.average(path),
        "filters.filter_files inputs": lambda: filters.filter_files(path, ["a"], "clean"),
        "filters.filter_files outputs": lambda: filters.filter_files(["a"], path, "clean"),
        "inference.CorrectionConfig": lambda: inference.CorrectionConfig(path),
        "inference.DecodingConfig": lambda: inference.DecodingConfig(path),
        "inference.ScoringConfig": lambda: inference.ScoringConfig("translation", path),
        "learned_filter.FeatureExtractor": lambda: FeatureExtractor(vectors=path),
        "learned_filter.FeatureExtractor subwords": lambda: FeatureExtractor(subwords=path),
        "learned_filter.train_filter": lambda: train_filter(path, pairs, "out", extractor),
        "learned_filter.score_pairs": lambda: score_pairs("filter", path, "out"),
        "learned_filter.keep_best": lambda: keep_best(pairs, "scores", path, 50),
        "metrics.score_systems systems": lambda: score_systems(metric, {"ours": path}),
        "metrics.score_systems baseline": lambda: score_systems(metric, {}, path),
        "report.Comparison": lambda: report.Comparison(references=path),
        "report.collect_files": lambda: report.collect_files(path),
        "report.write_report folders": lambda: report.write_report("out", path),
        "report.write_report systems": lambda: report.write_report("out", systems=models),
        "rerank.train_vectors": lambda: rerank.train_vectors(path, "out.vec"),
    }


@pytest.mark.parametrize("path", ["ab", Path("ab")], ids=["string", "Path"])
@pytest.mark.parametrize("name", calls(""))
def test_one_path_in_place_of_a_list_is_a_type_error(name: str, path: Any) -> None:
    with pytest.raises(TypeError, match=r"Expected a list of paths, not .*'ab'"):
        calls(path)[name]()


def test_an_output_that_is_no_path_and_no_stream_is_a_type_error() -> None:
    output: Any = 3
    writers: list[Callable[[], object]] = [
        lambda: noise.noise_file("none", output, "direct"),
        lambda: filters.filter_files(["none"], output, "clean"),
        lambda: inference.back_translate_file("none", output, inference.DecodingConfig(("m",))),
        lambda: inference.score_nbest_file(
            "none", output, inference.ScoringConfig("masked-model", ("m",))
        ),
        lambda: inference.correct_file("none", output, inference.CorrectionConfig(("m",)), str),
    ]
    for write in writers:
        with pytest.raises(TypeError, match="a path or a binary stream for `output`, not 3"):
            write()
