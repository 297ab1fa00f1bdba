"""Checks of the structure: use of the command line, names."""

from __future__ import annotations

import ast
import importlib
from typing import Any

import pytest

from tests.conftest import ROOT


@pytest.fixture
def structure(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "scripts")
    return importlib.import_module("structure")


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("import argparse", "imports argparse"),
        ("print('done')", "prints"),
        ("sys.stderr.write('done')", "uses sys.stderr"),
        ("raise UsageError('Pass --force.')", "mentions --force"),
        ("raise UsageError('Set `overwrite`.')", ""),
        ("a_b = x --y", ""),
    ],
)
def test_use_of_the_command_line(structure: Any, code: str, problem: str) -> None:
    found = [structure.command_line_use(node) for node in ast.walk(ast.parse(code))]
    assert list(filter(None, found)) == ([problem] if problem else [])


def test_classes_and_aliases_count_as_names(structure: Any) -> None:
    code = "class Noise: ...\nPair = tuple[str, str]\nItem = TypeVar('Item')\nMAX_ITEMS = 1\n"
    assert list(structure.public_types(ast.parse(code))) == ["Noise", "Pair"]


def test_a_budget_is_not_exceeded_and_falls(structure: Any) -> None:
    budget = {"a": 110, "b": 110, "c": 110, "gone": 10}
    problems = structure.budget_problems({"a": 111, "b": 101, "c": 40, "new": 1}, budget)
    assert [problem.partition(" ")[0] for problem in problems] == ["a", "c", "new"]
