"""The recipe of PoDA: its tiny scale runs, its paper scale is what the paper says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import fairseq_ssl
from tests.conftest import PACKAGE, ROOT
from tests.recipes.recipe import called, printed, step

fairseq_ssl.register()
from fairseq import options  # noqa: E402

RECIPE = ROOT / "examples/poda"
STEPS = sorted(RECIPE.glob("[1-9]_*.sh"))
PAPER = {"SCALE": "paper"}


def dry(name: str, **settings: str) -> list[list[str]]:
    return printed(RECIPE, name, {**PAPER, **settings})


def training(words: list[str]) -> Any:
    return options.parse_args_and_arch(options.get_training_parser(), words)


def test_the_tiny_scale_runs_and_is_found_done(tmp_path: Path) -> None:
    settings = {"SCALE": "tiny", "WORK": str(tmp_path), "AMOUNTS": "all", "KINDS": "pretrained"}
    settings |= {"PRETRAIN_EPOCHS": "2", "EPOCHS": "1"}
    shown = [step(path, settings).stdout for path in STEPS]
    rows = [line.split(" | ") for line in shown[4].splitlines()[2:4]]
    assert [row[2:4] for row in rows] == [["0", "untouched"], ["all", "pretrained"]]
    samples = (tmp_path / "analysis/samples.txt").read_text("utf-8").splitlines()
    assert [line[:4] for line in samples] == [
        *["S-0\t"],
        *["H-0\t"] * 4,
        *["S-1\t"],
        *["H-1\t"] * 4,
    ]
    for name in ("amounts", "epochs"):
        assert (tmp_path / f"analysis/{name}.learner.png").stat().st_size > 5000
    names = (tmp_path / "text/learner/train.trg").read_text("utf-8").split()
    vocabulary = (tmp_path / "dictionary/dict.en.txt").read_text("utf-8").split("\n")[:96]
    assert set(names) - {entry.split(" ")[0] for entry in vocabulary}  # some can only be copied
    for path in STEPS[:4]:
        again = step(path, settings).stderr
        done = {line for line in again.splitlines() if not line.startswith("==>")}
        assert done, path
        assert all(line.startswith("there already: ") for line in done), again


def test_pretraining_is_the_papers() -> None:
    (words,) = called(dry("pretrain", LAUNCH="node"), "fairseq-train")
    args = training(words)
    assert (args.user_dir, args.arch) == (PACKAGE.name, "pointer_transformer")
    assert (args.task, args.noise, args.denoise_keep_rate) == (
        *("denoising_pretraining", "denoise"),
        0.03,
    )
    assert (args.criterion, args.optimizer, args.lr) == ("touched_cross_entropy", "nag", [2e-3])
    assert (args.lr_scheduler, args.lr_shrink) == ("reduce_lr_on_plateau", 0.5)
    assert (args.stop_min_lr, args.clip_norm, args.dropout) == (1e-4, 2, 0.2)
    assert (args.store_ema, args.ema_decay, args.copy_vocabulary) == (True, 0.9995, 50_000)
    assert (args.max_tokens, args.max_update, args.update_freq) == (3000, 5_000_000, [1])
    assert (args.encoder_layers, args.decoder_layers, args.encoder_embed_dim) == (6, 6, 512)
    assert (args.encoder_ffn_embed_dim, args.decoder_attention_heads) == (4096, 8)
    (words,) = called(dry("pretrain", GPUS="1"), "fairseq-train")
    assert training(words).update_freq == [4]


def test_fine_tuning_keeps_the_hyper_parameters() -> None:
    commands = called(dry("finetune", TASKS="cnndm conll"), "fairseq-train")
    found = [training(words) for words in commands]
    assert len(found) == 2 * 4 * 4
    for args in found:
        assert (args.task, args.criterion, args.optimizer) == (
            *("copying_translation", "cross_entropy"),
            "nag",
        )
        assert (args.lr, args.max_tokens, args.ema_decay) == ([2e-3], 3000, 0.9995)
        cut = (args.truncate_source_words, args.truncate_target_words)
        assert cut == ((800, 130) if "cnndm" in args.data else (None, None))
        kind = args.save_dir.split(".")[-2]
        starts = (args.finetune_from_model, args.init_encoder_only, args.init_decoder_only)
        place = {"pretrained": 0, "encoder_only": 1, "decoder_only": 2}.get(kind)
        assert [start is not None for start in starts] == [place == i for i in range(3)]
    origins = {args.finetune_from_model for args in found} - {None}
    assert len(origins) == 4  # other checkpoints for other seeds


def test_models_of_all_seeds_are_an_ensemble() -> None:
    commands = called(dry("decode", TASKS="jfleg", KINDS="pretrained untuned"), "fairseq-generate")
    paths = [options.parse_args_and_arch(options.get_generation_parser(), w).path for w in commands]
    assert [path.count(":") for path in paths] == [0, 0, 0, 0, 0, 3]


def test_long_and_unknown_paragraphs_are_cut_and_dropped(tmp_path: Path) -> None:
    (tmp_path / "dict.txt").write_text("a 9\nb 8\nc 7\nrare 1\n", encoding="utf-8")
    lines = ["a b", "a b c a b", "a b x", "a b c x", "a b c rare rare"]
    (tmp_path / "text").write_text("\n".join(lines) + "\n", encoding="utf-8")
    words = [
        sys.executable,
        str(RECIPE / "segments.py"),
        "--dictionary",
        str(tmp_path / "dict.txt"),
    ]
    limits = ["--vocabulary", "7", "--segment", "4", str(tmp_path / "text")]
    done = subprocess.run([*words, *limits], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["a b c a", "b", "a b c x"]


@pytest.mark.parametrize(
    ("settings", "code", "message"),
    [
        ({"KINDS": "bert"}, 2, "KINDS has 'bert'; expected scratch, pretrained, encoder_only"),
        ({"TASKS": "conll"}, 2, "TASKS has 'conll'; expected learner."),
        ({"SCALE": "small", "DATA_DIR": ""}, 1, "folder with multi30k"),
        ({**PAPER, "DATA_DIR": ""}, 1, "folder with wikipedia.txt"),
        ({"TUNING_LINES": "9999"}, 1, "nothing would be left to pre-train on"),
    ],
)
def test_a_wrong_setting_is_refused(
    settings: dict[str, str], code: int, message: str, tmp_path: Path
) -> None:
    assert message in step(STEPS[0], {"WORK": str(tmp_path), **settings}, code).stderr
