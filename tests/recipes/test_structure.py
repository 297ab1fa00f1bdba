"""The checks of the structure find what they are for."""

from __future__ import annotations

import ast

import pytest

from scripts import structure


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
def test_use_of_the_command_line(code: str, problem: str) -> None:
    found = [structure.command_line_use(node) for node in ast.walk(ast.parse(code))]
    assert list(filter(None, found)) == ([problem] if problem else [])


def test_classes_and_aliases_count_as_names() -> None:
    code = "class Noise: ...\nPair = tuple[str, str]\nT = TypeVar('T')\nItem = TypeVar('Item')\nMAX = 1\n"
    assert list(structure.public_types(ast.parse(code))) == ["Noise", "Pair"]
