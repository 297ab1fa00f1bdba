"""The benchmarks run and report their ratios. Speed is not tested."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, Run

SMALL = ("--length", "6", "--pairs")
ONCE = {"amp_training", "shape_memory", "back_translation", "growth", "mixing_memory"}
"""Benchmarks that start new processes for each pair, which is slow."""
PEERS = {"correction", "filter_corpus"}
"""Benchmarks that need another project."""
OTHERS = {"duplicates", "edit_scorers", "start_up"}
"""Benchmarks without random text or ratios, which have a test of their own."""
SCORERS = ROOT / "scripts/benchmarks/edit_scorers.py"
BENCHMARKS = {
    "shape_training": "--arch shape_transformer_tiny --tokens 60 --steps 1 --positions relative",
    "amp_training": "--arch transformer_tiny --tokens 60 --vocabulary 100 --stock",
    "shape_memory": "--arch shape_transformer_tiny --tokens 60 --steps 1 --positions relative",
    "ctranslate2_export": "--arch shape_transformer_tiny --sentences 4 --batch 2 --vocabulary 100",
    "noise_offline": "--sentences 50 --processes --noise shuffle",
    "edits_extraction": "--sentences 20",
    "edit_decoding": (
        "--arch edit_tagger_small --against transformer_tiny --sentences 2 --kind bf16"
    ),
    "edit_round": "--factorized --rounds 1",
    "edit_training": "--layers 1 --dim 64 --batch 2 --threads 1",
    "pseudo_bidirectional": (
        "--arch pseudo_bidirectional_transformer_small --sentences 2 --alignment"
    ),
    "pointer_transformer": (
        "--arch pointer_transformer_tiny --against transformer_tiny "
        "--tokens 60 --vocabulary 100 --unknown 0.3"
    ),
    "aggressive_decoding": "--arch transformer_tiny --sentences 2",
    "back_translation": "--arch transformer_tiny --sentences 4 --vocabulary 100",
    "growth": "--sentences 4 --times 2 --vocabulary 100",
    "mixing_memory": "--sentences 2000 --epoch-pairs 500",
    "denoising_items": "--sentences 4 --batches 2 --against denoising",
    "denoising_training": "--arch shape_transformer_tiny --sentences 2 --steps 2 --vocabulary 100",
    "bytenet_decoding": "--arch bytenet_digits --steps 2",
    "bytenet_training": "--arch bytenet_digits --against transformer_tiny --tokens 60",
    "reconstruction_training": "--arch transformer_tiny --batch 2 --steps 1",
    "classification_training": (
        "--what vat --batch 2 --vocabulary 50 --dim 4 --hidden 4 --optimizer"
    ),
    "rerank_search": "--sentences 20 --candidates 3 --features 3 --parts 4 --points 2 --jobs 1",
}


def test_every_benchmark_is_in_this_file() -> None:
    suites = {"suite", "tool_suite", "edit_suite", "entry"}
    others = {"harness", "models", "run", "program_profile"} | suites | PEERS | OTHERS
    scripts = {path.stem for path in (ROOT / "scripts/benchmarks").glob("*.py")}
    assert scripts == set(BENCHMARKS) | others


@pytest.mark.parametrize("name", BENCHMARKS)
@pytest.mark.slow
def test_benchmark_prints_ratios_as_json(run: Run, name: str) -> None:
    script = ROOT / f"scripts/benchmarks/{name}.py"
    pairs = 1 if name in ONCE else 2
    done = run("python", script, *SMALL, str(pairs), *BENCHMARKS[name].split())
    report = json.loads(done.stdout)
    assert len(report["ratios"]) == len(report["rates"]) == pairs
    for ratio, (first, second) in zip(report["ratios"], report["rates"], strict=True):
        assert ratio == pytest.approx(first / second)
    assert report["spread"][0] <= report["ratio"] <= report["spread"][1]
    goal = report["goal"]
    reached = None if goal is None else sum(report["ratios"]) / pairs >= goal
    assert report["goal_reached"] == reached
    assert name in report["command"]


def test_another_m2_scorer_must_print_the_same_scores(run: Run, tmp_path: Path) -> None:
    (tmp_path / "system").write_text("the cat sat .\n")
    gold = "S the cat sit .\nA 2 3|||V|||sat|||REQUIRED|||-NONE-|||0\n\n"
    (tmp_path / "gold").write_text(gold)
    peer = tmp_path / "m2scorer.py"
    words = ["python", SCORERS, "--python", sys.executable]
    words += ["--official", peer, "--system", tmp_path / "system", "--gold", tmp_path / "gold"]
    scores = "Precision   : {}\nRecall      : 1.0000\nF_0.5       : 1.0000\n"
    peer.write_text(f"print({scores.format('1.0000')!r})")
    assert len(json.loads(run(*words, "--pairs", "1").stdout)["ratios"]) == 1
    peer.write_text(f"print({scores.format('0.5000')!r})")
    assert "The scores differ" in run(*words, "--pairs", "1", code=1).stderr


def test_duplicates_are_those_expected(run: Run, tmp_path: Path) -> None:
    script = ROOT / "scripts/benchmarks/duplicates.py"
    small = ("--parts", "3", "--rows", "100", "--max-keys", "50", "--folder", tmp_path)
    steps = json.loads(run("python", script, *small).stdout)
    assert steps["keys"]["calls"] == steps["read"]["calls"] == 3
    assert steps["decide"]["calls"] > 3
    lines = [f"sentence {number} of {number % 7} other lines\n" for number in range(200)]
    (tmp_path / "text").write_text("".join(lines))
    [exact] = json.loads(run("python", script, "--text", tmp_path / "text", "--near", "0").stdout)
    assert exact["keys"] == 1
    assert exact["distinct lines"] == exact["case"] == 0


def test_profile_of_both_programs(run: Run) -> None:
    script = ROOT / "scripts/benchmarks/program_profile.py"
    words = ("classification_training", *BENCHMARKS["classification_training"].split())
    lines = run("python", script, *words).stdout.splitlines()
    titles = [line.partition(":")[0] for line in lines if line.endswith(" ms per run")]
    assert titles == ["vat", "lstm"]
    assert sum(line.startswith("| operator | time (%) |") for line in lines) == 2
