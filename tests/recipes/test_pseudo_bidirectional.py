"""Recipe of PBD: the tiny scale runs, the paper scale follows the paper."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import PACKAGE, ROOT
from tests.recipes.recipe import are_reused, called, decoded, printed, said, step, trained
from tests.recipes.stand_ins import learner_text

RECIPE = ROOT / "examples/pseudo_bidirectional"
STEPS = sorted(RECIPE.glob("[1-9]_*.sh"))
GEC = {"SCALE": "paper", "TASKS": "gec"}


def dry(name: str, **settings: str) -> list[list[str]]:
    return printed(RECIPE, name, settings)


@pytest.mark.slow
def test_tiny_scale_runs_and_is_reused(tmp_path: Path) -> None:
    settings = {"SCALE": "tiny", "WORK": str(tmp_path), "KINDS": "transformer pbd"}
    settings |= {"UPDATES": "9", "WARMUP": "3", "SETS": "test"}
    table = [step(path, settings).stdout for path in STEPS][-1]
    rows = [line.split(" | ") for line in table.splitlines()[2:5]]
    assert [row[1] for row in rows] == ["uncorrected", "transformer-2", "pbd-2"]
    assert all("(1)" in row[2] for row in rows)
    are_reused(STEPS[:3], settings, "2 DIM=32, 2 UPDATES=10, 3 BEAM=4")


def test_words_are_trained_equally_at_both_depths() -> None:
    kinds = "transformer pbd no_future unshared aligned"
    settings = {"SCALE": "small", "FOLDS": "3", "TASKS": "ocr spell", "KINDS": kinds}
    found = trained(dry("train", **settings))
    assert len(found) == 2 * 2 * 5
    for args in found:
        assert (args.user_dir, args.task) == (str(PACKAGE), "translation")
        assert (args.encoder_embed_dim, args.encoder_ffn_embed_dim) == (200, 400)
        assert (args.encoder_attention_heads, args.encoder_normalize_before) == (4, True)
        assert (args.dropout, args.lr, args.max_tokens) == (0.1, [0.002], 2000)
        updates = 2500 if "ocr.3" in args.data else 700
        assert (args.max_update, int(args.total_num_update)) == (updates, updates)
        assert args.lr_scheduler == "polynomial_decay"
        assert args.save_dir.endswith(f"-{args.encoder_layers}")
        assert args.best_checkpoint_metric == "nll_loss"
    for stock, ours, past, apart, aligned in (found[i : i + 5] for i in range(0, 20, 5)):
        assert vars(aligned).get("pseudo_future_alignment") == "prefix"
        assert "pseudo_future_alignment" not in past
        assert stock.arch == "transformer"
        assert stock.decoder_layers == stock.encoder_layers == ours.encoder_layers
        assert stock.decoder_normalize_before
        off = [
            [flag for flag in ("no_pseudo_future", "no_share_encoder_decoder") if flag in args]
            for args in (ours, past, apart, aligned)
        ]
        assert off == [[], ["no_pseudo_future"], ["no_share_encoder_decoder"], []]


def test_grammar_is_trained_as_in_section_4_1() -> None:
    stages = trained(dry("train", **GEC, GPUS="4", LAUNCH="node"))
    for args in stages:
        name = Path(args.save_dir).name.removeprefix("gec.all.")
        schedule = (args.lr, args.warmup_updates, args.max_update)
        if name == "synthetic":
            assert args.data.endswith("/data/gec.synthetic")
            assert schedule == ([5e-4], 8000, 200_000)
        elif name.startswith("pretrained_"):
            assert args.finetune_from_model == f"{args.save_dir}/synthetic/checkpoint_best.pt"
            assert schedule == ([1e-4], 4000, 50_000)
        else:  # from random weights, as in pre-training
            assert args.finetune_from_model is None
            assert schedule == ([5e-4], 8000, 50_000)
        assert args.lr_scheduler == "inverse_sqrt"
        assert (args.max_tokens * 4 * args.update_freq[0], args.dropout) == (8 * 5120, 0.2)
        assert (args.encoder_embed_dim, args.encoder_ffn_embed_dim) == (1024, 4096)
        assert args.best_checkpoint_metric == "nll_loss"  # base-2 logarithm of the perplexity
        assert not args.maximize_best_checkpoint_metric
    kinds = ["transformer", "pbd", "no_future", "unshared"]
    kinds += ["pretrained_transformer", "pretrained_pbd"]
    wanted = [f"gec.all.{kind}-{layers}" for kind in kinds for layers in (6, 12)]
    names = [Path(args.save_dir).name for args in stages]
    assert sorted(names) == sorted(["synthetic"] * 4 + wanted)


def test_grammar_is_prepared_and_decoded_as_in_section_4_1() -> None:
    commands = dry("prepare", **GEC)
    (cut,) = (words for words in commands if "train" in words and "--size" in words)
    assert cut[cut.index("--size") + 1] == "30000"
    assert all("--srcdict" in words for words in called(commands, "fairseq-preprocess"))
    decoding = decoded(dry("decode", SCALE="paper", TASKS="gec ocr", FOLDS="9"))
    assert len(decoding) == 12 * 2 + 10 * 2
    for args in decoding:
        wanted = (12, "raw") if "/gec." in args.path else (5, None)
        assert (args.beam, args.dataset_impl) == wanted


WRONG = "A dog bark at a cat .\nThe cat sleep .\n"
RIGHT = "A dog barks at a cat .\nThe cat sleeps .\n"


def paper_data(folder: Path) -> dict[str, str]:
    """Write a DATA_DIR of the paper scale. Return settings for a small model."""
    folder.mkdir()
    for split in ("train", "valid"):
        (folder / f"{split}.src").write_text(WRONG * 10)
        (folder / f"{split}.trg").write_text(RIGHT * 10)
    for split in ("bea", "conll"):
        (folder / f"{split}.src").write_text(WRONG)
    edits = ("2 3|||V|||barks", "2 3|||V|||sleeps")
    (folder / "conll.m2").write_text(
        "".join(
            f"S {line}\nA {edit}|||REQUIRED|||-NONE-|||0\n\n"
            for line, edit in zip(WRONG.splitlines(), edits, strict=True)
        )
    )
    settings = {**GEC, "DATA_DIR": str(folder), "KINDS": "pbd", "LAUNCH": "single"}
    settings |= {"VOCABULARY": "30", "GEC_DEPTHS": "1", "GEC_UPDATES": "2", "GEC_BEAM": "2"}
    return settings | {"FLAGS": "--encoder-embed-dim 16 --encoder-ffn-embed-dim 16"}


def test_grammar_runs_from_text_to_a_score(tmp_path: Path) -> None:
    """Test sets are raw text, since they have no target side."""
    data, work = tmp_path / "data", tmp_path / "work"
    settings = {**paper_data(data), "WORK": str(work)}
    for path in STEPS[:3]:
        step(path, settings)
    for split in ("bea", "conll"):
        lines = (work / f"runs/gec.all.pbd-1/{split}.txt").read_text().splitlines()
        assert len(lines) == 2
    (work / "runs/gec.all.pbd-1/conll.txt").write_text(RIGHT)
    shown = step(STEPS[3], settings).stdout.splitlines()
    assert [line.split("\t")[0] for line in shown[:3]] == ["Precision", "Recall", "F_0.5"]
    assert [float(line.split()[-1]) for line in shown[:3]] == [100] * 3, "a perfect correction"
    more = {**settings, "GEC_SETS": "bea conll news"}
    (data / "news.src").write_text(WRONG)
    assert "up to date" in step(STEPS[0], more).stderr  # another set changes nothing else
    assert (work / "data/gec.news/news.src-trg.src").exists()
    are_reused(STEPS[:3], settings, "1 VOCABULARY=29, 3 GEC_BEAM=3")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("conll.src", WRONG.replace(" .", "")),  # differs from conll.m2
        ("conll.src", WRONG.splitlines()[0]),
        ("train.trg", RIGHT.replace(" .", ".") * 10),  # not tokenized
        ("bea.src", ""),
    ],
)
def test_the_first_step_checks_the_text(name: str, text: str, tmp_path: Path) -> None:
    settings = paper_data(tmp_path / "data") | {"WORK": str(tmp_path / "work")}
    (tmp_path / "data" / name).write_text(text)
    _, shown = step(STEPS[0], settings, 2).stderr.splitlines()  # after a headline
    assert name in shown


@pytest.mark.slow
def test_grammar_of_learner_text_runs_to_scores(tmp_path: Path) -> None:
    data, work = learner_text(tmp_path / "data"), tmp_path / "work"
    settings = {"SCALE": "small", "TASKS": "gec", "DATA_DIR": str(data), "WORK": str(work)}
    settings |= {"KINDS": "transformer pretrained_pbd", "GEC_DEPTHS": "1", "VOCABULARY": "40"}
    settings |= {"GEC_DIM": "16", "GEC_INNER_DIM": "16", "GEC_UPDATES": "2"}
    settings |= {"PRETRAIN_UPDATES": "2", "TUNING_UPDATES": "2"}
    settings |= {"METRICS": "m2", "CLEAN_LINES": "50"}
    shown = [step(path, settings).stdout for path in STEPS][-1]
    assert len((work / "text/gec.synthetic/train.src").read_text().splitlines()) == 50
    assert shown.count("Precision") == 2, "valid and dev by MaxMatch"
    assert shown.count("gleu|") == 1
    for args in trained(dry("train", **settings)):
        assert (args.encoder_layers, args.encoder_embed_dim, args.update_freq) == (1, 16, [1])
    larger = {**settings, "METRICS": "m2 errant", "SPACY_MODEL": "/spacy"}
    scored = said(dry("score", **larger), "score")
    by_errant = [line for line in scored if line.startswith("score errant")]
    assert ["--spacy-model /spacy" in line for line in by_errant] == [True, True], "valid and dev"


@pytest.mark.parametrize(
    ("kind", "augmented"),
    [
        ("pbd", "augmented"),
        ("transformer", "augmented_transformer"),
        ("aligned", "augmented_aligned"),
    ],
)
def test_more_words_are_learned_by_the_same_model(kind: str, augmented: str) -> None:
    settings = {"SCALE": "small", "FOLDS": "3", "KINDS": f"{kind} {augmented}", "DEPTHS": "2"}
    plain, more = map(vars, trained(dry("train", **settings)))
    assert {name for name in plain if plain[name] != more[name]} == {
        *("data", "max_update", "total_num_update", "save_dir")
    }
    assert (Path(more["data"]).name, more["max_update"]) == ("ocr.3.augmented", 7500)
    (copies,) = [words for words in dry("prepare", **settings) if "--copies" in words]
    assert copies[copies.index("--copies") + 1] == "5"
