"""Recipe of ByteNet: the tiny scale runs, the others follow the author of the slides."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import fairseq_ssl

fairseq_ssl.register()
from fairseq import options  # noqa: E402
from fairseq.data import data_utils  # noqa: E402

from fairseq_ssl.models.bytenet import ByteNetConfig  # noqa: E402
from tests.conftest import ROOT  # noqa: E402
from tests.recipes.recipe import TRAIN_STUB, called, printed, script, step, stub_commands  # noqa: E402

RECIPE = ROOT / "examples/bytenet"
STEPS = sorted(RECIPE.glob("[1-9]_*.sh"))


def trainings(**settings: str) -> list[Any]:
    """Return the training commands of a scale, parsed by fairseq."""
    commands = called(printed(RECIPE, "train", settings), "fairseq-train")
    parser = options.get_training_parser
    return [options.parse_args_and_arch(parser(), words) for words in commands]


def digits(folder: Path, *flags: str) -> dict[str, list[str]]:
    """Return the lines of each output file."""
    words = [sys.executable, str(RECIPE / "digits.py"), str(folder), *flags]
    subprocess.run(words, check=True)
    return {path.name: path.read_text("utf-8").splitlines() for path in folder.iterdir()}


def test_digits_follow_the_authors_seeds_and_unseen_ones_are_unseen(tmp_path: Path) -> None:
    files = digits(tmp_path / "one", "--unlabeled", "512", "--test", "5")
    # drawn by numpy.random.RandomState(10); longer sets start with shorter ones
    assert files["train.digits"][:4] == ["4 5 2", "1 9", "4 8 4", files["train.digits"][3]]
    assert files["train.words"][1] == "o n e _ n i n e"
    sizes = {name: len(files[f"{name}.digits"]) for name in ("train", "mono", "test", "valid")}
    assert sizes == {"train": 128, "mono": 512, "test": 5, "valid": 128}
    whole = digits(tmp_path / "whole", "--unlabeled", "1024")
    assert whole["mono.digits"][:512] == files["mono.digits"]
    known = {*files["train.digits"], *whole["mono.digits"]}
    unseen = set(files["unseen.digits"])
    assert files["unseen.digits"] == whole["unseen.digits"], "whatever text a run has"
    assert not known & unseen
    assert len(known | unseen) == 1100
    assert {len(line.split()) for line in unseen} <= {2, 3}
    more = digits(tmp_path / "more", "--labeled", "256")
    assert more["train.digits"][:128] == files["train.digits"]
    other = digits(tmp_path / "two", "--run", "2", "--test", "5")
    assert other["train.digits"] != files["train.digits"]
    assert other["test.digits"] != files["test.digits"]
    # drawn by numpy.random.RandomState(2), for every run
    assert other["final.digits"] == files["final.digits"] == ["1 9", "6 6", "2 9 1", "8 9 7", "1 1"]
    symbols = {entry.split()[0] for entry in files["dict.txt"]}
    assert symbols == set(" ".join(files["unseen.digits"] + files["unseen.words"]).split())


def test_wrong_characters_are_counted_as_the_slides_do(tmp_path: Path) -> None:
    lines = [
        *("T-0\t0 2", "H-0\t-0.1\t0 2"),
        *("T-1\t8 4 4", "H-1\t-0.1\t8 4"),  # early </s>, 2 of 3 are correct
        *("T-2\t1 2", "H-2\t-0.1\t2 2 2"),  # 1 of 4
        *("T-3\t1 2", "H-3\t-0.1\t"),  # only </s>, and wrong
    ]
    (tmp_path / "generated").write_text("\n".join(lines), encoding="utf-8")
    words = [sys.executable, str(RECIPE / "misclassification.py"), str(tmp_path / "generated")]
    shown = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)
    assert shown["misclassification"] == pytest.approx((0 + 1 / 3 + 3 / 4 + 1) / 4)
    assert (shown["sentences"], shown["sentences_wrong"]) == (4, 0.75)


def test_authors_numbers_are_only_in_rows_of_his_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = script(RECIPE / "digits_table.py")
    for run in ("bytenet_digits-64-0-0-1", "bytenet_selu-64-0-0-1", "lstm-64-0-0-1"):
        (tmp_path / run).mkdir()
        (tmp_path / run / "final.json").write_text('{"misclassification": 0.5}')
    monkeypatch.setattr(sys, "argv", ["digits_table.py", str(tmp_path), "--sets", "final"])
    table.main()
    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()[2:5]]
    assert [(row[0], row[4].strip()) for row in rows] == [
        ("bytenet_digits", "0.4195"),
        ("bytenet_selu", ""),
        ("lstm", "0.5552"),
    ]
    assert table.published(("lstm", "64", "512", "0.2")) == ""
    assert table.published(("bytenet_digits", "256", "1024", "0.2")) == "0.0949"


@pytest.mark.slow
def test_tiny_scale_runs_and_is_reused(tmp_path: Path) -> None:
    settings = {"SCALE": "tiny", "WORK": str(tmp_path), "EPOCHS": "1", "TEST": "8"}
    shown = [step(path, settings).stdout for path in STEPS]
    rows = [line.split(" | ")[1:4] for line in shown[3].splitlines()[2:4]]
    assert rows == [["16", "0", "0"], ["16", "16", "0.2"]]
    assert "| final | test | unseen |" in shown[3]
    models = [line.split(" | ")[0] for line in shown[3].splitlines() if "bytenet_digits-" in line]
    assert models == ["| bytenet_digits-16-0-0", "| bytenet_digits-16-16-0.2"]
    assert (tmp_path / "figures/digits.png").stat().st_size > 1000
    curves = json.loads((tmp_path / "figures/digits.json").read_text())
    assert len(curves["bytenet_digits-16-0-0"]["train"]) == 1, "a point for each epoch"
    for path in STEPS[:3]:
        again = step(path, settings).stderr.splitlines()
        assert all(line.startswith(("==>", "up to date: ")) for line in again), again
    for number, changed, shown_change in (
        (0, {"TEST": "9"}, "TEST was '8', is '9'"),
        (1, {"LR": "0.01"}, "LR was '0.001', is '0.01'"),
        (2, {"DECODING_FLAGS": "--nbest 1"}, "DECODING_FLAGS was '', is '--nbest 1'"),
        (3, {"LR": "0.01"}, "LR was '0.001', is '0.01'; $WORK/runs/digits/bytenet_digits-16-0-0-1"),
    ):
        assert shown_change in step(STEPS[number], settings | changed, 2).stderr
    step(STEPS[0], {**settings, "UNLABELED": "0 16 24"})
    sizes = {amount: _lines(tmp_path / f"data/digits.16.1.mono.{amount}") for amount in (16, 24)}
    assert sizes == {16: 16, 24: 24}, "a grid can be widened later"


def test_digits_are_trained_on_as_the_author_did() -> None:
    found = trainings(SCALE="small", TASKS="digits")
    assert len(found) == 3 * (1 + 2 * 3) * 5
    for args in found:
        assert (args.arch, args.bytenet_dim) == ("bytenet_digits", 20)
        assert (args.lr, args.batch_size, args.max_epoch) == ([0.001], 8, 300)
        assert (args.reconstruction_beam, args.max_epoch % args.save_interval) == (5, 0)
    texts = [args for args in found if args.reconstruction_source_text]
    assert {args.reconstruction_weight for args in texts} == {"0.01", "0.1", "0.2"}
    assert len(texts) == 90


def _lines(folder: Path) -> int:
    """Return the number of training sentences in a folder of fairseq-preprocess."""
    found = data_utils.load_indexed_dataset(str(folder / "train.words-None.words"))
    return len(found)


@pytest.mark.parametrize("scale", ["small", "paper"])
def test_every_command_of_the_other_tasks_is_one_of_fairseqs(scale: str) -> None:
    found = trainings(SCALE=scale, TASKS="memorize text", SEEDS="1")
    kinds = [(args.task, args.criterion) for args in found]
    both = ("reconstruction_translation", "reconstruction_loss")
    back = ("tagged_translation", "label_smoothed_cross_entropy")
    alone = ("translation", "cross_entropy")
    # memorization by the four variants of the slides at the paper's scale, and ByteNet on Europarl
    first = 5 * [alone] if scale == "paper" else [alone]
    # a dry run has no supervised model, so back-translation would train it
    assert kinds == [*first, both, both, back, both]
    ends = (120, None) if scale == "paper" else (50, 36)
    assert (found[0].max_epoch, found[0].force_anneal) == ends
    texts = found[len(first) :]
    assert [args.reconstruction_target_text is None for args in texts[:2]] == [True, True]
    assert texts[-1].reconstruction_start_update > 0
    assert {(args.clip_norm, args.label_smoothing) for args in texts} == {(5, 0.1)}
    assert texts[2].sentence_avg, "as reconstruction_loss does"
    decoded = called(
        printed(RECIPE, "decode", {"SCALE": scale, "TASKS": "memorize text"}), "fairseq-generate"
    )
    for words in decoded:
        options.parse_args_and_arch(options.get_generation_parser(), words)


def test_bytenet_is_trained_on_europarl_as_the_author_did() -> None:
    settings = {"SCALE": "paper", "TASKS": "text", "KINDS": "bytenet", "SEEDS": "1"}
    (args,) = trainings(**settings)
    assert (args.arch, args.lr, args.max_epoch) == ("bytenet", [3e-4], 13)
    assert ByteNetConfig.from_namespace(args).bytenet_dim == 400
    assert args.batch_size * args.update_freq[0] == 64
    assert args.max_source_positions == args.max_target_positions == 500
    assert args.data == "work/bytenet/paper/data/characters"
    made = called(printed(RECIPE, "prepare", settings), "fairseq-preprocess")
    assert made[-1][made[-1].index("--destdir") + 1] == args.data
    assert "--joined-dictionary" in made[-1]
    table = printed(RECIPE, "score", {**settings, "KINDS": "bytenet supervised"})[-2]
    published = ["--published", "bytenet=7.44", "bytenet_simplified=0.55"]
    assert table[-6:] == ["--rows", "bytenet", "supervised", *published]


def test_the_architectures_of_europarl_are_a_setting() -> None:
    settings = {"SCALE": "paper", "TASKS": "text", "KINDS": "bytenet", "SEEDS": "1 2"}
    settings["BYTENET_ARCHS"] = "bytenet bytenet_simplified"
    found = [(args.arch, Path(args.save_dir).name) for args in trainings(**settings)]
    assert sorted(found) == [
        *(("bytenet", f"bytenet.{seed}") for seed in (1, 2)),
        *(("bytenet_simplified", f"bytenet_simplified.{seed}") for seed in (1, 2)),
    ]
    decoded = called(printed(RECIPE, "decode", settings), "fairseq-generate")
    assert all("--unnormalized" in words for words in decoded)
    assert {words[words.index("--beam") + 1] for words in decoded} == {"12"}  # the author's search
    folders = {Path(words[words.index("--path") + 1]).parent.name for words in decoded}
    assert folders == {name for _, name in found}
    table = printed(RECIPE, "score", settings)[-2]
    assert table[table.index("--rows") + 1 :][:2] == ["bytenet", "bytenet_simplified"]


def test_the_four_variants_memorize_in_the_sizes_of_the_slides() -> None:
    variants = ["bytenet", "bytenet_simplified", "bytenet_no_norm", "bytenet_selu"]
    for scale, dims in (("paper", [400, 200, 400, 400]), ("small", [128, 64, 128, 128])):
        settings = {"SCALE": scale, "TASKS": "memorize"}
        if scale == "small":
            settings["MEMORIZE_ARCHS"] = " ".join(variants)
        found = trainings(**settings)
        assert [args.arch for args in found] == variants
        sizes = [ByteNetConfig.from_namespace(args).bytenet_dim for args in found]
        assert sizes == dims
        batches = {(args.batch_size, *args.update_freq) for args in found}
        assert batches == {(16, 4) if scale == "paper" else (16, 1)}
    (args, *_) = trainings(SCALE="paper", TASKS="memorize", GPUS="4")
    assert (args.batch_size, args.update_freq) == (16, [1])


LOG = """\
t | INFO | fairseq_cli.train | num. shared model params: 1,234 (num. trained: 1,234)
t | INFO | train_inner | epoch 001:     50 / 100 loss=9, num_updates=50, train_wall=5
t | INFO | train | epoch 001 | loss 60.5 | nll_loss 3 | ups 10 | num_updates 100 | train_wall 10
t | INFO | valid | epoch 001 | valid on 'valid' subset | loss 50 | nll_loss 2.5 | num_updates 100
t | INFO | train | epoch 002 | loss 50.5 | nll_loss 2 | ups 5 | num_updates 200 | train_wall 20
t | INFO | train | epoch 002 | loss 50.5 | nll_loss 1 | ups 0.5 | num_updates 200 | train_wall 190
t | INFO | valid | epoch 002 | valid on 'valid' subset | loss 50 | nll_loss 2.75 | num_updates 200
"""


def test_curves_and_speeds_are_those_of_the_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second epoch was repeated after an interruption."""
    for seed, loss in (("1", "nll_loss 1 "), ("2", "nll_loss 4 ")):
        (tmp_path / f"runs/bytenet.{seed}").mkdir(parents=True)
        (tmp_path / f"runs/bytenet.{seed}/train.log").write_text(LOG.replace("nll_loss 1 ", loss))
    (tmp_path / "runs/bytenet.1/test.bleu.json").write_text('{"score": 12.5}')
    words = [str(tmp_path / "runs"), str(tmp_path / "text.png"), "--bleu", "test.bleu.json"]
    monkeypatch.setattr(sys, "argv", ["learning_curves.py", *words])
    script(RECIPE / "learning_curves.py").main()
    table = capsys.readouterr().out.splitlines()
    assert [cell.strip() for cell in table[0].strip("|").split(" | ")][-3:] == [
        *("updates/s", "s/epoch", "BLEU"),
    ]
    assert table[2] == (
        "| bytenet | 1,234 | 200 | 2.50 ± 2.12 (2) | 2.50 ± 0.00 (2) | 1.00 ± 0.00 (2) "
        "| 100.00 ± 0.00 (2) | 12.50 (1) |"
    )
    numbers = json.loads((tmp_path / "text.json").read_text())["bytenet"]
    assert numbers == {
        "train": {"100": [3.0, 3.0], "200": [1.0, 4.0]},
        "valid": {"100": [2.5, 2.5], "200": [2.75, 2.75]},
    }
    assert (tmp_path / "text.png").stat().st_size > 1000


