"""Recipe of PIE: the tiny scale runs, the paper scale follows the paper."""

from __future__ import annotations

import json
import random
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import fairseq_ssl
from tests import pretrained
from tests.conftest import PACKAGE, ROOT, Run, weights
from tests.recipes.recipe import called, learner_text, printed, script, step
from tests.unit.checkpoints import tiny_bert

fairseq_ssl.register()
from fairseq import options  # noqa: E402

RECIPE, COMMON = ROOT / "examples/pie", ROOT / "examples/common"
STEPS = sorted(RECIPE.glob("[1-9]_*.sh"))

ALIGNED = 'M : m\nä : ä\n0 : i\n: : 0\n"0" : "0"\nw : vv\n\n: : :\n\n0 : "0"\n1 : 1\n'


def dry(scale: str, name: str, **settings: str) -> list[list[str]]:
    return printed(RECIPE, name, {"SCALE": scale, "BERT": "/bert", **settings})


def training(words: list[str]) -> Any:
    return options.parse_args_and_arch(options.get_training_parser(), words)


def test_words_of_ocrpp_are_converted_to_two_sides(run: Run, tmp_path: Path) -> None:
    (tmp_path / "klk.0.train").write_text(ALIGNED)
    (tmp_path / "klk.0.test").write_text("0 l\t0 1\nä\tä\n")
    for suffix, source, target in (
        ("train", "M ä : 0 w\n:\n1\n", "m ä i 0 v v\n:\n0 1\n"),
        ("test", "0 l\nä\n", "0 1\nä\n"),
    ):
        files = (tmp_path / f"klk.0.{suffix}", tmp_path / "out/src", tmp_path / "out/trg")
        run(sys.executable, COMMON / "words.py", *files)
        assert [path.read_text() for path in files[1:]] == [source, target]


@pytest.mark.parametrize(
    ("suffix", "text", "told"),
    [
        ("dev", "a : b\na b\n", "line 2 is 'a b'. Expected two characters, such as: a : ä"),
        ("test", "a b\tc\na b\n", "line 2 is 'a b'. Expected a word, a tab, and a word."),
    ],
)
def test_malformed_pair_is_reported(
    run: Run, tmp_path: Path, suffix: str, text: str, told: str
) -> None:
    path = tmp_path / f"klk.0.{suffix}"
    path.write_text(text)
    words = (sys.executable, COMMON / "words.py", path, tmp_path / "src", tmp_path / "trg")
    assert f"{path}: {told}" in run(*words, code=1).stderr
    assert not (tmp_path / "src").exists()


def test_a_toy_word_is_the_same_in_both_forms() -> None:
    words, toy = script(COMMON / "words.py"), script(COMMON / "toy_words.py")
    draw = random.Random(1)
    made = [toy.word(draw) for _ in range(300)]
    aligned = list(words.aligned(iter(toy.aligned(made).splitlines())))
    assert aligned == list(words.side_by_side(iter(toy.side_by_side(made).splitlines())))
    assert 0.1 < sum(read != wanted for read, wanted in aligned) / len(aligned) < 0.9


def test_new_errors_have_the_counted_distribution() -> None:
    """One a in six is read as o, one a is lost, and one ii in two is read as n."""
    module = script(COMMON / "synthetic_words.py")
    pairs = [
        ("ao", "aa"),
        ("a", "aa"),
        ("aa", "aa"),
        ("bn", "bii"),
        ("bii", "bii"),
        ("xyzuvw", "b"),
    ]
    model = module.ErrorModel([(tuple(wrong), tuple(right)) for wrong, right in pairs])
    draw = random.Random(1)
    made = ["".join(model.misread(tuple("bcii"), draw)) for _ in range(4000)]
    assert set(made) == {"bcii", "bcn"}
    assert made.count("bcn") / len(made) == pytest.approx(1 / 2, abs=0.03)
    made = ["".join(model.misread(("a",), draw)) for _ in range(4000)]
    assert made.count("o") / len(made) == pytest.approx(1 / 6, abs=0.03)
    assert set(made) == {"a", "o"}, "a word that would be lost is right"


