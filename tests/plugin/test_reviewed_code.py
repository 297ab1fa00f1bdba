"""All code of fairseq that could run data as code has been reviewed, and is on a list.

A call that is not on the list makes a test fail. Review it, then add a line with the reason why no
checkpoint reaches it, or with the patch that covers it. The lists are for fairseq-fixed 0.12.3.1
and fairseq 0.12.2. `fairseq/examples` is skipped, since fairseq's commands do not import it.
"""

from __future__ import annotations

import re
from pathlib import Path

import fairseq
import pytest

from fairseq_ssl.checkpoints.stored_options import ALL_PATHS, EVALUATED, NAMES
from tests.conftest import PACKAGE
from tests.plugin.code_calls import CodeCall, find_calls
from tests.plugin.text_options import find_text_options

FAIRSEQ = Path(fairseq.__file__).parent
PACKAGES = (FAIRSEQ, FAIRSEQ.with_name("fairseq_cli"), PACKAGE)
HERE = Path(__file__).parent


def reviewed_calls() -> dict[CodeCall, str]:
    """Parse the list: file | function | call | reason. A call may also contain |."""
    found = {}
    for line in (HERE / "reviewed_calls.txt").read_text("utf-8").splitlines():
        where, reason = line.rsplit(" | ", 1)
        found[CodeCall(*where.split(" | ", 2))] = reason
    return found


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_every_call_that_could_run_code_was_reviewed(package: Path) -> None:
    reviewed = reviewed_calls()
    found = set(find_calls(package, skipped="examples"))
    assert found, "no file was scanned"
    assert not found - reviewed.keys(), "review these calls, then list them with a reason"


def test_the_list_has_a_reason_for_each_call_and_no_outdated_calls_of_the_package() -> None:
    reviewed = reviewed_calls()
    assert all(reviewed.values())
    ours = {call for call in reviewed if call.file.startswith(PACKAGE.name)}
    assert ours == set(find_calls(PACKAGE))


@pytest.mark.parametrize(
    "source",
    [
        "eval(text)",
        "list(map(eval, lines))",
        "import pickle as p\np.load(file)",
        "from pickle import loads\nloads(data)",
        "import torch\ntorch.load(file)",
        "from torch import load as read\nread(file)",
        "import numpy as np\nnp.load(file, allow_pickle=True)",
        "import importlib\nimportlib.import_module(name)",
        "__import__(name)",
        "import os\nos.system(command)",
        "import subprocess\nsubprocess.run(command)",
        "import yaml\nyaml.load(file)",
        "globals()[name]()",
        "load(file, weights_only=False)",
        "from omegaconf import OmegaConf\nOmegaConf.register_new_resolver('x', f)",
    ],
)
def test_the_scan_finds_a_call(tmp_path: Path, source: str) -> None:
    (tmp_path / "module.py").write_text(
        f"def reader():\n    {source.replace(chr(10), chr(10) + ' ' * 4)}\n"
    )
    assert {call.function for call in find_calls(tmp_path)} == {"reader"}


def test_the_scan_ignores_harmless_code(tmp_path: Path) -> None:
    source = "model.eval()\nnp.load(path)\nimport ast\nast.literal_eval(text)\njson.load(file)\n"
    (tmp_path / "module.py").write_text(source + "load(file, weights_only=True)\n")
    assert not list(find_calls(tmp_path))


def test_options_that_fairseq_evaluates_are_checked_when_a_checkpoint_is_read() -> None:
    evaluated = re.compile(
        r"\b(?:eval|(?:\w+\.)?eval_(?:str_\w+|bool))\((?:self\.)?(?:args|cfg)\.(?:\w+\.)?(\w+)"
    )
    found = set()
    for path in FAIRSEQ.rglob("*.py"):
        if path.relative_to(FAIRSEQ).parts[0] != "examples":
            found.update(evaluated.findall(path.read_text("utf-8")))
    assert {"encoder_layers", "adam_betas", "adaptive_softmax_cutoff"} <= found
    assert found <= EVALUATED


def test_every_option_that_may_hold_text_was_reviewed() -> None:
    """A new option may name a file. Add it to `stored_options`, or to the list of options."""
    found = find_text_options(FAIRSEQ, skipped="examples")
    for folder in ("models", "tasks", "criterions", "optimizers"):
        found |= find_text_options(PACKAGE / folder)
    assert {"data", "encoder_embed_path", "mixture_expert"} <= found
    text = set((HERE / "reviewed_options.txt").read_text("utf-8").split())
    assert not text & ALL_PATHS
    assert not found - text - ALL_PATHS - EVALUATED - NAMES
