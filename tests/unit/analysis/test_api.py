"""The package fairseq_ssl.analysis: its example, lazy imports, and files of results."""

from __future__ import annotations

import doctest
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from fairseq_ssl import analysis
from fairseq_ssl.analysis.results import AnalysisResult, Table
from fairseq_ssl.io.text_files import parse_json
from fairseq_ssl.signature import Signature
from tests.conftest import Run


def test_examples() -> None:
    assert doctest.testmod(analysis).failed == 0


def test_package_imports_neither_torch_nor_fairseq(run: Run, tmp_path: Path) -> None:
    script = "import fairseq_ssl.analysis, sys; assert not {'torch', 'fairseq'} & set(sys.modules)"
    run(sys.executable, "-c", script, cwd=tmp_path)


class Drawn(AnalysisResult):
    """A result with an empty figure."""

    def tables(self) -> Iterator[Table]:
        yield [], []

    def draw(self, path: str | Path) -> None:
        Path(path).touch()


def test_a_checkpoint_whose_name_is_not_utf_8(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9.pt")
    path, _ = Drawn(Signature("drawn"), {"checkpoint": name}).write(tmp_path / "result")
    assert parse_json(path.read_bytes())["checkpoint"] == r"caf\udce9.pt"
