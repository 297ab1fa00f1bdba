"""Helpers for tests of the recipe gec_pseudo_data: its commands and their options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.conftest import ROOT
from tests.recipes.recipe import printed, trained

RECIPE = ROOT / "examples/gec_pseudo_data"


def dry(scale: str, name: str, **settings: str) -> list[list[str]]:
    return printed(RECIPE, name, {"SCALE": scale, **settings})


def trainings(scale: str, name: str, **settings: str) -> dict[str, Any]:
    """Return the options of each training of a step by folder name."""
    return {Path(args.save_dir).name: args for args in trained(dry(scale, name, **settings))}
