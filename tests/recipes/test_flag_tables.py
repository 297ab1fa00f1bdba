"""Pages of the recipes: each names its paper and has a table of existing flags."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from functools import cache
from itertools import zip_longest
from pathlib import Path

import pytest

import fairseq_ssl
from fairseq_ssl.cli.main import COMMANDS, command_parser
from tests.conftest import ROOT
from tests.plugin.test_flags import ARCHS, CRITERIONS, TASKS

fairseq_ssl.register()
from fairseq import options  # noqa: E402

PAGES = sorted(ROOT.glob("examples/*/README.md"))
FLAG = re.compile(r"--[a-z][a-z0-9-]+")


@cache
def known() -> set[str]:
    """Return all flags of `fairseq-ssl` and of fairseq's commands with the plug-in."""
    parsers: list[argparse.ArgumentParser] = [options.get_generation_parser()]
    for task, arch, criterion in zip_longest(TASKS, ARCHS, CRITERIONS):
        words = ["--task", task or TASKS[0], "--arch", arch or ARCHS[0]]
        words += ["--criterion", criterion or CRITERIONS[0]]
        parsers.append(options.get_training_parser(task or TASKS[0]))
        options.parse_args_and_arch(parsers[-1], ["data-bin", *words])
    parsers += map(command_parser, COMMANDS)
    return {flag for parser in parsers for flag in flags_of(parser)}


def flags_of(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        yield from action.option_strings
        if isinstance(action, argparse._SubParsersAction):
            for subcommand in action.choices.values():
                yield from flags_of(subcommand)


def flags_section(page: Path) -> str:
    text = page.read_text(encoding="utf-8")
    return text.partition("\n## Flags\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
def test_each_page_has_a_table_of_existing_flags(page: Path) -> None:
    rows = [line for line in flags_section(page).splitlines() if line.startswith("| `")]
    assert len(rows) > 4
    named = {flag for row in rows for flag in FLAG.findall(row)}
    assert named - known() == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
def test_each_page_starts_with_its_paper(page: Path) -> None:
    begins = page.read_text(encoding="utf-8").partition("\n## ")[0]
    assert re.search(r"\]\(https://(arxiv\.org/abs|aclanthology\.org|github\.com)/[^ )]+\)", begins)
