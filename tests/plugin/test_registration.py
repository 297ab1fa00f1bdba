"""All ways to import the package register its names, and lower packages register nothing."""

from __future__ import annotations

import importlib.util
import logging
import sys
from pathlib import Path

import pytest
from papers import PAPERS

from fairseq_ssl.plugin import unchanged_logging
from tests.conftest import PACKAGE, Run

CHECK = """
from fairseq.models import ARCH_MODEL_REGISTRY
assert "shape_transformer_big" in ARCH_MODEL_REGISTRY
"""
BY_USER_DIR = f"""
from argparse import Namespace
from fairseq.utils import import_user_module
import_user_module(Namespace(user_dir={str(PACKAGE)!r}))
"""
REGISTER = "fairseq_ssl.register()"

WAYS = {
    "user dir": (BY_USER_DIR,),
    "fairseq first": ("import fairseq, fairseq_ssl", BY_USER_DIR, REGISTER, REGISTER),
    "package first": (f"import fairseq_ssl; {REGISTER}", REGISTER, BY_USER_DIR),
}
"""Ways to import the package, then to register its names once more."""


@pytest.mark.parametrize("way", WAYS)
def test_names_are_registered(run: Run, tmp_path: Path, way: str) -> None:
    run(sys.executable, "-c", CHECK.join((*WAYS[way], "")), cwd=tmp_path)


def test_help_imports_no_large_package(run: Run, tmp_path: Path) -> None:
    script = """
import sys
import fairseq_ssl, fairseq_ssl.signature, fairseq_ssl.errors
from fairseq_ssl.cli import main
for command in ("average", "back-translate", "correct"):
    try:
        main.main([command, "--help"])
    except SystemExit:
        pass
unused = {"torch", "fairseq", "numpy", "fairseq_ssl.metrics", "fairseq_ssl.rerank"}
assert "fairseq_ssl.inference.correction" in sys.modules
assert not unused & set(sys.modules)
"""
    run(sys.executable, "-c", script, cwd=tmp_path)


@pytest.mark.skipif(
    not importlib.util.find_spec("spacy"),
    reason="fairseq's stock release, which is tested without spaCy, lacks these imports",
)
def test_slow_packages_are_imported_at_first_use(run: Run, tmp_path: Path) -> None:
    script = """
import sys
import numpy as np
import fairseq_ssl
fairseq_ssl.register()
from fairseq.criterions.sentence_prediction import acc_and_f1, pearson_and_spearman
from fairseq.tasks.audio_classification import sklearn_metrics
slow = {"sklearn", "scipy", "scipy.stats", "pandas", "transformers", "torch._dynamo"}
assert not slow & set(sys.modules), slow & set(sys.modules)
labels = np.array([1, 1, 0, 1])
assert acc_and_f1(np.array([1, 0, 0, 1]), labels)["f1"] == 0.8
assert round(pearson_and_spearman(np.array([1, 2, 3]), np.array([2, 4, 6]))["pearson"], 6) == 1
assert [list(each) for each in sklearn_metrics.roc_curve([0, 1], [0.1, 0.9])][1] == [0, 1, 1]
import scipy.stats, sklearn.metrics
assert callable(sklearn.metrics.f1_score) and scipy.stats.norm.cdf(0) == 0.5
"""
    run(sys.executable, "-c", script, cwd=tmp_path)


def test_registering_without_fairseq_explains_the_installation(run: Run, tmp_path: Path) -> None:
    script = """
import sys
sys.modules["fairseq"] = None
import fairseq_ssl
fairseq_ssl.register()
"""
    shown = run(sys.executable, "-c", script, cwd=tmp_path, code=1).stderr
    assert "pip install 'fairseq-ssl[train]'" in shown


LOWER = (
    *("io", "text", "metrics", "noise", "filters"),
    *("edits", "rerank", "report", "checkpoints", "modules", "inference", "learned_filter"),
)


def modules_below() -> list[str]:
    """Return the modules of the layers below the registered classes."""
    files = [path for name in LOWER for path in (PACKAGE / name).rglob("*.py")]
    names = [path.relative_to(PACKAGE).with_suffix("").as_posix() for path in files]
    return sorted(
        f"fairseq_ssl.{name.replace('/', '.').removesuffix('.__init__')}" for name in names
    )


def test_importing_a_lower_package_registers_nothing(run: Run, tmp_path: Path) -> None:
    assert len(modules_below()) > 50
    registered = {name for paper in PAPERS for name in paper.registered}
    script = f"""
import importlib
for name in {modules_below()!r}:
    importlib.import_module(name)
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from fairseq.tasks import TASK_REGISTRY
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.optim import OPTIMIZER_REGISTRY
names = {registered!r}
for registry in (ARCH_MODEL_REGISTRY, MODEL_REGISTRY, TASK_REGISTRY, CRITERION_REGISTRY):
    assert not names & set(registry)
assert not names & set(OPTIMIZER_REGISTRY)
"""
    run(sys.executable, "-c", script, cwd=tmp_path)


def test_logging_is_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.root, "handlers", [])
    monkeypatch.setattr(logging.root, "level", logging.WARNING)
    with unchanged_logging():
        logging.basicConfig(level=logging.DEBUG)  # as fairseq.models.wav2vec does on import
    assert (logging.root.handlers, logging.root.level) == ([], logging.WARNING)
