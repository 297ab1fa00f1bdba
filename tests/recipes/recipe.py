"""Helpers for tests of recipes: run a step, or list its commands."""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import fairseq_ssl
from tests.conftest import environment


def script(path: Path) -> ModuleType:
    """Import a script of a recipe. It can import other scripts of its folder."""
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
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


def lines(path: Path) -> list[str]:
    return path.read_text("utf-8").splitlines()


def put(path: Path, *content: str) -> None:
    """Write lines to a file in a new folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in content), "utf-8")


def called(commands: list[list[str]], program: str) -> list[list[str]]:
    return [command[1:] for command in commands if command[0] == program]


def trained(commands: list[list[str]]) -> list[Any]:
    """Return the options of each call of fairseq-train."""
    return [parsed("training", words) for words in called(commands, "fairseq-train")]


def decoded(commands: list[list[str]]) -> list[Any]:
    """Return the options of each call of fairseq-generate."""
    return [parsed("generation", words) for words in called(commands, "fairseq-generate")]


def parsed(kind: str, words: list[str]) -> Any:
    """Parse the arguments of a command of fairseq."""
    fairseq_ssl.register()
    from fairseq import options

    parser = getattr(options, f"get_{kind}_parser")()
    if kind == "preprocessing":
        return parser.parse_args(words)
    return options.parse_args_and_arch(parser, words)


def are_reused(steps: list[Path], settings: dict[str, str], changes: str = "") -> None:
    """Assert that steps build nothing when they run again, and stop for a changed setting.

    Changes are numbers of steps, each with a setting and its other value: "1 LIMIT=3, 2 LR=0.1".
    """
    for path in steps:
        lines = step(path, settings).stderr.splitlines()
        done = [line for line in lines if not line.startswith("==>")]
        assert done, path
        assert all(line.startswith("up to date: ") for line in done), done
    for number, name, value in re.findall(r"(\d) (\w+)=([^,]+)", changes):
        (path,) = steps[0].parent.glob(f"{number}_*.sh")
        shown = step(path, {**settings, name: value}, 2).stderr
        assert f"  {name} was '" in shown, shown
        assert f"', is '{value}'" in shown, shown
        assert "FORCE=1" in shown


def said(commands: list[list[str]], command: str) -> list[str]:
    """Return the commands `fairseq-ssl COMMAND ...`, one line each."""
    return [" ".join(words) for words in called(commands, "fairseq-ssl") if words[0] == command]
