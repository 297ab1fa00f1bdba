"""Recipe of PIE on grammar: from a BERT to corrected text, the settings of each scale."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests import pretrained
from tests.recipes.recipe import called, parsed, printed, step, trained
from tests.recipes.stand_ins import TRAIN_STUB, learner_text, stub_commands
from tests.recipes.test_pie import RECIPE, STEPS, dry
from tests.unit.checkpoints import tiny_bert


@pytest.mark.slow
def test_grammar_runs_from_a_bert_to_corrected_text(tmp_path: Path) -> None:
    bert, data, work = tmp_path / "bert", tmp_path / "data", tmp_path / "work"
    bert.mkdir()
    data.mkdir()
    tiny_bert.save(bert)
    for split in ("train", "valid", "test"):
        (data / f"{split}.src").write_text("a c\nc c\na a c\na\n" * 10)
        (data / f"{split}.trg").write_text("ab c\nc\na c a c\na\n" * 10)
    (data / "test.src").write_text("xa c\nb zz c\n")
    (data / "test.m2").write_text(
        "S xa c\nA 0 1|||R|||a|||REQUIRED|||-NONE-|||0\n\n"
        "S b zz c\nA 1 2|||U||||||REQUIRED|||-NONE-|||0\n\n"
    )
    (data / "clean.txt").write_text("ab c ab\nc ab\nc c\n" * 20)
    (data / "valid.src").write_text(f"a c\nc zz\n{'a ' * 20}\n")  # unknown, and too long
    (data / "valid.trg").write_text(f"ab c\nc zz\n{'a ' * 20}\n")
    (data / "jfleg.src").write_text("a c\n")
    for reference in range(2):
        (data / f"jfleg.ref{reference}").write_text("a c\n")
    sizes = "--encoder-layers 2 --encoder-embed-dim 4 --encoder-ffn-embed-dim 6"
    settings = {
        "SCALE": "paper",
        "TASKS": "gec",
        "GEC_SETS": "valid test jfleg",
        "GEC_ROUNDS": "1 4",
        "DATA_DIR": str(data),
        "BERT": str(bert),
        "WORK": str(work),
        "GEC_MODELS": "1",
        "CLEAN_LINES": "40",
        "SPELL_CHECK": "sed s/^x// | cat",
        "DECODING_FLAGS": "--edit-keep-bias 1",
        "TAGGER_FLAGS": f"{sizes} --encoder-attention-heads 2 --max-source-positions 8",
    }
    shown = [step(path, settings).stdout for path in STEPS]
    assert (work / "text/gec/train.trg").read_text().startswith("a ##b c\nc\na c a c\n")
    assert len((work / "text/gec.1/train.src").read_text().splitlines()) == 40
    assert "gram ##b 10" in (work / "data/gec.1/edits.txt").read_text()
    first, run = work / "runs/gec.1.synthetic", work / "runs/gec.1.tagger"
    assert f"Initialized the encoder from {bert}" in (first / "train.log").read_text()
    loaded = f"loading pretrained model from {first}/checkpoint_last.pt"
    assert loaded in (run / "train.log").read_text()
    corrected = work / "runs/gec.all.tagger"
    for rounds in "14":
        lines = (corrected / f"test.{rounds}.txt").read_text().splitlines()
        assert lines == ["a c", "b zz c"], "spelling is checked, and unknown words are copied"
    assert "c zz" in (corrected / "valid.4.txt").read_text().splitlines(), "no <unk>"
    table = shown[3].splitlines()
    start = next(number for number, line in enumerate(table) if line.split()[-1:] == ["F_0.5"])
    rows = [line.split() for line in table[start + 1 : start + 5]]
    names = ("spelling", "1", "all@1", "all@4")
    assert [(row[0], row[3]) for row in rows] == [(name, "83.33") for name in names]
    assert "sentences of all@1 unlike those before: 0 of 2" in shown[3]
    assert "gleu" in shown[3]


@pytest.mark.slow
def test_grammar_of_learner_text_is_corrected_in_words(tmp_path: Path) -> None:
    data, work = learner_text(tmp_path / "data"), tmp_path / "work"
    pretrained.bert(tmp_path / "bert")
    settings = {"SCALE": "small", "TASKS": "gec", "DATA_DIR": str(data), "WORK": str(work)}
    settings |= {"BERT": str(tmp_path / "bert"), "GEC_MODELS": "1", "CLEAN_LINES": "40"}
    settings |= {"GEC_EPOCHS": "1", "GEC_ROUNDS": "1", "METRICS": "m2", "GEC_BATCH": "8"}
    settings |= {"LAST_LEVELS": "A fce", "LAST_EPOCHS": "1", "GEC_SETS": "dev jfleg"}
    shown = [step(path, settings).stdout for path in STEPS]
    assert (work / "text/gec/train.src").read_bytes() == (data / "train.src").read_bytes()
    assert len((work / "text/gec.1/train.src").read_text().splitlines()) == 40
    log = (work / "runs/gec.1.tagger/train.log").read_text()
    assert f"loading pretrained model from {work}/runs/gec.1.real/checkpoint_best.pt" in log
    sentences = (data / "train.src").read_text().splitlines()
    last = (work / "text/gec.last/train.src").read_text().splitlines()
    assert last == [line for at, line in enumerate(sentences) if at % 4 in (0, 3)]
    corrected = work / "runs/gec.all.tagger"
    (sentence,) = (corrected / "jfleg.1.txt").read_text().splitlines()
    assert "<unk>" not in sentence
    for name in ("dev.1.txt", "dev.1.tuned.txt"):
        assert len((corrected / name).read_text().splitlines()) == 4
    assert re.search(r"^all@1\.tuned ", shown[3], re.MULTILINE)
    assert shown[3].count("Precision") == 1, "dev by MaxMatch"
    assert "gleu|" in shown[3]
    for flags, name in (({}, "edit_init"), ({"GEC_INIT": ""}, "edit_tokenizer")):
        first, second, third = trained(printed(RECIPE, "train", settings | flags))
        for args in (first, second, third):
            assert args.edit_unit == "word"
            assert getattr(args, name) == str(tmp_path / "bert")
        assert second.finetune_from_model.endswith("gec.1.synthetic/checkpoint_last.pt")
        assert third.finetune_from_model == f"{work}/runs/gec.1.real/checkpoint_best.pt"
        assert (third.lr, third.max_epoch) == ([2e-4], 1)
        assert third.data == f"{work}/data/gec.last"


def test_force_trains_all_stages_again(tmp_path: Path) -> None:
    settings = stub_commands(tmp_path / "bin", {"fairseq-train": TRAIN_STUB})
    settings |= {"SCALE": "small", "TASKS": "gec", "DATA_DIR": "none", "BERT": str(tmp_path)}
    settings |= {"WORK": str(tmp_path / "work"), "GEC_MODELS": "1", "LAST_LEVELS": "A"}
    for folder in ("gec", "gec.1", "gec.last"):
        (tmp_path / "work/text" / folder).mkdir(parents=True)
        (tmp_path / "work/text" / folder / "train.src").write_text("a\n")
    step(STEPS[1], settings)
    assert step(STEPS[1], settings).stderr.count("up to date: ") == 3
    step(STEPS[1], settings | {"FORCE": "1", "GEC_LR": "1e-4"})
    for stage in ("synthetic", "real", "tagger"):
        last = tmp_path / f"work/runs/gec.1.{stage}/checkpoint_last.pt"
        assert last.read_text() == "trained\n", "else it was resumed"


def test_grammar_is_corrected_with_tuned_options() -> None:
    settings = {"TASKS": "gec", "GEC_MODELS": "1 2", "GEC_SETS": "dev", "GEC_ROUNDS": "1 4"}
    commands = dry("small", "decode", DATA_DIR="data", **settings)
    tunings = [words for words in called(commands, "fairseq-ssl") if words[0] == "edits"]
    assert [words[words.index("--model") + 1 : words.index("--data-dir")] for words in tunings] == [
        [f"work/pie/small/runs/gec.{number}.tagger/final.pt" for number in numbers]
        for numbers in ("1", "2", "12")
    ]
    rounds = []
    for flag, file, program, *words in called(commands, "xargs"):
        assert (flag, program) == ("-a", "fairseq-generate")
        args = parsed("generation", [*words, "--edit-keep-bias", "0.3"])
        assert args.edit_keep_bias == 0.3
        rounds.append((Path(file).parent.name, args.edit_iterations))
    assert rounds == [(f"gec.{model}.tagger", n) for model in (1, 2, "all") for n in (1, 4)]
    for settings["TUNE"], scale in (("", "small"), ("", "paper")):
        assert not called(dry(scale, "decode", DATA_DIR="data", **settings), "xargs")


def test_models_can_be_added_to_the_ensemble(tmp_path: Path) -> None:
    stubs = {"fairseq-generate": "echo H-0", "fairseq-ssl": "echo words"}
    settings = stub_commands(tmp_path / "bin", stubs) | {"SCALE": "small", "TASKS": "gec"}
    settings |= {"WORK": str(tmp_path), "DATA_DIR": "none", "GEC_SETS": "dev", "GEC_ROUNDS": "1"}
    for models in ("1", "1 2"):
        step(STEPS[2], settings | {"GEC_MODELS": models})
    for name in ("tuned.txt", "dev.1.txt", "dev.1.tuned.txt"):
        assert "gec.2.tagger" in (tmp_path / f"records/runs/gec.all.tagger/{name}.json").read_text()


def test_grammar_is_trained_as_in_section_3_1() -> None:
    commands = dry("paper", "train", TASKS="gec", GPUS="2", LAUNCH="node")
    stages = trained(commands)
    assert len(stages) == 5 * 2
    for first, second in zip(stages[:5], stages[5:], strict=True):
        assert first.edit_init == "/bert"
        assert not hasattr(second, "edit_init")
        assert second.finetune_from_model == f"{first.save_dir}/checkpoint_last.pt"
        assert first.data.endswith(f"/data/gec.{first.seed}")
        assert second.data.endswith("/data/gec")
        assert (first.optimizer, second.optimizer) == ("bert_adam", "bert_adam")
        for args, pairs in ((first, 8865347), (second, 1200000)):
            assert args.skip_invalid_size_inputs_valid_test
            assert (args.arch, args.edit_copy_weight) == ("edit_tagger_large", 0.4)
            assert (2 * args.batch_size, args.lr, args.max_epoch) == (64, [2e-5], 2)
            assert float(args.total_num_update) == 2 * -(-pairs // 64)
    prepared = called(dry("paper", "prepare", TASKS="gec"), "fairseq-ssl")
    noises = [words for words in prepared if words[0] == "noise"]
    assert [words[words.index("--seed") + 1] for words in noises] == list("12345")
    assert all(words[words.index("--method") + 1] == "learner" for words in noises)
    (counted,) = [words for words in prepared if words[:2] == ["edits", "dictionary"]]
    options = " ".join(counted)
    assert "--max-ngram 2" in options
    assert "--size 1000 --transforms english --groups none" in options


def test_the_rows_of_table_6_are_settings() -> None:
    def row(**settings: str) -> Any:
        one = {"TASKS": "gec", "GEC_MODELS": "1", "SYNTHETIC": "", **settings}
        (args,) = trained(dry("paper", "train", **one))
        return args

    alone = row()  # row 2, modified by the next four
    assert alone.edit_init == "/bert"
    assert not hasattr(alone, "finetune_from_model") or not alone.finetune_from_model
    assert row(TAGGER_FLAGS="--edit-unfactorized").edit_unfactorized
    assert row(TAGGER_FLAGS="--edit-gap-inserts").edit_gap_inserts
    prepared = dry("paper", "prepare", TASKS="gec", SYNTHETIC="", TRANSFORMS="none")
    assert not [words for words in called(prepared, "fairseq-ssl") if words[0] == "noise"]
    (counted,) = [w for w in called(prepared, "fairseq-ssl") if w[:2] == ["edits", "dictionary"]]
    assert "--transforms none" in " ".join(counted)
    assert not hasattr(row(GEC_INIT=""), "edit_init")
    assert row(GEC_ARCH="edit_tagger_base").arch == "edit_tagger_base"


def test_dictionary_of_a_killed_step_is_deleted() -> None:
    """fairseq-preprocess would not replace it."""
    commands = dry("small", "prepare", TASKS="gec", GEC_MODELS="1")
    folder = "work/pie/small/dictionary"
    counted = next(at for at, words in enumerate(commands) if "--dict-only" in words)
    assert ["rm", "-rf", folder] in commands[:counted]
    assert folder in commands[counted]


def test_a_folder_may_have_spaces(tmp_path: Path) -> None:
    work = tmp_path / "a folder"
    commands = dry("small", "prepare", TASKS="gec", GEC_MODELS="1", WORK=str(work))
    (counted,) = [words for words in called(commands, "fairseq-ssl") if words[0] == "spelling"]
    assert counted[-2] == f"{work}/raw/counts.gz"
    checks = [words[1] for words in called(commands, "bash") if "spelling correct" in words[1]]
    assert checks
    assert all(f"{work}/raw/counts.gz" in shlex.split(check.replace(";", " ")) for check in checks)
