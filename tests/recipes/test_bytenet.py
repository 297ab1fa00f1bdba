"""The recipe of ByteNet: its tiny scale runs, its others are what the slides' author did."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import fairseq_ssl
from tests.conftest import ROOT
from tests.recipes.recipe import called, printed, step

fairseq_ssl.register()
from fairseq import options  # noqa: E402

RECIPE = ROOT / "examples/bytenet"
STEPS = sorted(RECIPE.glob("[1-9]_*.sh"))


def trainings(**settings: str) -> list[Any]:
    """What a scale would train, as fairseq's own parser reads it."""
    commands = called(printed(RECIPE, "train", settings), "fairseq-train")
    parser = options.get_training_parser
    return [options.parse_args_and_arch(parser(), words) for words in commands]


def digits(folder: Path, *flags: str) -> dict[str, list[str]]:
    """The lines of each file that the command writes."""
    words = [sys.executable, str(RECIPE / "digits.py"), str(folder), *flags]
    subprocess.run(words, check=True)
    return {path.name: path.read_text("utf-8").splitlines() for path in folder.iterdir()}


def test_digits_are_those_of_the_authors_seeds_and_the_unseen_ones_unseen(tmp_path: Path) -> None:
    files = digits(tmp_path / "one", "--unlabelled", "512", "--test", "5")
    # numpy.random.RandomState(10) drew them; longer sets begin as shorter ones do
    assert files["train.digits"][:4] == ["4 5 2", "1 9", "4 8 4", files["train.digits"][3]]
    assert files["train.words"][1] == "o n e _ n i n e"
    sizes = {name: len(files[f"{name}.digits"]) for name in ("train", "mono", "test", "valid")}
    assert sizes == {"train": 128, "mono": 512, "test": 5, "valid": 128}
    known = {*files["train.digits"], *files["mono.digits"]}
    unseen = set(files["unseen.digits"])
    assert not known & unseen
    assert len(known | unseen) == 1100
    assert {len(line.split()) for line in unseen} == {2, 3}
    more = digits(tmp_path / "more", "--labelled", "256")
    assert more["train.digits"][:128] == files["train.digits"]
    assert digits(tmp_path / "two", "--run", "2")["train.digits"] != files["train.digits"]
    symbols = {entry.split()[0] for entry in files["dict.txt"]}
    assert symbols == set(" ".join(files["unseen.digits"] + files["unseen.words"]).split())


def test_wrong_characters_are_counted_as_the_slides_do(tmp_path: Path) -> None:
    lines = [
        *("T-0\t0 2", "H-0\t-0.1\t0 2"),
        *("T-1\t8 4 4", "H-1\t-0.1\t8 4"),  # the end is early, 2 of 3 are right
        *("T-2\t1 2", "H-2\t-0.1\t2 2 2"),  # 1 of 4
        *("T-3\t1 2", "H-3\t-0.1\t"),  # the end alone, and wrong
    ]
    (tmp_path / "generated").write_text("\n".join(lines), encoding="utf-8")
    words = [sys.executable, str(RECIPE / "misclassification.py"), str(tmp_path / "generated")]
    shown = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)
    assert shown["misclassification"] == pytest.approx((0 + 1 / 3 + 3 / 4 + 1) / 4)
    assert (shown["sentences"], shown["sentences_wrong"]) == (4, 0.75)


def test_the_tiny_scale_runs_and_is_found_done(tmp_path: Path) -> None:
    settings = {"SCALE": "tiny", "WORK": str(tmp_path), "EPOCHS": "1", "TEST": "8"}
    shown = [step(path, settings).stdout for path in STEPS]
    rows = [line.split(" | ")[1:4] for line in shown[3].splitlines()[2:4]]
    assert rows == [["16", "0", "0"], ["16", "16", "0.2"]]
    for path in STEPS[:3]:
        again = step(path, settings).stderr.splitlines()
        assert all(line.startswith(("==>", "there already: ")) for line in again), again


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


@pytest.mark.parametrize("scale", ["small", "paper"])
def test_every_command_of_the_other_tasks_is_one_of_fairseqs(scale: str) -> None:
    found = trainings(SCALE=scale, TASKS="memorise text", SEEDS="1")
    kinds = [(args.task, args.criterion) for args in found]
    both = ("reconstruction_translation", "reconstruction_loss")
    back = ("tagged_translation", "label_smoothed_cross_entropy")
    # in a dry run back-translation finds no supervised model, and would train it
    assert kinds == [("translation", "cross_entropy"), both, both, back, both]
    assert found[0].max_epoch == 120
    assert [args.reconstruction_target_text is None for args in found[1:3]] == [True, True]
    assert found[-1].reconstruction_start_update > 0
    decoded = called(
        printed(RECIPE, "decode", {"SCALE": scale, "TASKS": "memorise text"}), "fairseq-generate"
    )
    for words in decoded:
        options.parse_args_and_arch(options.get_generation_parser(), words)


@pytest.mark.parametrize(
    ("settings", "code", "message"),
    [
        ({"TASKS": "digit"}, 2, "TASKS has 'digit'; expected digits, memorise, text."),
        ({"KINDS": "bt"}, 2, "KINDS has 'bt'"),
        ({"SCALE": "small", "TASKS": "text", "DATA_DIR": ""}, 1, "folder with multi30k"),
    ],
)
def test_a_wrong_setting_is_refused(
    settings: dict[str, str], code: int, message: str, tmp_path: Path
) -> None:
    assert message in step(STEPS[0], {"WORK": str(tmp_path), **settings}, code).stderr
