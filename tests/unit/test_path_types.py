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
from fairseq_ssl import analysis, checkpoints, edits, filters, inference, noise, report, rerank
from fairseq_ssl.learned_filter import FeatureExtractor, score_pairs
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


def calls(path: Any) -> dict[str, Callable[[], object]]:
    """Calls with one path in place of a list of paths, by name of the function."""
    metric, models = Accuracy([["a"]]), {"one": path, "two": path}
    return {
        "analysis.score_by_length": lambda: analysis.score_by_length(models, "data"),
        "checkpoints.average": lambda: checkpoints.average(path),
        "filters.filter_files": lambda: filters.filter_files(path, ["a"], "clean"),
        "inference.CorrectionConfig": lambda: inference.CorrectionConfig(path),
        "inference.DecodingConfig": lambda: inference.DecodingConfig(path),
        "inference.ScoringConfig": lambda: inference.ScoringConfig("translation", path),
        "learned_filter.FeatureExtractor": lambda: FeatureExtractor(vectors=path),
        "learned_filter.score_pairs": lambda: score_pairs("filter", path, "out"),
        "metrics.score_systems": lambda: score_systems(metric, {"ours": path}),
        "report.Comparison": lambda: report.Comparison(references=path),
        "report.collect_files": lambda: report.collect_files(path),
        "rerank.train_vectors": lambda: rerank.train_vectors(path, "out.vec"),
    }


@pytest.mark.parametrize("path", ["ab", Path("ab")], ids=["string", "Path"])
@pytest.mark.parametrize("name", calls(""))
def test_one_path_in_place_of_a_list_is_a_type_error(name: str, path: Any) -> None:
    with pytest.raises(TypeError, match="'ab'"):
        calls(path)[name]()


def text_tools(path: Callable[[str], Any]) -> list[Any]:
    """Return the results of functions that write files. `path` returns a string or a `Path`."""
    resources = noise.NoiseResources(counts=path("dict"), confusion_sets=path("sets"))
    source, target, dictionary = path("source"), path("target"), path("edits")
    return [
        noise.noise_file(source, path("noisy.gz"), "direct,confusion", resources=resources),
        edits.build_dictionary_file(
            source, target, dictionary, edits.EditDictionaryConfig(transforms=path("suffixes"))
        ),
        edits.label_file(source, target, path("labels"), dictionary),
        filters.filter_files([source], [path("kept")], filters.read_filters(path("filters.yaml"))),
        score_systems(Accuracy([["he goes"]]), {"ours": [source]}, [target]).values(),
        rerank.read_weights(path("weights")),
    ]


def test_strings_and_paths_have_the_same_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    files = {"source": "he go\n", "target": "he goes\n", "dict": "he 2\n", "sets": "go\tgot\n"}
    files |= {"suffixes": "go\tgoes\n", "weights": '{"weights": {"s": 0.5}}'}
    for name, content in {**files, "filters.yaml": "filters: [{clean: {max: 4}}]"}.items():
        Path(name).write_text(content)
    found = []
    for path in (str, Path, lambda name: f"./{name}"):
        results = repr(text_tools(path))
        new = sorted({one.name for one in tmp_path.iterdir()} - {*files, "filters.yaml"})
        found.append((results, [(name, Path(name).read_bytes()) for name in new]))
        for name in new:
            Path(name).unlink()
    assert found[0] == found[1] == found[2]
