"""Figures of the recipe of chapter 4: points are placed by their settings."""

from __future__ import annotations

import json
from pathlib import Path

from tests.conftest import ROOT, Run
from tests.recipes.recipe import printed, script

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


def test_amounts_have_all_systems() -> None:
    kinds = ("joint", "upsample", "upsample@4", "pretrain")
    methods = ("noisy", "noisy@3", "direct@0.5_0.1", "spell")
    ends = ("", "-sse", "+direct-all-5")
    systems = [f"{k}-{m}-all-{{}}{e}" for k in kinds for m in methods for e in ends]
    found = {system.format(amount): [1.0] for system in systems for amount in (7, 70)}
    lines = figures.curves(found, "amount", USUAL)
    assert len(lines) == len(systems)
    assert all(set(line) == {7.0, 70.0} for line in lines.values())


def test_up_sampling_starts_with_joint_training() -> None:
    found = {
        "joint-noisy-all-9": [1.0],
        "upsample-noisy-all-9": [2.0],
        "pretrain-noisy-all-9": [9.0],
    }
    found |= {f"upsample@{rate}-noisy-all-9": [float(rate)] for rate in (4, 8, 16, 25)}
    lines = figures.curves(found, "upsampling", USUAL)
    rates = (1.0, 2.0, 4.0, 8.0, 16.0, 25.0)
    assert lines == {"joint, noisy, all, 9 pairs": {rate: [rate] for rate in rates}}


def test_figures_and_their_numbers_are_written(run: Run, tmp_path: Path) -> None:
    for system, value in (
        ("baseline", 5.0),
        ("joint-noisy-all-9", 7.0),
        ("upsample-noisy-all-9", 8.0),
    ):
        for seed in (1, 2):
            path = tmp_path / f"runs/{system}.{seed}/valid.errant.json"
            path.parent.mkdir(parents=True)
            path.write_text(json.dumps({"F_0.5": value + seed}))
    words = ("--beta", "6", "--mask", "0.1", "--keep", "0.8", "--upsample", "2")
    run("python", figures.__file__, tmp_path / "runs", tmp_path, *words)
    numbers = json.loads((tmp_path / "upsampling.json").read_text())
    assert numbers == {
        "baseline": [6.0, 7.0],
        "joint, noisy, all, 9 pairs": {"1.0": [8.0, 9.0], "2.0": [9.0, 10.0]},
    }
    assert (tmp_path / "upsampling.png").stat().st_size > 5000
    assert not (tmp_path / "amounts.png").exists()


def test_final_may_have_two_kinds_of_pseudo_data() -> None:
    """A + in its name is not a repetition of a pattern."""
    final = "pretrain-noisy-gigaword-7+direct-gigaword-2"
    settings = {"SCALE": "paper", "SYSTEMS": f"baseline {final}", "FINAL": final, "SEEDS": "1"}
    plotted = printed(ROOT / "examples/gec_pseudo_data", "analyse", settings)
    assert [words for words in plotted if f"{final}=" in " ".join(words)]
