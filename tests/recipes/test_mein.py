"""The recipe of MEIN: its tiny scale runs, its paper scale is what the thesis says."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import fairseq_ssl
from tests.conftest import PACKAGE, ROOT
from tests.recipes.recipe import called, printed, script, step

fairseq_ssl.register()
from fairseq import options  # noqa: E402

RECIPE = ROOT / "examples/mein"
STEPS = sorted(RECIPE.glob("[1-9]_*.sh"))


def dry(name: str, **settings: str) -> list[list[str]]:
    return printed(RECIPE, name, {"SCALE": "paper", **settings})


def training(words: list[str]) -> Any:
    return options.parse_args_and_arch(options.get_training_parser(), words)


def test_tiny_runs_from_texts_to_a_table(tmp_path: Path) -> None:
    settings = {"WORK": str(tmp_path), "EXPERTS": "lstm", "EPOCHS": "2", "FINE_EPOCHS": "1"}
    settings |= {"KINDS": "alone lines.500", "IMITATOR_EPOCHS": "1"}
    shown = [step(path, settings).stdout for path in STEPS]
    rows = [line for line in shown[-1].splitlines() if line.startswith("| toy")]
    assert [row.split(" | ")[2] for row in rows] == ["alone", "lines.500"]
    told = json.loads((tmp_path / "scores/toy.lstm.json").read_text())["systems"]
    assert told["lines.500"]["against"]["baseline"] == "alone"
    assert (tmp_path / "figures/toy.lstm.lines.png").stat().st_size > 1000
    for path in STEPS[:4]:
        again = step(path, settings).stderr.splitlines()
        done = [line for line in again if not line.startswith("==>")]
        assert done, path
        assert all(line.startswith("there already: ") for line in done), again


def test_the_paper_scale_is_that_of_table_3_2() -> None:
    commands = called(dry("expert", TASKS="rcv1", SEEDS="1"), "fairseq-train")
    lm, *experts = [training(words) for words in commands]
    assert (lm.task, lm.arch, lm.criterion) == (
        "language_modeling",
        "recurrent_lm",
        "adaptive_loss",
    )
    assert [one.criterion.partition("_")[0] for one in experts] == [
        *("classification", "classification", "adversarial", "virtual"),
    ]
    for args in experts:
        assert args.user_dir == PACKAGE.name
        assert (args.recurrent_embed_dim, args.recurrent_hidden_dim) == (256, 1024)
        assert (args.classifier_mlp_dim, args.recurrent_dropout) == (128, 0.5)
        assert (args.lr, args.lr_decay, args.lr_deacy_period) == ([0.001], 0.9998, 1)
        assert (args.batch_size, args.max_epoch) == (32, 30)
        assert hasattr(args, "classifier_lm") == (args is not experts[0])
    assert experts[2].adversarial_epsilon == 5
    assert experts[3].classification_others == 1


def test_imitators_and_mixtures_of_the_paper_scale() -> None:
    settings = {"TASKS": "elec", "SEEDS": "1", "EXPERTS": "adv"}
    found = [training(one) for one in called(dry("imitate", **settings), "fairseq-train")]
    windows = [one.imitator_windows for one in found]
    assert windows[:5] == 5 * ["1,2,3,4"]
    assert windows[5:] == ["1", "1,2", "1,2,3", "2,3,4", "3,4", "4", "1,2,3,4,5"]
    lines = [getattr(one, "classification_unlabelled_lines", None) for one in found[:5]]
    assert lines == [None, 5000, 20000, 50000, 100000]
    assert {(one.imitator_embed_dim, one.imitator_channels) for one in found} == {(512, 512)}
    found = [training(one) for one in called(dry("mixture", **settings), "fairseq-train")]
    assert len(found) == 13
    assert {(one.lr[0], one.max_epoch, one.criterion) for one in found} == {
        (0.0001, 30, "adversarial_cross_entropy")
    }
    assert [one.mixture_random for one in found if hasattr(one, "mixture_random")] == [4]


def test_each_training_command_of_each_scale_is_understood_by_fairseq() -> None:
    for scale, count in (("tiny", 2), ("small", 2 + 18), ("paper", 4 + 80)):
        commands = called(dry("expert", SCALE=scale), "fairseq-train")
        assert len(commands) == count
        for words in commands:
            training(words)
    labels = called(dry("imitate", SCALE="small"), "fairseq-ssl")
    assert len(labels) == 2 * 3 * 3 * 2
    assert all(words[:2] == ["classify", "label"] for words in labels)


@pytest.mark.parametrize(("labels", "kept"), [("", [None, "1000"]), ("500", ["500", "500"])])
def test_few_labels_are_kept(labels: str, kept: list[str | None]) -> None:
    commands = called(dry("prepare", SCALE="small", LABELS=labels), "fairseq-ssl")
    found = [dict(pairwise(words)).get("--train-lines") for words in commands]
    assert found == kept


def test_figures_have_all_imitators_where_their_windows_and_their_texts_stand() -> None:
    kinds = ("alone", "windows.3-4", "windows.1", "windows.1-2-3-4-5", "imitators", "windows.1-2")
    table = script(RECIPE / "table.py")
    systems = {kind: {"error": {"mean": len(kind), "sd": 1.0}} for kind in kinds}
    found = table.points(systems, "windows.", "1-2-3-4")
    assert [one[0] for one in found] == ["1", "1-2", "1-2-3-4", "1-2-3-4-5", "3-4"]
    assert found[2][1] == len("imitators")
    assert table.points(systems, "lines.", "all") == []
    systems["lines.20000"] = systems["lines.5000"] = systems["alone"]
    found = table.points(systems, "lines.", "all")
    assert [one[0] for one in found] == ["5000", "20000", "all"]
    (words,) = [one for one in dry("score", TASKS="elec") if one[1].endswith("table.py")]
    assert words[-2:] == ["--windows", "1,2,3,4"]


@pytest.mark.parametrize(
    ("settings", "code", "message"),
    [
        ({"SCALE": "large"}, 2, "SCALE has 'large'; expected tiny, small, paper."),
        ({"EXPERTS": "cnn"}, 2, "EXPERTS has 'cnn'; expected lstm, lm, adv, vat."),
        ({"TASKS": "imdb"}, 2, "TASKS has 'imdb'; expected toy."),
        (
            {"KINDS": "lines.x"},
            2,
            "KINDS has 'lines.x'; expected alone, imitators, random, lines.N",
        ),
        ({"SCALE": "small", "DATA_DIR": ""}, 2, "folder with rotten_tomatoes/train.tsv"),
    ],
)
def test_a_wrong_setting_is_refused(
    settings: dict[str, str], code: int, message: str, tmp_path: Path
) -> None:
    assert message in step(STEPS[0], {"WORK": str(tmp_path), **settings}, code).stderr
