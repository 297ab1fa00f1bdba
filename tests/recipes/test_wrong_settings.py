"""Wrong settings of recipes are rejected before anything is built."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.recipes.recipe import step

EXAMPLES = ROOT / "examples"
FIRST = sorted(EXAMPLES.glob("*/1_*.sh"))


@pytest.mark.parametrize(
    "row",  # step, and settings of which the last one is wrong
    [
        "bytenet/1_prepare KINDS=bt",
        "bytenet/1_prepare UNLABELED=2048",
        "bytenet/1_prepare WEIGHTS=1e-3",
        "bytenet/1_prepare SCALE=paper TASKS=text KINDS=supervised GPUS=8",
        "gec_pseudo_data/1_prepare SYSTEMS=jiont",
        "gec_pseudo_data/1_prepare SYSTEMS=joint-drect-toys-3",
        "gec_pseudo_data/1_prepare SYSTEMS=joint-direct-toy-3",
        "gec_pseudo_data/1_prepare SYSTEMS=joint-direct-toys-9000",
        "gec_pseudo_data/1_prepare SYSTEMS=joint-direct-toys-3+direct-toys-3",
        "gec_pseudo_data/1_prepare SYSTEMS=pretrain-direct-toys-3+spell-toys-900",
        "gec_pseudo_data/1_prepare SCALE=paper CHOSEN=41",
        "mein/1_prepare KINDS=lines.x",
        "mein/1_prepare EXPERTS=bert BERT=",
        "pie/1_prepare TASKS=gec",
        "pie/1_prepare SCALE=large",
        "pie/1_prepare SCALE=paper TASKS=gec BERT=none",
        "poda/1_prepare AMOUNTS=401",
        "poda/1_prepare STARTS=5",
        "poda/1_prepare SCALE=paper SENTENCE_MARK=</s>",
        "poda/1_prepare SCALE=paper GPUS=16",
        "poda/1_prepare SCALE=paper MAX_TOKENS=750",
        "poda/1_prepare WORK=/tmp/a:b",
        "poda/1_prepare WORK=/tmp/o'clock",
        "poda/1_prepare WORK=/dev/null/work",
        "pseudo_bidirectional/1_prepare KINDS=rnn",
        "pseudo_bidirectional/4_score SCALE=small TASKS=gec DATA_DIR=/none",
        "shape/1_prepare AVERAGE=4",
        "shape/1_prepare SCALE=paper TASKS=lines",
        "wmt20/1_prepare SYSTEMS=tagged@0",
        "wmt20/7_system ROWS=g",
        "wmt20/7_system STAGES=genuine:5",
        "wmt20/8_rerank ROWS=p ROW_SETS=test",
        *(f"{path.parent.name}/1_prepare SCALE=small TASKS= DATA_DIR=/none" for path in FIRST),
    ],
)
def test_a_wrong_setting_is_named(row: str, tmp_path: Path) -> None:
    path, *settings = row.split()
    given = {"WORK": str(tmp_path), **dict(setting.split("=") for setting in settings)}
    *_, problem = step(EXAMPLES / f"{path}.sh", given, 2).stderr.splitlines()
    name, value = settings[-1].split("=")
    assert name in problem
    assert value in problem
    assert "DATA_DIR=/none" in row or not list(tmp_path.iterdir())
