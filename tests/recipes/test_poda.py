"""Recipe of PoDA: the tiny scale runs, the paper scale follows the paper."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import fairseq_ssl
from fairseq_ssl.data.oov_dictionary import OovDictionary
from tests.conftest import PACKAGE, ROOT
from tests.recipes.recipe import called, learner_text, printed, step, stops_for, stub_commands

fairseq_ssl.register()
from fairseq import options  # noqa: E402

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


def training(words: list[str]) -> Any:
    return options.parse_args_and_arch(options.get_training_parser(), words)


@pytest.mark.slow
def test_tiny_scale_runs_and_is_reused(tmp_path: Path) -> None:
    settings = {"SCALE": "tiny", "WORK": str(tmp_path), "AMOUNTS": "all", "KINDS": "pretrained"}
    settings |= {"PRETRAIN_EPOCHS": "9", "PRETRAIN_FLAGS": "--max-epoch 2", "STARTS": "2"}
    settings |= {"EPOCHS": "1"}
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
    for number, epoch in ((1, 2), (2, 1)):  # the last checkpoints
        signature = (tmp_path / f"pretrained/start.{number}.pt.json").read_text("utf-8")
        assert f"pretrained/checkpoint{epoch}.pt" in signature
    names = (tmp_path / "text/learner/train.trg").read_text("utf-8").split()
    vocabulary = (tmp_path / "dictionary/dict.en.txt").read_text("utf-8").split("\n")[:96]
    assert set(names) - {
        entry.split(" ")[0] for entry in vocabulary
    }  # some words can only be copied
    for path in STEPS[:4]:
        again = step(path, settings).stderr
        done = {line for line in again.splitlines() if not line.startswith("==>")}
        assert done, path
        assert all(line.startswith("up to date: ") for line in done), again
    for number, name, value in (
        *((1, "SEGMENT", "64"), (1, "ERRORS", "denoise"), (2, "LAYERS", "2"), (2, "SEED", "2")),
        *((3, "VOCABULARY", "90"), (3, "LR", "1e-3"), (4, "BEAM", "4")),
    ):
        stops_for(STEPS[number - 1], settings, name, value)


def test_pretraining_is_the_papers() -> None:
    (words,) = called(dry("pretrain", LAUNCH="node"), "fairseq-train")
    args = training(words)
    assert (args.user_dir, args.arch) == (str(PACKAGE), "pointer_transformer")
    assert (args.task, args.noise, args.denoise_keep_rate) == (
        *("denoising_pretraining", "denoise"),
        0.03,
    )
    assert (args.criterion, args.optimizer, args.lr) == ("denoising_cross_entropy", "nag", [2e-3])
    assert (args.lr_scheduler, args.lr_shrink) == ("reduce_lr_on_plateau", 0.5)
    assert (args.stop_min_lr, args.clip_norm) == (1e-4, 2)
    assert (args.dropout, args.attention_dropout, args.activation_dropout) == (0.2, 0.2, 0.2)
    assert (args.store_ema, args.ema_decay, args.copy_vocabulary) == (True, 0.9995, 50_000)
    assert (args.max_tokens, args.max_update, args.update_freq) == (3000, 5_000_000, [1])
    assert (args.max_epoch, args.keep_interval_updates_pattern) == (0, 250_000)
    assert (args.encoder_layers, args.decoder_layers, args.encoder_embed_dim) == (6, 6, 512)
    assert (args.encoder_ffn_embed_dim, args.decoder_attention_heads) == (4096, 8)
    (words,) = called(dry("pretrain", GPUS="1", LR="1e-3"), "fairseq-train")
    args = training(words)
    # without warm-up, fairseq begins with the warm-up learning rate
    assert (args.update_freq, args.lr, args.warmup_init_lr) == ([4], [1e-3], 1e-3)


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
    wrong = step(STEPS[0], {**settings, "TASKS": "learner"}, 2).stderr
    assert "TASKS has 'learner'. Expected gec." in wrong


def test_each_amount_has_a_warm_up_and_an_average_that_fit_it(tmp_path: Path) -> None:
    settings = {"SCALE": "small", "KINDS": "scratch pretrained", "WORK": str(tmp_path)}
    pairs = tmp_path / "data/learner.all/train.src-trg.src"
    pairs.parent.mkdir(parents=True)
    pairs.write_text("eight words and the end of a line\n" * 30_000, encoding="utf-8")
    found: dict[str, tuple[float, ...]] = {}
    for words in called(printed(RECIPE, "finetune", settings), "fairseq-train"):
        args = training(words)
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


def test_summaries_have_at_most_130_words_and_others_more_than_their_sources() -> None:
    commands = called(dry("decode", TASKS="cnndm gigaword", KINDS="untuned"), "fairseq-generate")
    found = [options.parse_args_and_arch(options.get_generation_parser(), w) for w in commands]
    assert [(args.max_len_a, args.max_len_b) for args in found] == [(0, 130), (1.5, 10)]
    assert found[0].truncate_source_words == 800


def test_grammar_is_scored_and_plotted(tmp_path: Path) -> None:
    """Without trainings a figure is skipped without an error."""
    text, run = tmp_path / "held-out/conll.test", tmp_path / "runs/conll.all.pretrained.1"
    for path, content in (
        (tmp_path / "data/conll.all/train.src-trg.src", "a\n"),
        (text / "test.m2", "S a dog bark\nA 2 3|||V|||barks|||REQUIRED|||-NONE-|||0\n\n"),
        (run / "test.txt", "a dog barks\n"),
        (tmp_path / "analysis/samples.txt", ""),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    settings = {
        **PAPER,
        "TASKS": "conll jfleg",
        "KINDS": "pretrained",
        "SEEDS": "1",
        "ENSEMBLE": "0",
    }
    settings |= {"WORK": str(tmp_path), "DATA_DIR": "none"}
    shown = step(STEPS[4], {**settings, "TASKS": "conll"}).stdout
    assert "| conll | test | all | pretrained | 100.00 (1) |" in shown
    assert re.search(r"^conll test: m2\|", shown, re.M)
    told = step(STEPS[5], settings).stderr
    assert (tmp_path / "analysis/amounts.conll.png").stat().st_size > 5000
    assert "conll: no trainings to plot by epoch" in told
    assert "jfleg: no scores to plot by amount" in told


def test_prompts_are_in_the_commands() -> None:
    """Samples of other prompts are not reused."""
    (words,) = called(dry("analyse", PROMPTS="one word|a  *"), "printf")
    assert words == [r"%s\n", "one word", "a  *"]


def test_models_of_all_seeds_are_an_ensemble() -> None:
    commands = called(dry("decode", TASKS="jfleg", KINDS="pretrained untuned"), "fairseq-generate")
    paths = [options.parse_args_and_arch(options.get_generation_parser(), w).path for w in commands]
    assert [path.count(":") for path in paths] == [0, 0, 0, 0, 0, 3]


def test_seeds_can_be_added_to_the_ensemble(tmp_path: Path) -> None:
    stubs = {"fairseq-generate": "echo H-0", "fairseq-ssl": "echo '[]'"}
    settings = stub_commands(tmp_path / "bin", stubs) | {"WORK": str(tmp_path), "ENSEMBLE": "1"}
    settings |= {"AMOUNTS": "all", "KINDS": "pretrained"}
    (tmp_path / "held-out/learner.test").mkdir(parents=True)
    (tmp_path / "held-out/learner.test/test.src-trg.src").write_text("a\n")
    for seeds in ("1", "1 2"):
        for path in STEPS[3:5]:
            step(path, {**settings, "SEEDS": seeds})
    record = (tmp_path / "records/runs/learner.all.pretrained.all/test.txt.json").read_text()
    assert "pretrained.1/final.pt:" in record


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


def test_missing_gold_files_are_listed_before_anything_is_built(tmp_path: Path) -> None:
    settings = paper_data(tmp_path) | {"SETS": "valid test"}
    missing = ["conll/valid.m2", "conll/test.m2", "jfleg/test.ref2", "cnndm/test.trg"]
    for name in missing:
        (tmp_path / name).unlink()
    (problem,) = step(STEPS[0], settings, 2).stderr.splitlines()[1:]
    assert {word.removeprefix(f"{tmp_path}/") for word in problem.split()} >= set(missing)
    assert not (tmp_path / "work").exists()


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
    wrong = step(STEPS[1], settings | {"KINDS": "after1"}, 1).stderr
    assert "KINDS has after1" in wrong
    for path in (STEPS[1], STEPS[5]):  # other tasks keep the pre-training and its samples
        again = step(path, settings | {"TASKS": "gigaword", "SETS": "valid"}).stderr
        lines = [line for line in again.splitlines() if str(tmp_path) in line]
        assert lines
        assert all(line.startswith("up to date: ") for line in lines), again


def test_starts_can_be_lowered_if_pretraining_ends_early(tmp_path: Path) -> None:
    train = """
