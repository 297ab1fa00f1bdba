"""Plans for large corpora, and the page that shows them."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairseq_ssl.cli.main import COMMANDS, command_parser
from tests.conftest import ROOT, Run
from tests.recipes.recipe import script

SCRIPT = ROOT / "examples/common/scale_plan.py"


def test_a_plan_is_proportional_to_pairs_and_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cost = {"line_bytes": 50.0, "seconds": 36.0, "memory": 512, "temporary": 20.0, "output": 60.0}
    costs = tmp_path / "costs.json"
    costs.write_text(json.dumps({"count": {"command": "count", "part": 64, **cost}}))
    words = ["--pairs", "2e9", "--line-bytes", "100", "--cores", "4", "--hours", "5"]
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), "count", *words, "--costs", str(costs)])
    script(SCRIPT).main()
    # 72 core-seconds per 10^6 lines are 40 core-hours, of which a machine has 20. A part of 64 MiB
    # has 671,088.64 lines.
    row = capsys.readouterr().out.splitlines()[2]
    assert re.sub(" +", " ", row) == "| count | 72.0 | 512 | 40.0 | 2 | 2 | 40 | 240 | 2,981 |"


def test_measured_costs_of_duplicates(run: Run, tmp_path: Path) -> None:
    for name, word in (("source", "Satz"), ("target", "sentence")):
        (tmp_path / name).write_text("".join(f"{word} {number}\n" for number in range(40)))
    costs = tmp_path / "costs.json"
    sides = ["--measure", tmp_path / "source", tmp_path / "target"]
    run(sys.executable, SCRIPT, "duplicates", *sides, "--lines", "400000", "--costs", costs)
    cost = json.loads(costs.read_text())["duplicates"]
    # The first 40 lines have no running number. The running number has ten characters.
    size = sum(len(f"Satz {number % 40}\n") + 10 * (number >= 40) for number in range(400000))
    assert cost["line_bytes"] == round(size / 400000, 1)
    assert cost["lines"] == 400000
    assert cost["output"] == round(2 * size / 400000 + 4, 1)
    # 20 bytes for each key, and a table of 32 KiB. The files exist while the rows are written: with
    # fewer lines, a busy machine sees none.
    assert 20 <= cost["temporary"] <= 22


def commands(parser: argparse.ArgumentParser, name: str) -> Iterator[tuple[str, set[str]]]:
    """Yield the name and the options of each command or subcommand."""
    subcommands = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
    if not subcommands:
        yield name, {flag for action in parser._actions for flag in action.option_strings}
    for action in subcommands:
        for subcommand, child in action.choices.items():
            yield from commands(child, f"{name} {subcommand}")


def test_the_page_lists_the_ways_to_run_each_command() -> None:
    expected = {}
    for command in COMMANDS:
        for name, flags in commands(command_parser(command), command):
            ways = [flag in flags for flag in ("--jobs", "--shard", "--executor")]
            if any(ways):
                expected[name] = [{True: "yes", False: "no"}[way] for way in ways]
    page = (ROOT / "docs/guides/scale.md").read_text("utf-8")
    table = page.partition("\n## Commands and ways to run\n")[2].partition("\n\nWith `--shard`")[0]
    rows = re.findall(r"^\| `([\w -]+)` \| (\w+) \| (\w+) \| (\w+) \|", table, re.MULTILINE)
    assert {name: ways for name, *ways in rows} == expected
