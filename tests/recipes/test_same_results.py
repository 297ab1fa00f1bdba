"""Comparison of two versions: every command is run, and a difference is found."""

from __future__ import annotations

import runpy
from pathlib import Path

from fairseq_ssl.cli.main import COMMANDS, command_parser
from tests.conftest import ROOT

SCRIPT = runpy.run_path(str(ROOT / "scripts/same_results.py"))


def test_every_command_but_serve_is_compared() -> None:
    table = SCRIPT["read_table"](SCRIPT["TABLE"].read_text())
    commands = [SCRIPT["renamed"](new, table.moved) for _, new in table.commands.values()]
    lines = "\n".join(f"{command} " for command in commands)
    for command in {*COMMANDS} - {"serve"}:
        subcommands = [
            action.choices
            for action in command_parser(command)._actions
            if action.dest == "subcommand"
        ]
        for subcommand in subcommands[0] or () if subcommands else [""]:
            assert f"fairseq-ssl {command} {subcommand}".rstrip() + " " in lines


def test_differences_are_found_whatever_the_paths_speeds_and_new_names(tmp_path: Path) -> None:
    versions = [SCRIPT["Version"](tmp_path / f"{side}-tree", tmp_path / side) for side in "ab"]
    for (tree, folder), name, speed in zip(versions, ("m2", "edits m2"), (1, 20.5), strict=True):
        (folder / "m2-a").mkdir(parents=True)
        (folder / "m2-a/stderr").write_text(f"fairseq-ssl {name}: {tree} in {speed} s")
        (folder / "m2-a/out").write_text(f"{speed} s")
    found = list(SCRIPT["differences"](versions, {"edits m2": "m2"}))
    assert found == [("m2-a/out", "-1 s\n+20.5 s\n(2 lines)")]
