"""Denormal numbers are flushed to 0 in classification, in all threads of PyTorch.

The tests run in new processes, in which no thread has been started.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Run

PRODUCT = """
import json, os, sys
from types import SimpleNamespace

import torch

import fairseq_ssl

fairseq_ssl.register()
from fairseq import models
from fairseq.data import Dictionary
from omegaconf import OmegaConf

from fairseq_ssl.tasks.semi_supervised_classification import (
    SemiSupervisedClassificationConfig as Config,
    SemiSupervisedClassificationTask as Task,
)

def share(options):
    if options.get("_name") == "recurrent_lm":  # its task is fairseq's
        task = SimpleNamespace(source_dictionary=Dictionary())
    else:
        task = Task.setup_task(Config(data=sys.argv[1]))
    if options:
        models.build_model(OmegaConf.create(options), task)
    small = torch.full((40_000 * torch.get_num_threads(),), 1e-30)
    return float((small * 1e-9).ne(0).float().mean())


for options in json.loads(sys.argv[2]):
    if os.fork() == 0:
        print(share(options), flush=True)
        os._exit(0)
    os.wait()
"""
"""A script that prints the share of denormal products that are not flushed, by options."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the dictionaries of a classification task."""
    folder = tmp_path_factory.mktemp("dictionaries")
    for view, symbols in (("words", "abc"), ("label", "xy")):
        (folder / view).mkdir()
        (folder / view / "dict.txt").write_text("".join(f"{one} 1\n" for one in symbols))
    return folder


def test_denormals_are_flushed_in_all_threads(run: Run, folder: Path) -> None:
    cases: list[dict[str, Any]] = [{}, {"_name": "lstm_classifier"}, {"_name": "recurrent_lm"}]
    options = json.dumps(cases)
    shown = run(sys.executable, "-c", PRODUCT, folder, options, OMP_NUM_THREADS="4").stdout
    assert [float(line) for line in shown.split()] == [0.0] * len(cases)
