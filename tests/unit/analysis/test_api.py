"""The package fairseq_ssl.analysis: its example and lazy imports."""

from __future__ import annotations

import doctest
import sys
from pathlib import Path

from fairseq_ssl import analysis
from tests.conftest import Run


def test_examples() -> None:
    assert doctest.testmod(analysis).failed == 0


def test_package_imports_neither_torch_nor_fairseq(run: Run, tmp_path: Path) -> None:
    script = "import fairseq_ssl.analysis, sys; assert not {'torch', 'fairseq'} & set(sys.modules)"
    run(sys.executable, "-c", script, cwd=tmp_path)
