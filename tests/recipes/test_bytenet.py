"""Recipe of ByteNet: the tiny scale runs, the others follow the author of the slides."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import fairseq_ssl

fairseq_ssl.register()
from fairseq.data import data_utils  # noqa: E402

from fairseq_ssl.models.bytenet import ByteNetConfig  # noqa: E402
from tests.conftest import ROOT  # noqa: E402
from tests.recipes.recipe import are_reused, called, printed, put, script, step, trained  # noqa: E402
from tests.recipes.stand_ins import TRAIN_STUB, stub_commands  # noqa: E402

RECIPE = ROOT / "examples/bytenet"
STEPS = sorted(RECIPE.glob("[1-9]_*.sh"))


def trainings(**settings: str) -> list[Any]:
    """Return the training commands of a scale, parsed by fairseq."""
    return trained(printed(RECIPE, "train", settings))


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
    are_reused(STEPS[:3], settings, "1 TEST=9, 2 LR=0.01, 3 DECODING_FLAGS=--nbest 1, 4 LR=0.01")
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


def test_translation_is_trained_alone_and_with_reconstruction() -> None:
    alone, *texts = trainings(SCALE="small", TASKS="memorize text", SEEDS="1")
    assert (alone.task, alone.max_epoch, alone.force_anneal) == ("translation", 50, 36)
    # a dry run has no supervised model, so back-translation would train it
    losses = ["reconstruction_loss"] * 2 + ["label_smoothed_cross_entropy", "reconstruction_loss"]
    assert [args.criterion for args in texts] == losses
    assert [args.reconstruction_target_text is None for args in texts[:2]] == [True, True]
    assert texts[-1].reconstruction_start_update > 0
    assert {(args.clip_norm, args.label_smoothing) for args in texts} == {(5, 0.1)}
    assert texts[2].sentence_avg, "as reconstruction_loss does"


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


def test_the_four_variants_memorize_in_the_sizes_of_the_slides() -> None:
    variants = ["bytenet", "bytenet_simplified", "bytenet_no_norm", "bytenet_selu"]
    found = trainings(SCALE="paper", TASKS="memorize")
    assert [args.arch for args in found] == variants
    dims = [ByteNetConfig.from_namespace(args).bytenet_dim for args in found]
    assert dims == [400, 200, 400, 400]
    assert {(args.batch_size, *args.update_freq) for args in found} == {(16, 4)}
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
    put(tmp_path / "runs/bytenet.1/train.log", LOG)
    put(tmp_path / "runs/bytenet.2/train.log", LOG.replace("nll_loss 1 ", "nll_loss 4 "))
    put(tmp_path / "runs/bytenet.1/test.bleu.json", '{"score": 12.5}')
    words = [str(tmp_path / "runs"), str(tmp_path / "text.png"), "--bleu", "test.bleu.json"]
    monkeypatch.setattr(sys, "argv", ["learning_curves.py", *words])
    script(RECIPE / "learning_curves.py").main()
    table = capsys.readouterr().out.splitlines()
    assert table[2] == (
        "| bytenet | 1,234 | 200 | 2.50 ± 2.12 (2) | 2.50 ± 0.00 (2) | 1.00 ± 0.00 (2) "
        "| 100.00 ± 0.00 (2) | 12.50 (1) |"
    )
    numbers = json.loads((tmp_path / "text.json").read_text())["bytenet"]
    assert numbers["train"] == {"100": [3.0, 3.0], "200": [1.0, 4.0]}
    assert (tmp_path / "text.png").stat().st_size > 1000


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
