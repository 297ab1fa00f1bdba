"""The notebooks of examples/notebooks run, and depend on no machine."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.conftest import ROOT, environment

NOTEBOOKS = sorted(ROOT.glob("examples/notebooks/*.ipynb"))
MAX_BYTES = 20_000
"""Maximum size of a notebook with its outputs."""

pytestmark = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


@pytest.mark.slow
def test_a_notebook_runs(path: Path, tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")  # of the extra docs, for Python 3.11 and later
    nbclient = pytest.importorskip("nbclient")
    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(
        notebook,
        timeout=600,
        kernel_name="python3",
        resources={"metadata": {"path": str(tmp_path)}},
    )
    client.execute(env=environment(PYTHONPATH=str(ROOT)))
    assert list(tmp_path.iterdir()) == []  # all files are in a temporary folder


def test_a_notebook_is_small_and_has_no_absolute_paths(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text) < MAX_BYTES
    assert not re.search(r'["\s](/home|/root|/tmp|/usr|/work|/var)/', text)
    assert json.loads(text)["metadata"]["kernelspec"]["name"] == "python3"


def test_the_links_of_a_notebook_lead_to_files(path: Path) -> None:
    links = re.findall(r"\]\((\.\./[^)#]+)", path.read_text(encoding="utf-8"))
    assert links
    assert all((path.parent / link).is_file() for link in links)
