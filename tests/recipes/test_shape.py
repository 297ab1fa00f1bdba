"""Recipe of chapter 6: the tiny scale runs, the paper scale follows the paper."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.recipes.recipe import are_reused, called, decoded, printed, step, trained

RECIPE = ROOT / "examples/shape"
STEPS = sorted(RECIPE.glob("[1-9]_*.sh"))


def dry(scale: str, name: str, **settings: str) -> list[list[str]]:
    return printed(RECIPE, name, {"SCALE": scale, **settings})


@pytest.mark.slow
def test_tiny_scale_runs_and_is_reused(tmp_path: Path) -> None:
    settings = {"SCALE": "tiny", "WORK": str(tmp_path), "UPDATES": "66", "JOBS": "2"}
    for path in STEPS:
        shown = step(path, settings).stdout
        if path.name == "4_score.sh":
            assert "| interpolate | relative |" in shown
            assert "(1) |" in shown
    swapped = json.loads((tmp_path / "analysis/swapped.json").read_text())
    assert list(swapped["models"]) == ["absolute", "apart", "relative"]
    assert len(list((tmp_path / "analysis").glob("*.png"))) == 4
    changes = "1 LIMIT=3, 2 MAX_SHIFT=2, 2 SENTENCES=2, 3 BEAM=1, 5 RANK_ENDS=9"
    are_reused([*STEPS[:3], STEPS[4]], settings, changes)


@pytest.mark.slow
def test_lines_run_at_the_tiny_scale(tmp_path: Path) -> None:
    settings = {
        **{"SCALE": "tiny", "TASKS": "lines", "WORK": str(tmp_path), "LINES_UPDATES": "66"},
        **{"LINES_DATASETS": "extrapolate", "LINES_SETS": "test", "KINDS": "absolute shared"},
        **{"SHIFT_FROM": "absolute", "SHIFT_FLAGS": "--shape-shift-warmup 5 --lr 0.001"},
    }
    for path in STEPS:
        shown = step(path, settings).stdout
        if path.name == "4_score.sh":
            for row in ("uncorrected", "absolute", "shared-8"):
                assert f"| lines.extrapolate | test | {row} |" in shown
            assert "BLEU" not in shown
    text = tmp_path / "text/lines.extrapolate"
    counts = {
        part: {len(line.split("<sep>")) for line in (text / f"{part}.trg").read_text().splitlines()}
        for part in ("train", "valid", "valid1", "test")
    }
    assert counts["train"] == counts["valid"] == {1, 2, 3, 4}
    assert 10 <= max(counts["valid1"]) <= 12
    assert 10 <= max(counts["test"]) <= 12
    assert not (tmp_path / "text/translation").exists()


def test_lines_have_all_kinds_and_k_at_the_small_scale() -> None:
    found = trained(dry("small", "train", TASKS="lines"))
    assert len(found) == 2 * 6 * 3
    kinds = {args.save_dir.split(".")[-2]: args for args in found}
    assert list(kinds) == [
        *("absolute", "apart-40", "apart-100", "shared-40", "shared-100", "relative"),
    ]
    for kind, args in kinds.items():
        assert args.shape_shared_shift == kind.startswith("shared")
        shift = int(kind.rpartition("-")[2]) if "-" in kind else 0
        assert args.shape_max_shift == shift
        assert (args.encoder_embed_dim, args.decoder_embed_dim) == (64, 64)
        assert (args.max_update, int(args.total_num_update)) == (6000, 6000)
        assert args.finetune_from_model is None
    decoding = called(dry("small", "decode", TASKS="lines translation"), "fairseq-generate")
    assert len(decoding) == 2 * 6 * 3 * 2 + 3 * 3 * 3 * 2


def test_shifts_continue_from_absolute_positions() -> None:
    settings = {"SHIFT_FROM": "absolute", "SHIFT_FLAGS": "--shape-shift-warmup 900"}
    found = trained(dry("small", "train", KINDS="absolute shared", **settings))
    for before, after in zip(found[:3], found[3:6], strict=True):
        assert before.shape_positions == "absolute"
        assert after.finetune_from_model == f"{before.save_dir}/final.pt"
        assert (after.shape_shift_warmup, after.shape_shared_shift) == (900, True)


def test_the_paper_scale_is_that_of_table_6_2() -> None:
    for args in trained(dry("paper", "train", GPUS="8", SEEDS="1")):
        assert 8 * args.max_tokens * args.update_freq[0] == 112000
        assert (args.max_update, args.warmup_updates) == (200000, 8000)
        # Noam: factor * dim^-0.5 * min(n^-0.5, n * warm-up^-1.5), at its peak
        assert args.lr == [pytest.approx(2 * 512**-0.5 * 8000**-0.5, rel=1e-6)]
        sizes = (args.encoder_embed_dim, args.encoder_ffn_embed_dim, args.encoder_layers)
        assert (*sizes, args.decoder_layers, args.encoder_attention_heads) == (512, 2048, 6, 6, 8)
        assert (args.dropout, args.label_smoothing, args.clip_norm) == (0.1, 0.1, 0.0)
        assert (args.adam_betas, args.adam_eps) == ("(0.9, 0.98)", 1e-8)
        max_shift = 500 if args.shape_positions == "shifted" else 0
        assert (args.shape_max_shift, args.shape_relative_limit) == (max_shift, 16)
        assert (args.save_interval_updates, args.keep_interval_updates) == (5000, 10)
    averaged = called(dry("paper", "train", SEEDS="1", KINDS="apart"), "fairseq-ssl")
    assert all(words[0] == "average" and "--last 10" in " ".join(words) for words in averaged)
    data = called(dry("paper", "prepare"), "fairseq-ssl")
    assert [words[1] for words in data] == ["extrapolate", "interpolate", "interpolate"]
    assert "--limit 50" in " ".join(data[0])
    assert "--sentences 10" in " ".join(data[1])


def test_the_paper_scale_follows_the_code_of_the_authors() -> None:
    for settings, pre, init in (
        ({}, True, "glorot"),
        ({"NORM": "post", "EMBEDDING_INIT": "normal"}, False, "normal"),
    ):
        for args in trained(dry("paper", "train", SEEDS="1", **settings)):
            assert (args.encoder_normalize_before, args.decoder_normalize_before) == (pre, pre)
            assert args.shape_embedding_init == init


def test_figure_6_4_pools_the_validation_and_test_sets_and_figure_6_5_the_validation_sets() -> None:
    commands = called(dry("paper", "analyse", SEEDS="1"), "fairseq-ssl")
    validation = "valid,valid1,valid2,valid3"
    pooled = {"length-bleu": f"{validation},test,test1,test2", "token-wins": validation}
    for kind, years in pooled.items():
        subsets = [words[words.index("--subset") + 1] for words in commands if words[1] == kind]
        assert subsets == [years] * 3


def test_all_models_decode_all_sets_with_a_beam_of_4() -> None:
    assert [args.beam for args in decoded(dry("paper", "decode", SEEDS="1"))] == [4] * 3 * 3 * 7
