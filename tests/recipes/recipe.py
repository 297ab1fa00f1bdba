"""Helpers for tests of recipes: run a step, or list its commands."""

from __future__ import annotations

import importlib.util
import os
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


def stub_commands(folder: Path, scripts: dict[str, str]) -> dict[str, str]:
    """Write shell scripts named like commands. Return the setting PATH that finds them first."""
    folder.mkdir()
    for name, text in scripts.items():
        (folder / name).write_text(f"#!/usr/bin/env bash\n{text}\n")
        (folder / name).chmod(0o755)
    return {"PATH": f"{folder}{os.pathsep}{environment()['PATH']}"}


TRAIN_STUB = """
while (($#)); do [[ "$1" == --save-dir ]] && folder="$2"; shift; done
mkdir -p "$folder"
echo trained | tee -a "$folder/checkpoint_last.pt" >>"$folder/checkpoint_best.pt"
"""
"""A fairseq-train that appends a line to its checkpoints."""


def printed(recipe: Path, name: str, settings: dict[str, str]) -> list[list[str]]:
    """Return the commands of a step, each as a list of words, by a dry run."""
    (path,) = recipe.glob(f"?_{name}.sh")
    shown = step(path, {"DRY_RUN": "1", "DATA_DIR": "/data", **settings}).stdout
    lines = [line.partition(" > ")[0] for line in shown.splitlines()]
    return [shlex.split(line) for line in lines if not line.startswith("#")]


def learner_text(folder: Path) -> Path:
    """Write a DATA_DIR like the output of examples/common/learner_text.sh."""
    folder.mkdir()
    names = ("Dog", "Cat", "Man", "Owl")
    wrong = (
        ("The {} bark at {} .", "2 3|||R:VERB:SVA|||barks"),
        ("{} barks at {} .", "0 0|||M:DET|||The"),
        ("The a {} barks at {} .", "1 2|||U:DET|||"),
    )
    for name, count in (("train", 40), ("valid", 4), ("dev", 4)):
        words = [(names[at % 4], at % 7) for at in range(count)]
        cases = [(wrong[at % 3], words[at]) for at in range(count)]
        sources = [source.format(*filled) for (source, _), filled in cases]
        blocks = [
            f"S {source}\nA {edit}|||REQUIRED|||-NONE-|||0\n\n"
            for source, ((_, edit), _) in zip(sources, cases, strict=True)
        ]
        (folder / f"{name}.m2").write_text("".join(blocks), "utf-8")
        targets = ["The {} barks at {} .".format(*filled) for filled in words]
        for side, text in (("src", sources), ("trg", targets)):
            (folder / f"{name}.{side}").write_text("\n".join(text) + "\n", "utf-8")
    (folder / "train.levels").write_text("A\nB\nC\nfce\n" * 10, "utf-8")
    (folder / "dev.levels").write_text("A\nB\nC\nN\n", "utf-8")
    for part in ("src", "ref0", "ref1", "ref2", "ref3"):
        (folder / f"jfleg.{part}").write_text("The Owl sees it .\n", "utf-8")
    films = [f"The {name} barks in film {at} .\n" for at in range(30) for name in names]
    (folder / "imdb.txt").write_text("".join(films), "utf-8")
    (folder / "imdb.valid.txt").write_text("A Dog barks in film 99 .\n" * 3, "utf-8")
    (folder / "learner_text.json").write_text("{}\n", "utf-8")
    return folder


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
