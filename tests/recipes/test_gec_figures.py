"""Figures of the recipe of chapter 4: points are placed by their settings."""

from __future__ import annotations

from tests.conftest import ROOT
from tests.recipes.recipe import script

figures = script(ROOT / "examples/gec_pseudo_data/figures.py")
USUAL = figures.Defaults(6.0, 0.1, 0.8, 2.0)


def test_noise_setting_is_from_the_name_or_the_default() -> None:
    found = {
        "joint-direct-all-9": [1.0],
        "joint-direct@0.1-all-9": [2.0],
        "joint-direct@0.3-all-9": [3.0],
        "joint-direct@0.3_0.2-all-9": [4.0],
        "joint-direct@0.5_0.2-all-9": [5.0],
        "joint-noisy@0-all-9": [6.0],
        "joint-noisy-all-9": [7.0, 8.0],
    }
    assert figures.curves(found, "mu_mask", USUAL) == {
        "joint, direct, all, 9 pairs": {0.1: [1.0, 2.0], 0.3: [3.0]},
        "joint, direct, mu_keep 0.2, all, 9 pairs": {0.3: [4.0], 0.5: [5.0]},
    }
    assert figures.curves(found, "beta_random", USUAL) == {
        "joint, noisy, all, 9 pairs": {0.0: [6.0], 6.0: [7.0, 8.0]}
    }