@pytest.mark.parametrize(
    ("wrong", "right", "found"),
    [
        ("abc", "abc", []),
        ("lewitcttim", "lewitettiin", [(5, 6, ("c",)), (9, 11, ("m",))]),
        ("xab", "ab", [(0, 0, ("x",))]),
        ("a", "ab", [(1, 2, ())]),
        ("wholly", "other", []),
    ],
)
def test_errors_of_a_pair(wrong: str, right: str, found: list[tuple[int, int, Any]]) -> None:
    module = script(COMMON / "synthetic_words.py")
    assert module.errors(tuple(wrong), tuple(right)) == found


def test_an_augmented_tagger_learns_from_more_than_the_data(tiny: tuple[Path, list[str]]) -> None:
    text, more = tiny[0] / "text/ocr.0", tiny[0] / "text/ocr.0.augmented"
    for side in ("src", "trg"):
        given = (text / f"train.{side}").read_text()
        assert (more / f"train.{side}").read_text().endswith(given)
        assert (more / f"valid.{side}").read_bytes() == (text / f"valid.{side}").read_bytes()
    assert (more / "train.trg").read_text() == (text / "train.trg").read_text() * 6
    learned = [
        Path(training(words).data).name
        for words in called(dry("small", "train", FOLDS="3"), "fairseq-train")
    ]
    assert learned == ["ocr.3", "ocr.3.augmented", "ocr.3"]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """Folder and output of all steps at the tiny scale."""
    work = tmp_path_factory.mktemp("tiny")
    return work, [step(path, tiny_settings(work)).stdout for path in STEPS]


def tiny_settings(work: Path) -> dict[str, str]:
    few = {"UPDATES": "150", "MAX_EPOCH": "1", "SETS": "test"}
    return {"SCALE": "tiny", "WORK": str(work), **few}


def test_the_tiny_scale_prints_a_table(tiny: tuple[Path, list[str]]) -> None:
    rows = [line.split(" | ") for line in tiny[1][3].splitlines()]
    found = {row[1]: float(row[2].split(" ")[0]) for row in rows[2:6]}
    assert list(found) == ["nothing done", "transformer", "tagger", "augmented"]
    assert min(found["tagger"], found["augmented"]) > found["nothing done"] + 5
    assert rows[3][3].endswith("(1.00 x) |")
    stats = json.loads((tiny[0] / "stats/ocr.0.json").read_text())
    assert stats["exact_share"] == 1


def test_text_and_labels_are_binarized_into_one_folder(tiny: tuple[Path, list[str]]) -> None:
    data, text = tiny[0] / "data/ocr.0", tiny[0] / "text/ocr.0"
    labels = tiny[0] / "edits/ocr.0/labels.txt"
    assert (data / "dict.edits.txt").read_text() == labels.read_text()
    assert (data / "dict.src.txt").read_bytes() == (data / "dict.trg.txt").read_bytes()
    assert (data / "test.src-trg.src").read_bytes() == (text / "test.src").read_bytes()
    for split in ("train", "valid"):
        for pair, sides in (("src-trg", ("src", "trg")), ("edits-None", ("edits",))):
            assert all((data / f"{split}.{pair}.{side}.idx").exists() for side in sides)
    assert not data.with_name("ocr.0.tmp").exists()


def test_complete_targets_are_reused(tiny: tuple[Path, list[str]]) -> None:
    for path in STEPS[:3]:
        again = step(path, tiny_settings(tiny[0])).stderr
        done = {line for line in again.splitlines() if not line.startswith("==>")}
        assert done, path
        assert all(line.startswith("up to date: ") for line in done), again


@pytest.mark.parametrize(
    ("name", "setting", "value"),
    [("prepare", "EDIT_SIZE", "99"), ("train", "LAYERS", "3"), ("decode", "BEAM", "1")],
)
def test_a_changed_setting_stops_the_step(
    tiny: tuple[Path, list[str]], name: str, setting: str, value: str
) -> None:
    (path,) = RECIPE.glob(f"?_{name}.sh")
    shown = step(path, {**tiny_settings(tiny[0]), setting: value}, 2).stderr
    assert re.search(rf"^  {setting} was '\d+', is '{value}'", shown, re.M), shown


