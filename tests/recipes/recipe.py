"""Helpers for tests of recipes: run a step, or list its commands."""

from __future__ import annotations

import importlib.util
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType

from tests.conftest import environment


def script(path: Path) -> ModuleType:
    """Import a script of a recipe."""
    spec = importlib.util.spec_from_file_location(f"recipe_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def step(path: Path, settings: dict[str, str], code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        ["bash", str(path)],
        env=environment(**settings),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, f"{path.name}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done


def printed(recipe: Path, name: str, settings: dict[str, str]) -> list[list[str]]:
    """Return the commands of a step, each as a list of words, by a dry run."""
    (path,) = recipe.glob(f"?_{name}.sh")
    shown = step(path, {"DRY_RUN": "1", "DATA_DIR": "/data", **settings}).stdout
    lines = [line.partition(" > ")[0] for line in shown.splitlines()]
    return [shlex.split(line) for line in lines if not line.startswith("#")]


def called(commands: list[list[str]], program: str) -> list[list[str]]:
    return [command[1:] for command in commands if command[0] == program]


def stops_for(path: Path, settings: dict[str, str], name: str, value: str) -> None:
    """Assert that a step rejects a target built with another value of a setting and names it."""
    shown = step(path, {**settings, name: value}, 2).stderr
    assert f"  {name} was '" in shown, shown
    assert f"', is '{value}'" in shown, shown
    assert "FORCE=1" in shown


def said(commands: list[list[str]], verb: str) -> list[str]:
    """Return the commands `fairseq-ssl VERB ...`, one line each."""
    return [" ".join(words) for words in called(commands, "fairseq-ssl") if words[0] == verb]
