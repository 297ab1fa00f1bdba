"""The package fairseq_ssl.checkpoints: its example and lazy imports."""

from __future__ import annotations

import doctest
import sys
from pathlib import Path

from fairseq_ssl import checkpoints
from tests.conftest import Run


def test_examples() -> None:
    assert doctest.testmod(checkpoints).failed == 0


def test_package_and_readers_of_vocabularies_do_not_import_torch(run: Run, tmp_path: Path) -> None:
    """A recipe splits text into word pieces in many short processes."""
    script = "import fairseq_ssl.checkpoints, fairseq_ssl.checkpoints.hugging_face, sys; "
    run(sys.executable, "-c", script + "assert 'torch' not in sys.modules", cwd=tmp_path)