def test_interrupted_targets_are_rebuilt(tiny: tuple[Path, list[str]], tmp_path: Path) -> None:
    work = tmp_path / "work"
    shutil.copytree(tiny[0], work)
    settings = {**tiny_settings(work), "KINDS": "tagger"}
    data, run = work / "data/ocr.0", work / "runs/ocr.0.tagger"
    (data / "train.src-trg.trg.idx").unlink()
    data.rename(data.with_name("ocr.0.tmp"))
    step(STEPS[0], settings)
    assert (data / "train.src-trg.trg.idx").exists()
    assert not data.with_name("ocr.0.tmp").exists()
    before = weights(run / "final.pt")
    (run / "final.pt").unlink()
    record = work / "records/runs/ocr.0.tagger.json"
    record.write_text(record.read_text().replace('"finished": true', '"finished": false'))
    step(STEPS[1], settings)
    after = weights(run / "final.pt")
    assert all(torch.equal(weight, after[name]) for name, weight in before.items())
    assert "Loaded checkpoint" in (run / "train.log").read_text()


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
        "SPELL_CHECK": "sed s/^x//",
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


def test_grammar_of_learner_text_is_corrected_in_words(tmp_path: Path) -> None:
    data, work = learner_text(tmp_path / "data"), tmp_path / "work"
    pretrained.bert(tmp_path / "bert")
    settings = {"SCALE": "small", "TASKS": "gec", "DATA_DIR": str(data), "WORK": str(work)}
    settings |= {"BERT": str(tmp_path / "bert"), "GEC_MODELS": "1", "CLEAN_LINES": "40"}
    settings |= {"GEC_EPOCHS": "1", "GEC_ROUNDS": "1", "METRICS": "m2", "GEC_BATCH": "8"}
    shown = [step(path, settings).stdout for path in STEPS]
    assert (work / "text/gec/train.src").read_bytes() == (data / "train.src").read_bytes()
    assert len((work / "text/gec.1/train.src").read_text().splitlines()) == 40
    log = (work / "runs/gec.1.tagger/train.log").read_text()
    assert "loading pretrained model from" in log
    corrected = work / "runs/gec.all.tagger"
    (sentence,) = (corrected / "jfleg.1.txt").read_text().splitlines()
    assert "<unk>" not in sentence
    for name in ("dev.1.txt", "dev.1.tuned.txt"):
        assert len((corrected / name).read_text().splitlines()) == 4
    assert re.search(r"^all@1\.tuned ", shown[3], re.MULTILINE)
    assert shown[3].count("Precision") == 2, "valid and dev by MaxMatch"
    assert "gleu|" in shown[3]
    for flags, name in (({}, "edit_init"), ({"GEC_INIT": ""}, "edit_tokenizer")):
        first, second = called(printed(RECIPE, "train", settings | flags), "fairseq-train")
        for words in (first, second):
            args = training(words)
            assert args.edit_unit == "word"
            assert getattr(args, name) == str(tmp_path / "bert")
        assert training(second).finetune_from_model.endswith("gec.1.synthetic/checkpoint_last.pt")


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
        args = options.parse_args_and_arch(
            options.get_generation_parser(), [*words, "--edit-keep-bias", "0.3"]
        )
        assert args.edit_keep_bias == 0.3
        rounds.append((Path(file).parent.name, args.edit_iterations))
    assert rounds == [(f"gec.{model}.tagger", n) for model in (1, 2, "all") for n in (1, 4)]
    for settings["TUNE"], scale in (("", "small"), ("", "paper")):
        assert not called(dry(scale, "decode", DATA_DIR="data", **settings), "xargs")


def test_each_training_command_of_each_scale_is_understood_by_fairseq() -> None:
    for scale, tasks, count in (
        ("tiny", "ocr", 3),
        ("small", "ocr spell", 30),
        ("paper", "ocr spell gec", 50),
    ):
        commands = called(dry(scale, "train", TASKS=tasks), "fairseq-train")
        assert len(commands) == count
        for words in commands:
            args = training(words)
            assert args.user_dir == PACKAGE.name
            assert (args.task == "edit_labeling") == (args.criterion == "edit_cross_entropy")


