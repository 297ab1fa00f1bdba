"""Public names of fairseq_ssl.checkpoints: docstrings, doctests and lazy imports."""

from __future__ import annotations

import doctest
import sys
from pathlib import Path

from fairseq_ssl import checkpoints
from tests.conftest import Run


def test_examples() -> None:
    assert doctest.testmod(checkpoints).failed == 0


def test_public_names_have_docstrings() -> None:
    assert sorted(checkpoints.__all__) == sorted(checkpoints.MODULES)
    assert all(getattr(checkpoints, name).__doc__ for name in checkpoints.__all__)


def test_package_does_not_import_torch(run: Run, tmp_path: Path) -> None:
    script = "import fairseq_ssl.checkpoints, sys; assert not {'torch'} & set(sys.modules)"
    run(sys.executable, "-c", script, cwd=tmp_path)
