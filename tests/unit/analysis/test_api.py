"""Public names of fairseq_ssl.analysis: docstrings, doctests and lazy imports."""

from __future__ import annotations

import doctest
import sys
from pathlib import Path

from fairseq_ssl import analysis
from tests.conftest import Run


def test_examples() -> None:
    assert doctest.testmod(analysis).failed == 0


def test_public_names_have_docstrings() -> None:
    assert sorted(analysis.__all__) == sorted(analysis.MODULES)
    assert len(analysis.__all__) <= 10
    assert all(getattr(analysis, name).__doc__ for name in analysis.__all__)


def test_package_imports_neither_torch_nor_fairseq(run: Run, tmp_path: Path) -> None:
    script = "import fairseq_ssl.analysis, sys; assert not {'torch', 'fairseq'} & set(sys.modules)"
    run(sys.executable, "-c", script, cwd=tmp_path)