def test_words_are_corrected_as_in_tables_12_and_13() -> None:
    for task, layers in (("ocr", 1), ("spell", 2)):
        tagger, other = (
            training(words)
            for words in called(dry("paper", "train", TASKS=task, FOLDS="9"), "fairseq-train")
        )
        assert (tagger.arch, tagger.max_source_positions) == ("edit_tagger_small", 40)
        sizes = (tagger.encoder_layers, tagger.encoder_embed_dim, tagger.encoder_ffn_embed_dim)
        assert (*sizes, tagger.encoder_attention_heads) == (4, 200, 400, 4)
        assert (tagger.dropout, tagger.attention_dropout) == (0.1, 0.1)
        assert tagger.edit_copy_weight == 1
        assert not hasattr(tagger, "edit_init")
        assert tagger.max_update == float(tagger.total_num_update)
        assert (tagger.best_checkpoint_metric, other.best_checkpoint_metric) == ("exact", "loss")
        assert (other.encoder_layers, other.decoder_layers) == (2, layers)
        for side in ("encoder", "decoder"):
            found = [getattr(other, f"{side}_{name}") for name in ("embed_dim", "ffn_embed_dim")]
            assert [*found, getattr(other, f"{side}_attention_heads")] == [200, 400, 4]
    words = called(dry("small", "train", FOLDS="0", DECODER_LAYERS="2"), "fairseq-train")[2]
    assert training(words).decoder_layers == 2
    flags = {"TAGGER_FLAGS": "--dropout 0.3", "UPDATES": "9", "FOLDS": "0", "KINDS": "tagger"}
    for autocast in ({}, {"AUTOCAST": ""}):
        (words,) = called(dry("small", "train", **flags, **autocast), "fairseq-train")
        args = training(words)
        assert (args.dropout, args.max_update) == (0.3, 9)
        assert args.amp == (not autocast)


def test_grammar_is_trained_as_in_section_3_1() -> None:
    commands = dry("paper", "train", TASKS="gec", GPUS="2", LAUNCH="node")
    stages = [training(words) for words in called(commands, "fairseq-train")]
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


def test_small_encoders_have_their_own_settings() -> None:
    one = {"TASKS": "gec", "GEC_MODELS": "1"}
    prepared = called(dry("small", "prepare", **one), "fairseq-ssl")
    (counted,) = [words for words in prepared if words[:2] == ["edits", "dictionary"]]
    assert "--size 2500 --transforms english --groups all" in " ".join(counted)
    (noise,) = [words for words in prepared if words[0] == "noise"]
    assert "learner:listed=true:measured=true" in noise
    assert noise[noise.index("--learner-errors") + 1].endswith("raw/words.json")
    (noise,) = [
        words
        for words in called(dry("small", "prepare", **one, NOISE="direct"), "fairseq-ssl")
        if words[0] == "noise"
    ]
    assert "--learner-errors" not in noise
    settings = {"GEC_LR": "3e-4", "SYNTHETIC_LR": "5e-4"}
    commands = dry("small", "train", **one, **settings)
    synthetic, real = (training(words) for words in called(commands, "fairseq-train"))
    assert (synthetic.max_epoch, real.max_epoch) == (1, 4)
    assert (synthetic.lr, real.lr) == ([5e-4], [3e-4])


def test_the_rows_of_table_6_are_settings() -> None:
    def trained(**settings: str) -> list[Any]:
        one = {"TASKS": "gec", "GEC_MODELS": "1", **settings}
        return [training(words) for words in called(dry("paper", "train", **one), "fairseq-train")]

    (alone,) = trained(SYNTHETIC="")  # row 2, modified by the next four
    assert alone.edit_init == "/bert"
    assert not hasattr(alone, "finetune_from_model") or not alone.finetune_from_model
    (unfactorized,) = trained(SYNTHETIC="", TAGGER_FLAGS="--edit-unfactorized")
    assert unfactorized.edit_unfactorized
    (gaps,) = trained(SYNTHETIC="", TAGGER_FLAGS="--edit-gap-inserts")
    assert gaps.edit_gap_inserts
    prepared = dry("paper", "prepare", TASKS="gec", SYNTHETIC="", TRANSFORMS="none")
    assert not [words for words in called(prepared, "fairseq-ssl") if words[0] == "noise"]
    (counted,) = [w for w in called(prepared, "fairseq-ssl") if w[:2] == ["edits", "dictionary"]]
    assert "--transforms none" in " ".join(counted)
    (random_weights,) = trained(SYNTHETIC="", GEC_INIT="")
    assert not hasattr(random_weights, "edit_init")
    assert {args.arch for args in trained(GEC_ARCH="edit_tagger_base")} == {"edit_tagger_base"}


