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
from tests.conftest import PACKAGE, ROOT, Run, weights
from tests.recipes.recipe import called, printed, script, step

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
        ("dev", "a : b\na b\n", ":2 is 'a b'. Expected two characters, such as: a : ä"),
        ("test", "a b\tc\na b\n", ":2 is 'a b'. Expected a word, a tab, and a word."),
    ],
)
def test_malformed_pair_is_reported(
    run: Run, tmp_path: Path, suffix: str, text: str, told: str
) -> None:
    path = tmp_path / f"klk.0.{suffix}"
    path.write_text(text)
    words = (sys.executable, COMMON / "words.py", path, tmp_path / "src", tmp_path / "trg")
    assert f"words.py: {path}{told}" in run(*words, code=1).stderr
    assert not (tmp_path / "src").exists()


def test_a_toy_word_is_the_same_in_both_forms(tmp_path: Path) -> None:
    words, toy = script(COMMON / "words.py"), script(COMMON / "toy_words.py")
    draw = random.Random(1)
    made = [toy.word(draw) for _ in range(300)]
    train, test = tmp_path / "toy.train", tmp_path / "toy.test"
    train.write_text(toy.aligned(made), "utf-8")
    test.write_text(toy.side_by_side(made), "utf-8")
    aligned = list(words.aligned(train))
    assert aligned == list(words.side_by_side(test))
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_tiny_scale_prints_a_table(tiny: tuple[Path, list[str]]) -> None:
    rows = [line.split(" | ") for line in tiny[1][3].splitlines()]
    found = {row[1]: float(row[2].split(" ")[0]) for row in rows[2:6]}
    assert list(found) == ["nothing done", "transformer", "tagger", "augmented"]
    assert min(found["tagger"], found["augmented"]) > found["nothing done"] + 5
    assert rows[3][3].endswith("(1.00 x) |")
    stats = json.loads((tiny[0] / "stats/ocr.0.json").read_text())
    assert stats["exact_share"] == 1


@pytest.mark.slow
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


@pytest.mark.slow
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
@pytest.mark.slow
def test_a_changed_setting_stops_the_step(
    tiny: tuple[Path, list[str]], name: str, setting: str, value: str
) -> None:
    (path,) = RECIPE.glob(f"?_{name}.sh")
    shown = step(path, {**tiny_settings(tiny[0]), setting: value}, 2).stderr
    assert re.search(rf"^  {setting} was '\d+', is '{value}'", shown, re.M), shown


@pytest.mark.slow
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
            assert args.user_dir == str(PACKAGE)
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


def test_the_array_of_the_readme_has_the_prepared_folds() -> None:
    array = re.search(r"SCALE=small .*--array=0-(\d+)\n", (RECIPE / "README.md").read_text("utf-8"))
    assert array is not None
    trained = called(dry("small", "train", KINDS="tagger", TASKS="ocr"), "fairseq-train")
    assert len(trained) == int(array[1]) + 1


def test_tasks_have_any_order() -> None:
    (table,) = called(dry("tiny", "score", TASKS="spell ocr"), "python")
    assert table[table.index("--tasks") :][1:3] == ["spell", "ocr"]
