"""The style checker finds each kind of fault and accepts plain text."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from tests.conftest import ROOT


@pytest.fixture
def prose(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "scripts")
    return importlib.import_module("prose")


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        ('"""Return how many there are."""', "docstring opens with Return how"),
        ('def read_lines(): """Read the lines."""', "docstring repeats the name"),
        ("# fairseq can not read it", "not 'can not' but cannot"),
        ("raise UsageError(f'{x} is no number of {y}.')", "not 'is no' but is not a"),
        ("# the valid set is small", "not 'valid set' but validation data, validation set"),
        ("# equal in two trainings", "not 'trainings' but training runs"),
        ("# fairseq trains it, too.", "not 'too' but also"),
        ("# tokenized by Moses", "not 'by Moses' but with"),
        ("# vectors that were trained by fastText", ""),
        ("# a list in the format of Moses", "not 'in the format of Moses' but in X format"),
        ("# as in the thesis", "not 'the thesis' but Kiyono (2022), or nothing"),
        ('"""Return the name of the encoder of a model."""', "two genitives in a row"),
        ('"""Read lines. None: all lines."""', "sentence without a verb"),
        ("add('--beam', default=5, help='beam size')", "help does not end with (default: X)"),
        ("add('--beam', help='beam size.')", "help ends with a full stop"),
        ("beam: int = option(5, 'beam size.', low=1)", "help ends with a full stop"),
    ],
)
def test_python(prose: Any, code: str, rule: str) -> None:
    rules = [
        finding[1]
        for text in prose.python_texts(f"x = 1\n{code}\n" if code[0] != '"' else code)
        for finding in prose.check_text(text)
    ]
    assert len(rules) == bool(rule)
    assert all(found.startswith(rule) for found in rules)


def test_markdown_without_code(prose: Any) -> None:
    page = "# Told\n\n```\nmend the ends\n```\n\nSee `told` and [here](mend),\nthen go on.\n"
    findings = [found for text in prose.page_texts(page) for found in prose.check_text(text)]
    assert [(line, rule.split(" but")[0]) for line, rule, _ in findings] == [
        (1, "not 'Told'"),
        (8, "not 'go on'"),
    ]


def test_shell(prose: Any) -> None:
    script = "#!/bin/bash\n# Killed, it goes on.\ntold=$#\necho 'it can not be read'  # plain\n"
    texts = list(prose.shell_texts(script))
    assert [text.line for text in texts] == [2, 4, 4]
    assert [line for text in texts for line, *_ in prose.check_text(text)] == [2, 4]