def test_spelling_at_the_paper_scale_takes_as_many_passes_as_its_transformer() -> None:
    for scale, updates in (("small", 2000), ("paper", 15400)):
        commands = dry(scale, "train", TASKS="spell", FOLDS="0", KINDS="tagger")
        (words,) = called(commands, "fairseq-train")
        assert training(words).max_update == updates


def test_decoding_and_preprocessing_commands_are_understood_by_fairseq() -> None:
    decoding = called(dry("paper", "decode", TASKS="ocr spell gec"), "fairseq-generate")
    assert len(decoding) == 2 * 10 * 2 * 2 + 6 * 2
    models = []
    for words in decoding:
        args = options.parse_args_and_arch(options.get_generation_parser(), words)
        if args.task == "translation":
            assert args.beam == 5
        else:
            assert args.edit_iterations == (4 if "gec" in args.path else 1)
        models.append(args.path.count(":") + 1)
    assert models == [1] * 90 + [5] * 2, "the ensemble comes last, of valid and of test"
    for words in called(dry("paper", "prepare", TASKS="ocr spell gec"), "fairseq-preprocess"):
        args = options.get_preprocessing_parser().parse_args(words)
        assert args.joined_dictionary or args.srcdict


def test_commands_for_your_data_run_as_printed(run: Run, tmp_path: Path) -> None:
    own_data = (RECIPE / "README.md").read_text().partition("## Use your data")[2]
    commands = own_data.split("```")[1].replace("--max-epoch 20", "--max-epoch 1 --cpu")
    run(sys.executable, COMMON / "toy_sentences.py", tmp_path / "all", "--lines", "60")
    sentences = (tmp_path / "all").read_text().splitlines()
    for number, split in enumerate(("train", "valid", "test")):
        correct = sentences[number * 20 : number * 20 + 20]
        (tmp_path / f"{split}.trg").write_text("\n".join(correct) + "\n")
        wrong = (line.replace("the ", "", 1).replace("s ", " ", 1) for line in correct)
        (tmp_path / f"{split}.src").write_text("\n".join(wrong) + "\n")
    done = run("bash", "-e", "-c", commands, cwd=tmp_path)
    assert done.stdout.count("\nH-") == 20
    assert "precision" in done.stdout, "edits tune"


@pytest.mark.parametrize(
    ("settings", "code", "message"),
    [
        ({"SCALE": "large"}, 2, "SCALE has 'large'. Expected tiny, small, paper."),
        ({"KINDS": "rnn"}, 2, "KINDS has 'rnn'. Expected tagger, augmented, transformer."),
        ({"TASKS": "gec"}, 2, "TASKS has 'gec'. Expected ocr, spell."),
        ({"SETS": "train"}, 2, "SETS has 'train'. Expected valid, test."),
        ({"SCALE": "small", "DATA_DIR": ""}, 2, "folder with ocr/klk.0.train"),
        ({"SCALE": "paper", "TASKS": "gec", "BERT": "b", "DATA_DIR": ""}, 2, "with train.src"),
        ({"SCALE": "paper", "TASKS": "gec", "DATA_DIR": "d", "BERT": ""}, 1, "folder of a BERT"),
    ],
)
def test_a_wrong_setting_is_rejected(
    settings: dict[str, str], code: int, message: str, tmp_path: Path
) -> None:
    assert message in step(STEPS[0], {"WORK": str(tmp_path), **settings}, code).stderr
