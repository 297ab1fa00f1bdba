"""`build` reuses a target only if its settings and inputs are unchanged."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, environment
from tests.recipes.recipe import script

SETTINGS = """
HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
source "COMMON/recipe.sh"
source "COMMON/launch.sh"
CHOICES="SEEDS"
WORK="${WORK:-work}" SEEDS="${SEEDS:-1 2}" TRAIN_LINES="${TRAIN_LINES:-3}" WIDTH="${WIDTH:-64}"
gpus 1
UPDATE_FREQ="$(divided 16 GPUS)"
"""

PREPARE = """#!/usr/bin/env bash
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
text() { into "$WORK/text/train" head -n "$TRAIN_LINES" "$DATA_DIR/corpus"; }
build "$WORK/text" text
"""

TRAIN = """#!/usr/bin/env bash
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
train() { # SEED
  local folder="$WORK/runs/$1"
  quietly "$folder/log" launch_train "$WORK/text/train" --width "$WIDTH" --seed "$1" \\
    --update-freq "$UPDATE_FREQ" --save-dir "$folder"
}
for seed in $SEEDS; do spawn build "$WORK/runs/$seed" train "$seed"; done
settle
"""

FAIRSEQ_TRAIN = """#!/usr/bin/env bash
while (($#)); do [[ "$1" == --save-dir ]] && folder="$2"; shift; done
echo trained >>"$folder/updates"
[[ ! -e "$KILLER" ]] || exit 1
"""


TORCHRUN = """#!/usr/bin/env bash
echo "$4" >>"${KILLER%/*}/nodes"
[[ "$4" == 0 ]] || exit 0
while [[ "$1" != rank ]]; do shift; done
exec fairseq-train "${@:2}"
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """A recipe of two steps whose training runs write one line."""
    folder = tmp_path / "recipe"
    folder.mkdir()
    (folder / "settings.sh").write_text(SETTINGS.replace("COMMON", f"{ROOT}/examples/common"))
    (folder / "1_prepare.sh").write_text(PREPARE)
    (folder / "2_train.sh").write_text(TRAIN)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/fairseq-train").write_text(FAIRSEQ_TRAIN)
    (tmp_path / "bin/torchrun").write_text(TORCHRUN)
    for name in ("fairseq-train", "torchrun"):
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "data").mkdir()
    (tmp_path / "data/corpus").write_text("a\nb\nc\nd\n")
    return folder


def step(recipe: Path, name: str, code: int = 0, **settings: str) -> str:
    """Run a step. Return its stderr."""
    root = recipe.parent
    defaults = {"WORK": f"{root}/work", "DATA_DIR": f"{root}/data", "GPUS": "1"}
    plain = environment(KILLER=f"{root}/killer", **{**defaults, **settings})
    done = subprocess.run(
        ["bash", str(next(recipe.glob(f"?_{name}.sh")))],
        env={**plain, "PATH": f"{root}/bin:{plain['PATH']}"},
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def updates(recipe: Path, seed: int = 1) -> int:
    """Return the number of training runs of a seed's model."""
    return len((recipe.parent / f"work/runs/{seed}/updates").read_text().splitlines())


@pytest.fixture
def built(recipe: Path) -> Path:
    """The recipe, after both steps."""
    step(recipe, "prepare")
    step(recipe, "train")
    return recipe


@pytest.mark.parametrize(
    "settings", [{}, {"GPUS": "4"}, {"JOBS": "2", "SEEDS": "2 1"}, {"LAUNCH": "cpu", "GPUS": "2"}]
)
def test_a_complete_target_is_reused(built: Path, settings: dict[str, str]) -> None:
    assert step(built, "train", 0, **settings).count("up to date: ") == 2
    assert (updates(built, 1), updates(built, 2)) == (1, 1)


@pytest.mark.parametrize(
    ("flags", "same", "other"),
    [
        ('--max-tokens "$(divided 800 GPUS)"', {"GPUS": "4"}, {}),
        ("--max-tokens $SIZE --update-freq $(divided 800 GPUS SIZE)", {"SIZE": "200"}, {}),
        ('--batch-size "$SIZE"', {"LAUNCH": "single"}, {"GPUS": "2"}),
        ('--max-tokens "$SIZE" --update-freq 2', {}, {"GPUS": "2", "LAUNCH": "node"}),
    ],
)
def test_batch_of_an_update_is_compared(
    recipe: Path, flags: str, same: dict[str, str], other: dict[str, str]
) -> None:
    with (recipe / "settings.sh").open("a") as settings:
        settings.write('SIZE="${SIZE:-8}" CHOICES+=" SIZE"\n')
    (recipe / "2_train.sh").write_text(TRAIN.replace('--update-freq "$UPDATE_FREQ"', flags))
    step(recipe, "prepare")
    step(recipe, "train")
    assert step(recipe, "train", 0, **same).count("up to date: ") == 2
    if other:
        assert "was built with other settings" in step(recipe, "train", 2, **other)


def test_only_the_first_node_does_more_than_to_train(recipe: Path) -> None:
    text = TRAIN.replace("\n}\nfor", '\n  into "$folder/final" cat "$folder/updates"\n}\nfor')
    (recipe / "2_train.sh").write_text(text)
    work, log = recipe.parent / "work", recipe.parent / "nodes"
    nodes = {"LAUNCH": "torchrun", "NODES": "2", "MASTER_ADDR": "first", "GPUS": "2"}
    step(recipe, "prepare", 0, NODE_RANK="1", **nodes)
    assert not (work / "text/train").exists()
    step(recipe, "prepare", 0, NODE_RANK="0", **nodes)
    step(recipe, "train", 0, NODE_RANK="1", **nodes)
    assert log.read_text().split() == ["1", "1"]
    assert not (work / "runs").exists(), "else the first node would take it for complete"
    assert not (work / "records/runs/1.json").exists()
    step(recipe, "train", 0, NODE_RANK="0", **nodes)
    assert log.read_text().split() == ["1", "1", "0", "0"]
    assert (work / "runs/1/final").read_text() == "trained\n"
    assert step(recipe, "train", 0, NODE_RANK="1", **nodes).count("up to date: ") == 2
    assert log.read_text().split() == ["1", "1", "0", "0"]


def test_a_changed_setting_stops_the_step_and_is_named(built: Path) -> None:
    shown = step(built, "train", 2, WIDTH="65", SEEDS="2 3")
    assert "$WORK/runs/2 was built with other settings:\n  WIDTH was '64', is '65'\n" in shown
    assert not (built.parent / "work/runs/3").exists()
    shown = step(built, "train", 2, TRAIN_LINES="2")
    assert "TRAIN_LINES was '3', is '2'; $WORK/text is from 1_prepare.sh" in shown
    step(built, "train", WIDTH="65", SEEDS="1", FORCE="1")
    assert updates(built) == 1, "FORCE deletes the files of the earlier training"
    assert "up to date" in step(built, "train", SEEDS="1", WIDTH="65")


def test_inputs_in_a_folder_with_a_space_are_compared(recipe: Path) -> None:
    work = f"{recipe.parent}/my work"
    step(recipe, "prepare", WORK=work)
    step(recipe, "train", WORK=work)
    assert "TRAIN_LINES was '3'" in step(recipe, "train", 2, WORK=work, TRAIN_LINES="2")


def test_a_setting_without_default_is_named_too(recipe: Path) -> None:
    text = TRAIN.replace('--save-dir "$folder"', '--save-dir "$folder" ${FLAGS:-}')
    (recipe / "2_train.sh").write_text(text)
    step(recipe, "prepare")
    step(recipe, "train", SEEDS="1")
    step(recipe, "train", SEEDS="2", FLAGS="--clip-norm 5")
    shown = step(recipe, "train", 2, SEEDS="1", FLAGS="--clip-norm 5")
    assert "FLAGS was '', is '--clip-norm 5'" in shown
    assert "FLAGS was '--clip-norm 5', is ''" in step(recipe, "train", 2, SEEDS="2")


def test_target_rebuilt_with_equal_settings_is_equal(recipe: Path) -> None:
    """Files of a later step in its folder are not inputs."""
    step(recipe, "prepare")
    step(recipe, "train", SEEDS="1")
    (recipe.parent / "work/text/train.labels").write_text("beside it\n")
    step(recipe, "train", SEEDS="2")
    shutil.rmtree(recipe.parent / "work/text")
    step(recipe, "prepare")
    shown = step(recipe, "train")
    assert shown.count("up to date: ") == 2


def test_a_target_within_a_target_depends_on_it(built: Path) -> None:
    """Example: a decoding in the folder of its model."""
    text = """source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
    build "$WORK/runs/1/decoded" into "$WORK/runs/1/decoded" cat "$WORK/runs/1/updates"
    """
    (built / "3_decode.sh").write_text(text)
    step(built, "decode")
    assert "WIDTH was '64', is '65'" in step(built, "decode", 2, WIDTH="65")
    step(built, "train", WIDTH="65", FORCE="1", SEEDS="1")
    (built.parent / "work/runs/1/decoded").write_text("of the former model")
    assert "the input $WORK/runs/1 has changed" in step(built, "decode", 2, WIDTH="65")


def test_changed_inputs_stop_the_step_and_are_named(built: Path) -> None:
    corpus = built.parent / "data/corpus"
    corpus.write_text(corpus.read_text())
    assert "up to date" in step(built, "prepare"), "the content is compared"
    corpus.write_text("e\nb\nc\nd\n")
    assert "the input $DATA_DIR/corpus has changed" in step(built, "prepare", 2)
    step(built, "prepare", FORCE="1")
    assert "the input $WORK/text has changed" in step(built, "train", 2)


def test_an_interrupted_target_resumes_with_the_same_settings_only(recipe: Path) -> None:
    step(recipe, "prepare")
    killer = recipe.parent / "killer"
    killer.touch()
    step(recipe, "train", 1, SEEDS="1")
    killer.unlink()
    assert "WIDTH was '64', is '65'" in step(recipe, "train", 2, SEEDS="1", WIDTH="65")
    assert "up to date" not in step(recipe, "train", SEEDS="1")
    assert updates(recipe) == 2


def test_a_target_of_parts_resumes_after_each_interruption(recipe: Path) -> None:
    """The folder of the parts, which changes, is written by the target, not read."""
    root = recipe.parent
    parts = """
parts() {
  run mkdir -p "$WORK/parts"
  for number in 1 2; do build "$WORK/parts/$number" run part -o "$WORK/parts/$number"; done
  into "$WORK/joined" cat "$WORK/parts/1" "$WORK/parts/2"
}
build "$WORK/joined" parts
"""
    (recipe / "3_parts.sh").write_text(PREPARE.partition("text()")[0] + parts)
    part = 'echo line >>"$2.tmp"; if [[ -e "$KILLER" ]]; then exit 1; fi; mv "$2.tmp" "$2"\n'
    (root / "bin/part").write_text(f"#!/usr/bin/env bash\n{part}")
    (root / "bin/part").chmod(0o755)
    step(recipe, "prepare")
    (root / "killer").touch()
    for _ in range(3):
        step(recipe, "parts", 1)
    (root / "killer").unlink()
    step(recipe, "parts")
    assert (root / "work/joined").read_text() == "line\n" * 5
    assert "up to date" in step(recipe, "parts")


@pytest.mark.parametrize("is_written", [False, True])
def test_force_killed_while_it_deletes_does_not_continue_an_earlier_training(
    built: Path, monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    work = built.parent / "work"
    module = script(ROOT / "examples/common/build_record.py")
    forced = {"STEP": "2_train.sh", "WORK": str(work), "HERE": str(built), "FORCE": "1"}
    write = module.Recipe.write

    def killed(*options: Any) -> None:
        if is_written:
            write(*options)
        raise KeyboardInterrupt

    monkeypatch.setattr(module.Recipe, "write", killed)
    with pytest.raises(KeyboardInterrupt):
        module.check(module.Recipe(forced), "$WORK/runs/1", "fairseq-train --width 65\n")
    record = json.loads((work / "records/runs/1.json").read_text())
    assert record["finished"] is not is_written
    assert not (work / "runs/1").exists(), "the next run would continue it"
    (work / "records/runs/1.json").unlink()
    step(built, "train", WIDTH="65", SEEDS="1")
    assert updates(built) == 1
    assert sorted(path.name for path in (work / "runs").iterdir()) == ["1", "2"]


def test_summary_is_rebuilt_for_other_seeds(built: Path) -> None:
    files = 'files=(); for seed in $SEEDS; do files+=("$WORK/runs/$seed/updates"); done\n'
    summary = 'rebuild "$WORK/all" into "$WORK/all" cat "${files[@]}"\n'
    (built / "3_score.sh").write_text(PREPARE.partition("text()")[0] + files + summary)
    step(built, "score", SEEDS="1")
    assert (built.parent / "work/all").read_text() == "trained\n"
    step(built, "score")
    assert (built.parent / "work/all").read_text() == "trained\ntrained\n"
    assert "up to date" in step(built, "score")


def test_folder_without_a_slash_is_an_input(recipe: Path) -> None:
    model = recipe.parent / "bert"
    model.mkdir()
    (model / "config").write_text("1")
    (recipe / "2_train.sh").write_text(TRAIN.replace("--width", "--edit-init bert --width"))
    step(recipe, "prepare")
    step(recipe, "train")
    (model / "config").write_text("2")
    assert "the input bert has changed" in step(recipe, "train", 2)


def test_a_moved_folder_is_the_same(built: Path) -> None:
    root = built.parent
    shutil.move(root / "work", root / "moved")
    shutil.move(root / "data", root / "copy")
    shown = step(built, "train", WORK=f"{root}/moved", DATA_DIR=f"{root}/copy")
    assert shown.count("up to date: ") == 2
    assert "up to date" in step(built, "prepare", WORK="moved", DATA_DIR="copy")


def test_a_file_of_the_user_is_used_as_it_is(recipe: Path) -> None:
    text = recipe.parent / "work/text"
    text.mkdir(parents=True)
    (text / "train").write_text("own\n")
    assert "up to date" in step(recipe, "prepare")
    step(recipe, "train")
    assert (text / "train").read_text() == "own\n"
    (text / "train").write_text("new\n")
    assert "the input $WORK/text/train has changed" in step(recipe, "train", 2)