def test_a_published_score_has_its_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "supervised.1").mkdir()
    score = '{"score": 20.0, "signature": "x"}'
    (tmp_path / "supervised.1/test.bleu.json").write_text(score)
    words = ["bleu_table.py", str(tmp_path), "--heads", "kind", "--rows", "bytenet", "supervised"]
    monkeypatch.setattr(sys, "argv", [*words, "--published", "bytenet=7.44"])
    script(ROOT / "examples/common/bleu_table.py").main()
    assert capsys.readouterr().out.splitlines()[:4] == [
        "| kind | valid | test | published |",
        "| --- | --- | --- | --- |",
        "| bytenet | not run | not run | 7.44 |",
        "| supervised | not run | 20.00 (1) |  |",
    ]


def test_text_can_have_an_architecture_that_shares_no_embeddings() -> None:
    settings = {"SCALE": "paper", "TASKS": "text", "KINDS": "supervised", "SEEDS": "1"}
    (args,) = trainings(**settings, TEXT_ARCH="bytenet_v2", TEXT_FLAGS="")
    assert (args.arch, args.bytenet_dim) == ("bytenet_v2", 800)


@pytest.mark.slow
def test_an_interrupted_back_translation_resumes(tmp_path: Path) -> None:
    """Its model must be the same file, and --force would translate from the first line."""
    ssl = """
while (($#)); do
  case "$1" in
    -o) output="$2" ;;
    export) echo export >>"$LOG" ;;
    back-translate)
      echo "$@" >>"$LOG"
      [[ -e "$LOG.started" ]] || { touch "$LOG.started"; exit 1; }
      ;;
  esac
  shift
done
[[ -z "${output:-}" ]] || touch "$output"
"""
    stubs = {"fairseq-train": TRAIN_STUB, "fairseq-preprocess": "", "fairseq-ssl": ssl}
    settings = stub_commands(tmp_path / "bin", stubs) | {"LOG": str(tmp_path / "log")}
    settings |= {"SCALE": "small", "WORK": str(tmp_path), "TASKS": "text", "SEEDS": "1"}
    settings |= {"KINDS": "backtranslation"}
    step(STEPS[1], settings, 1)
    step(STEPS[1], settings)
    calls = (tmp_path / "log").read_text().splitlines()
    assert [line.split()[0] for line in calls] == ["export", "export", *["back-translate"] * 2]
    assert "--force" not in calls[-1]
    step(STEPS[1], {**settings, "FORCE": "1"})
    assert (tmp_path / "log").read_text().splitlines()[-1].endswith(" --force")


