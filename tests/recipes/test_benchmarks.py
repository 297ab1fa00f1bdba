"""The benchmarks run and report their ratios. Speed is not tested."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

from tests.conftest import ROOT, Run
from tests.unit.metrics.small_pipeline import small_pipeline

SMALL = ("--length", "6", "--pairs")
ONCE = {
    "amp_training",
    "shape_memory",
    "back_translation",
    "growth",
    "mixing_memory",
}
"""Benchmarks that start new processes for each pair, which is slow."""
PEERS = {"correction", "filter_corpus"}
"""Benchmarks that need another project."""
OTHERS = {"edit_scorers", "start_up"}
"""Benchmarks without random text, which have a test of their own."""
SCORERS = ROOT / "scripts/benchmarks/edit_scorers.py"
TINY = ("--arch", "shape_transformer_tiny")
BENCHMARKS = {
    "shape_training": (*TINY, "--tokens", "60", "--steps", "1", "--positions", "relative"),
    "amp_training": (
        *("--arch", "transformer_tiny", "--tokens", "60", "--vocabulary", "100"),
        "--stock",
    ),
    "shape_memory": (*TINY, "--tokens", "60", "--steps", "1", "--positions", "relative"),
    "ctranslate2_export": (*TINY, "--sentences", "4", "--batch", "2", "--vocabulary", "100"),
    "noise_offline": ("--sentences", "50", "--processes", "--noise", "denoise"),
    "edits_extraction": ("--sentences", "20"),
    "edit_decoding": (
        *("--arch", "edit_tagger_small", "--against", "transformer_tiny"),
        *("--sentences", "2", "--kind", "int8"),
    ),
    "edit_round": ("--factorized", "--screened", "0.5", "--rounds", "1"),
    "edit_training": ("--layers", "1", "--dim", "64", "--batch", "2", "--threads", "1"),
    "pseudo_bidirectional": (
        *("--arch", "pseudo_bidirectional_transformer_small", "--sentences", "2"),
        "--alignment",
    ),
    "pointer_transformer": (
        *("--arch", "pointer_transformer_tiny", "--against", "transformer_tiny"),
        *("--tokens", "60", "--vocabulary", "100", "--unknown", "0.3"),
    ),
    "aggressive_decoding": ("--arch", "transformer_tiny", "--sentences", "2"),
    "back_translation": ("--arch", "transformer_tiny", "--sentences", "4", "--vocabulary", "100"),
    "growth": ("--sentences", "4", "--times", "2", "--vocabulary", "100"),
    "mixing_memory": ("--sentences", "2000", "--epoch-pairs", "500"),
    "denoising_items": ("--sentences", "4", "--batches", "2", "--against", "denoising"),
    "denoising_training": (*TINY, "--sentences", "2", "--steps", "2", "--vocabulary", "100"),
    "bytenet_decoding": ("--arch", "bytenet_digits", "--steps", "2"),
    "bytenet_training": (
        *("--arch", "bytenet_digits", "--against", "transformer_tiny"),
        *("--tokens", "60"),
    ),
    "reconstruction_training": ("--arch", "transformer_tiny", "--batch", "2", "--steps", "1"),
    "classification_training": (
        *("--what", "vat", "--batch", "2", "--vocabulary", "50", "--dim", "4", "--hidden", "4"),
        "--optimizer",
    ),
    "rerank_search": (
        *("--sentences", "20", "--candidates", "3", "--features", "3", "--parts", "4"),
        *("--points", "2", "--jobs", "1"),
    ),
}


def test_every_benchmark_is_in_this_file() -> None:
    folder = ROOT / "scripts/benchmarks"
    shared = {
        "harness",
        "models",
        "run",
        "suite",
        "tool_suite",
        "edit_suite",
        "entry",
        "program_profile",
    }
    assert {path.stem for path in folder.glob("*.py")} - shared == set(BENCHMARKS) | PEERS | OTHERS


@pytest.mark.parametrize("name", BENCHMARKS)
@pytest.mark.slow
def test_benchmark_prints_ratios_as_json(run: Run, name: str) -> None:
    script = ROOT / f"scripts/benchmarks/{name}.py"
    pairs = 1 if name in ONCE else 2
    done = run("python", script, *SMALL, str(pairs), *BENCHMARKS[name])
    report = json.loads(done.stdout)
    assert len(report["ratios"]) == len(report["rates"]) == pairs
    for ratio, (first, second) in zip(report["ratios"], report["rates"], strict=True):
        assert ratio == pytest.approx(first / second)
    assert report["spread"][0] <= report["ratio"] <= report["spread"][1]
    goal = report["goal"]
    reached = None if goal is None else sum(report["ratios"]) / pairs >= goal
    assert report["goal_reached"] == reached
    assert name in report["command"]


def test_errant_prints_the_same_scores(run: Run, tmp_path: Path) -> None:
    source, system = tmp_path / "source", tmp_path / "system"
    source.write_text("the cat sit .\na dog sat .\n")
    system.write_text("the cat sat .\na dogs sit .\n")
    gold = "S the cat sit .\nA 2 3|||R:VERB|||sat|||REQUIRED|||-NONE-|||0\n\nS a dog sat .\n"
    (tmp_path / "gold").write_text(f"{gold}A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||0\n\n")
    files = ("--system", system, "--source", source, "--gold", tmp_path / "gold")
    words = ("python", SCORERS, "--metric", "errant", *files, "--pairs", "1")
    done = run(*words, "--model", small_pipeline(tmp_path))
    assert len(json.loads(done.stdout)["ratios"]) == 1
    assert "needs --model" in run(*words, code=2).stderr


def test_another_m2_scorer_must_print_the_same_scores(run: Run, tmp_path: Path) -> None:
    (tmp_path / "system").write_text("the cat sat .\n")
    gold = "S the cat sit .\nA 2 3|||V|||sat|||REQUIRED|||-NONE-|||0\n\n"
    (tmp_path / "gold").write_text(gold)
    peer = tmp_path / "m2scorer.py"
    words = ["python", SCORERS, "--python", sys.executable]
    words += ["--official", peer, "--system", tmp_path / "system", "--gold", tmp_path / "gold"]
    scores = "Precision   : {}\nRecall      : 1.0000\nF_0.5       : 1.0000\n"
    assert "m2scorer.py does not exist" in run(*words, code=2).stderr.splitlines()[-1]
    peer.write_text(f"print({scores.format('1.0000')!r})")
    assert len(json.loads(run(*words, "--pairs", "1").stdout)["ratios"]) == 1
    peer.write_text(f"print({scores.format('0.5000')!r})")
    assert "The scores differ" in run(*words, "--pairs", "1", code=1).stderr
    report = json.loads(run(*words, "--processes", "--pairs", "1").stdout)
    assert (report["goal"], len(report["ratios"])) == (1.8, 1), "two processes and one, no peer"
    (tmp_path / "gold").write_text("no M2 file\n")
    errors = run(*words, "--pairs", "1", code=1).stderr.splitlines()
    assert len(errors) == 1
    assert "gold:1" in errors[0]


def test_errors_of_files_have_one_line(run: Run, tmp_path: Path) -> None:
    script = ROOT / "scripts/benchmarks/filter_corpus.py"
    words = ("--source", tmp_path, "--target", tmp_path, "--opusfilter", tmp_path)
    errors = run("python", script, *words, code=1).stderr.splitlines()
    assert len(errors) == 1
    assert "Is a directory" in errors[0]


def test_start_up(run: Run) -> None:
    script = ROOT / "scripts/benchmarks/start_up.py"
    done = run("python", script, "--what", "spacy", "--pairs", "1")
    assert len(json.loads(done.stdout)["ratios"]) == 1


def test_profile_of_both_programs(run: Run) -> None:
    script = ROOT / "scripts/benchmarks/program_profile.py"
    words = ("classification_training", *BENCHMARKS["classification_training"])
    lines = run("python", script, *words).stdout.splitlines()
    starts = [at for at, line in enumerate(lines) if line.endswith(" ms per run")]
    assert [lines[at].partition(":")[0] for at in starts] == ["vat", "lstm"]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        assert lines[start + 2].startswith("| operator | time (%) |")
        rows = [line.strip("| ").split(" | ") for line in lines[start + 4 : end] if line]
        shares = [float(row[1]) for row in rows]
        assert shares[:-1] == sorted(shares[:-1], reverse=True)
        assert sum(shares) == pytest.approx(100, abs=0.7)
        assert all(row[0].startswith("`") and int(row[3]) > 0 for row in rows[:-1])


def test_profile_of_no_benchmark_is_rejected(run: Run) -> None:
    script = ROOT / "scripts/benchmarks/program_profile.py"
    for words in (), ("training",), ("models",), ("run",):
        errors = run("python", script, *words, code=1).stderr.splitlines()
        assert len(errors) == 1, errors


@pytest.mark.skipif(torch.cuda.is_available(), reason="set CUDA_VISIBLE_DEVICES=")
def test_missing_device_is_rejected(run: Run) -> None:
    script = ROOT / "scripts/benchmarks/shape_training.py"
    assert "no CUDA device" in run("python", script, "--device", "cuda", code=2).stderr
