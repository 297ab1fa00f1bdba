"""The public API: few names, documented, with examples that run, light to import."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
import sys
from pathlib import Path

import pytest

from fairseq_ssl.metrics.metric import Metric
from tests.conftest import ROOT, run_command

LIGHT = ("noise", "filters", "edits", "metrics", "rerank", "report", "text")
"""Packages that need neither torch nor fairseq."""
HEAVY = ("inference", "checkpoints", "analysis")
LAZY = ("analysis", "checkpoints", "inference", "metrics", "text")
"""Packages that import the modules of their names on first use."""


def is_metric(value: object) -> bool:
    """Return True for the class of a metric. Metrics do not count as names to learn."""
    return inspect.isclass(value) and issubclass(value, Metric)


@pytest.mark.parametrize("name", [*LIGHT, *HEAVY])
def test_a_package_exports_few_documented_names(name: str) -> None:
    package = importlib.import_module(f"fairseq_ssl.{name}")
    names = package.__all__
    assert 3 <= sum(not is_metric(getattr(package, one)) for one in names) <= 12
    assert len(set(names)) == len(names)
    for one in names:
        value = getattr(package, one)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert value.__doc__, one
    assert ">>> " in (package.__doc__ or ""), f"the docstring of {name} has no example"


@pytest.mark.parametrize("name", LAZY)
def test_other_names_raise_an_error(name: str) -> None:
    package = importlib.import_module(f"fairseq_ssl.{name}")
    with pytest.raises(AttributeError, match="no attribute 'missing'"):
        package.missing  # noqa: B018


@pytest.mark.parametrize("name", [*LIGHT, *HEAVY])
def test_examples_of_docstrings_run(name: str) -> None:
    package = importlib.import_module(f"fairseq_ssl.{name}")
    modules = {package}
    for one in package.__all__:
        module = sys.modules.get(getattr(getattr(package, one), "__module__", ""))
        if module is not None and module.__name__.startswith("fairseq_ssl"):
            modules.add(module)
    results = [doctest.testmod(module) for module in modules]
    assert sum(result.attempted for result in results) > 0
    assert not any(result.failed for result in results)


def test_importing_text_tools_imports_no_large_package() -> None:
    """Nor do readers of vocabularies: a recipe splits text in many short processes."""
    names = (*LIGHT, "checkpoints", "checkpoints.hugging_face")
    code = "import sys\n" + "".join(f"import fairseq_ssl.{name}\n" for name in names)
    code += (
        "assert not {'torch', 'fairseq', 'transformers', 'spacy', 'sacrebleu'} & set(sys.modules)"
    )
    run_command(sys.executable, "-c", code)


def sections() -> dict[str, str]:
    """The examples of each section of the API page."""
    page = (ROOT / "docs/api.md").read_text(encoding="utf-8")
    parts = (part.partition("\n") for part in re.split(r"^## ", page, flags=re.M)[1:])
    return {
        title: "\n".join(re.findall(r"```python\n(.*?)```", body, re.S)) for title, _, body in parts
    }


@pytest.mark.parametrize("name", ["Paths", "Files of any size", *LIGHT, *HEAVY])
def test_the_examples_of_the_api_page_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if name in HEAVY:
        from tests.unit.inference import random_models

        data = random_models.data_folder(tmp_path / "data-bin")
        for seed, checkpoint in enumerate(("checkpoint1.pt", "checkpoint2.pt"), 1):
            random_models.translation(tmp_path / checkpoint, data, seed)
        for split in ("train", "valid"):
            random_models.binarized_split(data, split, "b a c\nd a\n", "u v\nw x y\n")
    test = doctest.DocTestParser().get_doctest(sections()[name], {}, name, "docs/api.md", 0)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(test)
    assert test.examples
    assert not runner.failures


def test_names_that_pages_import_are_public() -> None:
    """The API page says that other names are internal."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    imports = re.findall(r"^\W*from (fairseq_ssl\.[\w.]+) import ([\w, ]+)$", text, re.MULTILINE)
    assert len(imports) > 20
    for module, names in imports:
        public = importlib.import_module(module).__all__
        assert set(names.split(", ")) <= set(public), module