def test_flags_of_the_readme_are_flags_of_all_trainings() -> None:
    (flags,) = re.findall(r'`FLAGS="([^"]+)"`', (RECIPE / "README.md").read_text("utf-8"))
    found = trainings(SCALE="small", SEEDS="1", LABELED="64", FLAGS=flags)
    assert {args.task for args in found} >= {"reconstruction_translation", "translation"}


@pytest.mark.parametrize(
    ("settings", "code", "message"),
    [
        ({"TASKS": "digit"}, 2, "TASKS has 'digit'. Expected digits, memorize, text."),
        ({"KINDS": "bt"}, 2, "KINDS has 'bt'"),
        ({"SETS": "train"}, 2, "SETS has 'train'. Expected final, test, unseen."),
        ({"UNLABELED": "0 2048"}, 2, "UNLABELED has '2048'. Expected 0 to 1024"),
        ({"WEIGHTS": "0.1 1e-3"}, 2, "WEIGHTS has '1e-3'. Expected numbers without exponent"),
        ({"SCALE": "small", "TASKS": "text", "DATA_DIR": ""}, 2, "folder with multi30k"),
    ],
)
def test_a_wrong_setting_is_rejected(
    settings: dict[str, str], code: int, message: str, tmp_path: Path
) -> None:
    assert message in step(STEPS[0], {"WORK": str(tmp_path), **settings}, code).stderr


@pytest.mark.parametrize("task", ["memorize", "text"])
def test_an_incomplete_archive_is_rejected(task: str, tmp_path: Path) -> None:
    text = gzip.compress("".join(f"line {at}\n" for at in range(3000)).encode())
    (tmp_path / "multi30k").mkdir()
    for split in ("train", "val", "test_2016_flickr"):
        for language in ("de", "en"):
            half = text[: len(text) // 2] if (split, language) == ("train", "en") else text
            (tmp_path / f"multi30k/{split}.{language}.gz").write_bytes(half)
    settings = {"SCALE": "small", "TASKS": task, "DATA_DIR": str(tmp_path)}
    step(STEPS[0], {**settings, "WORK": str(tmp_path / "work")}, 1)
    assert not list((tmp_path / "work").rglob("*.en"))
