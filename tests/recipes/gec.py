"""Helpers for tests of the recipe gec_pseudo_data: its commands and their options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fairseq_ssl
from tests.conftest import ROOT
from tests.recipes.recipe import called, printed

fairseq_ssl.register()
from fairseq import options  # noqa: E402

RECIPE = ROOT / "examples/gec_pseudo_data"


def dry(scale: str, name: str, **settings: str) -> list[list[str]]:
    return printed(RECIPE, name, {"SCALE": scale, **settings})


def trainings(scale: str, name: str, **settings: str) -> dict[str, Any]:
    """Return the options of each training of a step by folder name."""
    found = {}
    for words in called(dry(scale, name, **settings), "fairseq-train"):
        args = options.parse_args_and_arch(options.get_training_parser(), words)
        found[Path(args.save_dir).name] = args
    return found


def said(commands: list[list[str]], verb: str) -> list[str]:
    return [" ".join(words) for words in called(commands, "fairseq-ssl") if words[0] == verb]
