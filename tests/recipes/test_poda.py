"""Recipe of PoDA: the tiny scale runs, the paper scale follows the paper."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fairseq_ssl.data.oov_dictionary import OovDictionary
from tests.conftest import PACKAGE, ROOT
from tests.recipes.recipe import are_reused, called, decoded, printed, step, trained
from tests.recipes.stand_ins import learner_text

RECIPE = ROOT / "examples/poda"
STEPS = sorted(RECIPE.glob("[1-9]_*.sh"))
PAPER = {"SCALE": "paper"}


def dry(name: str, **settings: str) -> list[list[str]]:
    return printed(RECIPE, name, {**PAPER, **settings})


def paper_data(folder: Path) -> dict[str, str]:
    """Write small files of all tasks at the paper scale. Return the settings that read them."""
    text = {"wikipedia.txt": "wiki", "billion.txt": "news"}
    for name, word in text.items():
        (folder / name).write_text("".join(f"the {word} has {i} words\n" for i in range(60)))
    endings = {"cnndm": ["trg"], "gigaword": ["trg"], "conll": ["m2"]}
    endings["jfleg"] = [f"ref{number}" for number in range(4)]
    for task, gold in endings.items():
        (folder / task).mkdir()
        for split, lines in (("train", 300), ("valid", 3), ("test", 3)):
            files = {"src": "one two {}", "trg": "{}"} | dict.fromkeys(gold, "{}")
            files |= {"m2": "S one two {}\nA 0 1|||R|||a|||REQUIRED|||-NONE-|||0\n"}
            for ending in {"src", *gold} | ({"trg"} if split != "test" else set()):
                content = "".join(f"{files[ending].format(i)}\n" for i in range(lines))
                (folder / task / f"{split}.{ending}").write_text(content)
    small = {"VOCABULARY": "16", "HELD_OUT": "20", "LEAST_COUNT": "1", "GPUS": "1"}
    return {**PAPER, **small, "DATA_DIR": str(folder), "WORK": str(folder / "work")}


@pytest.mark.slow
def test_tiny_scale_runs_and_is_reused(tmp_path: Path) -> None:
    settings = {"SCALE": "tiny", "WORK": str(tmp_path), "AMOUNTS": "all", "KINDS": "pretrained"}
    settings |= {"PRETRAIN_EPOCHS": "9", "PRETRAIN_FLAGS": "--max-epoch 2", "STARTS": "2"}
    settings |= {"EPOCHS": "1"}
    shown = [step(path, settings).stdout for path in STEPS]
    rows = [line.split(" | ") for line in shown[4].splitlines()[2:4]]
    assert [row[2:4] for row in rows] == [["0", "uncorrected"], ["all", "pretrained"]]
    samples = (tmp_path / "analysis/samples.txt").read_text("utf-8").splitlines()
    assert [line[:3] for line in samples] == ["S-0", *["H-0"] * 4, "S-1", *["H-1"] * 4]
    for name in ("amounts", "epochs"):
        assert (tmp_path / f"analysis/{name}.learner.png").stat().st_size > 5000
    for number, epoch in ((1, 2), (2, 1)):  # the last checkpoints
        signature = (tmp_path / f"pretrained/start.{number}.pt.json").read_text("utf-8")
        assert f"pretrained/checkpoint{epoch}.pt" in signature
    changes = "1 SEGMENT=64, 1 ERRORS=shuffle, 2 LAYERS=2, 2 SEED=2, 3 VOCABULARY=90, 3 LR=1e-3"
    are_reused(STEPS[:4], settings, f"{changes}, 4 BEAM=4")


def test_pretraining_is_the_papers() -> None:
    (args,) = trained(dry("pretrain", LAUNCH="node"))
    assert (args.user_dir, args.arch) == (str(PACKAGE), "pointer_transformer")
    noise = (args.task, args.noise, args.denoise_keep_rate)
    assert noise == ("denoising_pretraining", "shuffle", 0.03)
    assert (args.criterion, args.optimizer, args.lr) == ("denoising_cross_entropy", "nag", [2e-3])
    assert (args.lr_scheduler, args.lr_shrink) == ("reduce_lr_on_plateau", 0.5)
    assert (args.stop_min_lr, args.clip_norm) == (1e-4, 2)
    assert (args.dropout, args.attention_dropout, args.activation_dropout) == (0.2, 0.2, 0.2)
    assert (args.store_ema, args.ema_decay, args.copy_vocabulary) == (True, 0.9995, 50_000)
    assert (args.max_tokens, args.max_update, args.update_freq) == (3000, 5_000_000, [1])
    assert (args.max_epoch, args.keep_interval_updates_pattern) == (0, 250_000)
    assert (args.encoder_layers, args.decoder_layers, args.encoder_embed_dim) == (6, 6, 512)
    assert (args.encoder_ffn_embed_dim, args.decoder_attention_heads) == (4096, 8)
    (args,) = trained(dry("pretrain", GPUS="1", LR="1e-3"))
    # without warm-up, fairseq begins with the warm-up learning rate
    assert (args.update_freq, args.lr, args.warmup_init_lr) == ([4], [1e-3], 1e-3)


def test_fine_tuning_keeps_the_hyper_parameters() -> None:
    found = trained(dry("finetune", TASKS="cnndm conll"))
    assert len(found) == 2 * 4 * 4
    for args in found:
        assert (args.task, args.criterion) == ("copying_translation", "cross_entropy")
        assert (args.lr, args.max_tokens, args.ema_decay) == ([2e-3], 3000, 0.9995)
        cut = (args.truncate_source_words, args.truncate_target_words)
        assert cut == ((800, 130) if "cnndm" in args.data else (None, None))
        kind = args.save_dir.split(".")[-2]
        starts = (args.finetune_from_model, args.init_encoder_only, args.init_decoder_only)
        place = {"pretrained": 0, "encoder_only": 1, "decoder_only": 2}.get(kind)
        assert [start is not None for start in starts] == [place == i for i in range(3)]
    origins = {args.finetune_from_model for args in found} - {None}
    assert len(origins) == 4  # different checkpoints for different seeds


def test_learner_text_is_prepared_and_scored(tmp_path: Path) -> None:
    data, work = learner_text(tmp_path / "data"), tmp_path / "work"
    settings = {"SCALE": "small", "DATA_DIR": str(data), "WORK": str(work), "AMOUNTS": "10 all"}
    step(STEPS[0], settings)
    pretraining = work / "text/pretrain"
    assert len((pretraining / "train.en").read_text().splitlines()) == 120
    assert (pretraining / "valid.en").read_bytes() == (data / "imdb.valid.txt").read_bytes()
    first = (work / "data/gec.10/train.src-trg.src").read_text()
    assert (data / "train.src").read_text().startswith(first)
    assert len(first.splitlines()) == 10
    assert (work / "held-out/gec.dev/dev.src-trg.src").read_bytes() == (
        data / "dev.src"
    ).read_bytes()
    shown = printed(RECIPE, "score", settings)
    scored = {words[1]: words for words in called(shown, "fairseq-ssl")}
    assert scored["m2"][scored["m2"].index("--gold") + 1] == f"{work}/held-out/gec.dev/dev.m2"
    assert scored["gleu"].count("--reference") == 4


def test_each_amount_has_a_warm_up_and_an_average_that_fit_it(tmp_path: Path) -> None:
    settings = {"SCALE": "small", "KINDS": "scratch pretrained", "WORK": str(tmp_path)}
    pairs = tmp_path / "data/learner.all/train.src-trg.src"
    pairs.parent.mkdir(parents=True)
    pairs.write_text("eight words and the end of a line\n" * 30_000, encoding="utf-8")
    found: dict[str, tuple[float, ...]] = {}
    for args in trained(printed(RECIPE, "finetune", settings)):
        assert args.max_epoch == 0
        amount = Path(args.data).name.partition(".")[2]
        fits = (args.max_update, args.warmup_updates, args.ema_start_update, args.ema_decay)
        assert found.setdefault(amount, fits) == fits, "all kinds of an amount have the same"
    assert found["all"][:2] == (30 * 30_000 * 9 // 3000, 270)
    assert found["1000"][:2] == (1500, 150)
    for updates, warm_up, first, decay in found.values():
        assert warm_up == first
        assert decay ** (updates - first) < 1e-6, "nothing is left of what it began from"
        assert decay ** (updates // 20) == pytest.approx(0.37, abs=0.01)


def test_decoding_limits_lengths_and_combines_the_models_of_all_seeds() -> None:
    found = decoded(dry("decode", TASKS="jfleg", KINDS="pretrained untuned"))
    assert [args.path.count(":") for args in found] == [0, 0, 0, 0, 0, 3]
    found = decoded(dry("decode", TASKS="cnndm gigaword", KINDS="untuned"))
    assert [(args.max_len_a, args.max_len_b) for args in found] == [(0, 130), (1.5, 10)]
    assert found[0].truncate_source_words == 800


def test_long_paragraphs_are_split_and_unknown_ones_dropped(tmp_path: Path) -> None:
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


def test_pairs_of_the_paper_are_a_random_sample(tmp_path: Path) -> None:
    settings = paper_data(tmp_path) | {"TASKS": "gigaword", "AMOUNTS": "20 all"}
    step(STEPS[0], settings)
    data, content = tmp_path / "work/data", (tmp_path / "gigaword/train.src").read_text()
    source, target = (
        (data / f"gigaword.20/train.src-trg.{side}").read_text().split("\n")[:-1]
        for side in ("src", "trg")
    )
    assert source == [f"one two {number}" for number in target]
    assert len(set(target)) == 20
    assert max(map(int, target)) > 200
    assert (data / "gigaword.all/train.src-trg.src").read_text() == content


def test_other_tasks_and_sets_keep_the_pretraining(tmp_path: Path) -> None:
    settings = paper_data(tmp_path) | {"TASKS": "conll"}
    gold = tmp_path / "conll/valid.m2"
    content = gold.read_text()
    gold.unlink()
    step(STEPS[0], settings)
    pretraining = tmp_path / "work/text/pretrain"
    train, valid = (
        (pretraining / f"{name}.en").read_text().split("\n")[:-1] for name in ("train", "valid")
    )
    whole = [*(tmp_path / "wikipedia.txt").open(), *(tmp_path / "billion.txt").open()]
    assert sorted(train + valid) == sorted(map(str.rstrip, whole))
    assert len(valid) == 20
    assert {line.split()[1] for line in valid} == {"wiki", "news"}
    words = (tmp_path / "work/dictionary/dict.en.txt").read_text().split("\n")
    assert words[0] == "<q> 0"
    assert "one" not in {word.split(" ")[0] for word in words}, "words of the tasks are not counted"

    gold.write_text(content)
    shown = step(STEPS[0], settings | {"TASKS": "conll gigaword", "SETS": "valid test"}).stderr
    for target in ("dictionary", "data/pretrain", "data/conll.all", "held-out/conll.test"):
        assert f"up to date: {tmp_path}/work/{target}\n" in shown


@pytest.mark.slow
def test_paper_scale_runs_on_small_files(tmp_path: Path) -> None:
    """Fine-tune from a kept checkpoint, with a summary beyond fairseq's maximum in validation."""
    settings = paper_data(tmp_path) | {"TASKS": "cnndm", "STARTS": "1", "SEEDS": "1"}
    for name, number in (("DIM", 16), ("INNER_DIM", 16), ("HEADS", 2), ("LAYERS", 1)):
        settings[name] = str(number)
    settings |= {"PRETRAIN_UPDATES": "4", "SAVE_UPDATES": "1", "KEEP_UPDATES": "2", "EPOCHS": "1"}
    settings |= {
        "KINDS": "scratch after2",
        "ENSEMBLE": "0",
        "PRETRAIN_FLAGS": "--max-tokens 100 --update-freq 1",
    }
    with (tmp_path / "cnndm/valid.src").open("a") as source:
        source.write("a long summary\n")
    with (tmp_path / "cnndm/valid.trg").open("a") as target:
        target.write("word " * 1100 + "\n")
    shown = [step(path, settings).stdout for path in STEPS]
    assert "| cnndm | test | all | after2 |" in shown[4]
    assert (tmp_path / "work/analysis/updates.cnndm.png").stat().st_size > 5000
    are_reused([STEPS[1]], settings | {"TASKS": "gigaword", "SETS": "valid"})


def test_a_summary_does_not_end_at_a_sentence_mark(tmp_path: Path) -> None:
    shown = dry("score", TASKS="cnndm", KINDS="untuned", WORK=str(tmp_path))
    (words,) = called(shown, "fairseq-ssl")
    mark = words[words.index("--sentence-mark") + 1]
    ids = OovDictionary().encode_line(f"first {mark} second").tolist()
    assert ids.index(OovDictionary().eos()) == 3
    settings = paper_data(tmp_path) | {"TASKS": "cnndm"}
    (tmp_path / "cnndm/train.trg").write_text("first </s> second\n", encoding="utf-8")
    assert "DATA_DIR/cnndm has <s> or </s>" in step(STEPS[0], settings, 2).stderr