while (($#)); do [[ "$1" == --save-dir ]] && folder="$2"; shift; done
touch "$folder"/checkpoint{1,2,_1_5000,_best,_last}.pt
"""
    ssl = """
echo "$2" >"${@: -1}" # average CHECKPOINT --ema -o OUTPUT
"""
    stubs = {"fairseq-train": train, "fairseq-ssl": f'[[ "$1" == average ]] || exec echo "$0"{ssl}'}
    settings = stub_commands(tmp_path / "bin", stubs) | {"WORK": str(tmp_path)}
    assert "has fewer than 3" in step(STEPS[1], {**settings, "STARTS": "3"}, 1).stderr
    assert "up to date" in step(STEPS[1], {**settings, "STARTS": "2"}).stderr
    for number, epoch in ((1, 2), (2, 1)):
        start = tmp_path / f"pretrained/start.{number}.pt"
        assert start.read_text().endswith(f"pretrained/checkpoint{epoch}.pt\n")


def test_a_summary_does_not_end_at_a_sentence_mark(tmp_path: Path) -> None:
    shown = dry("score", TASKS="cnndm", KINDS="untuned", WORK=str(tmp_path))
    (words,) = called(shown, "fairseq-ssl")
    mark = words[words.index("--sentence-mark") + 1]
    ids = OovDictionary().encode_line(f"first {mark} second").tolist()
    assert ids.index(OovDictionary().eos()) == 3
    settings = paper_data(tmp_path) | {"TASKS": "cnndm"}
    (tmp_path / "cnndm/train.trg").write_text("first </s> second\n", encoding="utf-8")
    assert "DATA_DIR/cnndm has <s> or </s>" in step(STEPS[0], settings, 2).stderr


@pytest.mark.parametrize(
    ("settings", "code", "message"),
    [
        ({"KINDS": "bert"}, 2, "KINDS has 'bert'. Expected scratch, pretrained, encoder_only"),
        ({"AMOUNTS": "many"}, 2, "AMOUNTS has 'many'. Expected all, or a number of pairs"),
        ({"AMOUNTS": "401"}, 2, "'401'. Expected all, or a number of pairs, at most 400."),
        ({"TASKS": "conll"}, 2, "TASKS has 'conll'. Expected learner."),
        ({"SETS": "jfleg"}, 2, "SETS has 'jfleg'. Expected valid, test."),
        ({"SCALE": "small", "DATA_DIR": ""}, 2, "folder with multi30k"),
        ({**PAPER, "DATA_DIR": ""}, 2, "folder with wikipedia.txt"),
        ({**PAPER, "SENTENCE_MARK": "</s>"}, 2, "'</s>', a special symbol of fairseq"),
        ({**PAPER, "GPUS": "16", "MAX_TOKENS": "750"}, 2, "cnndm have up to 801 tokens"),
        ({"STARTS": "5"}, 2, "STARTS is '5'. Expected a number, at most 4,"),
        ({"TUNING_LINES": "9999"}, 1, "no lines remain for pre-training"),
    ],
)
def test_a_wrong_setting_is_rejected(
    settings: dict[str, str], code: int, message: str, tmp_path: Path
) -> None:
    assert message in step(STEPS[0], {"WORK": str(tmp_path), **settings}, code).stderr
