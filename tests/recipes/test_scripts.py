"""Shell scripts: errors for missing programs, and a short demo."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import BIN, ROOT, Run, environment


def tools(folder: Path, *names: str) -> str:
    """Return a PATH with only these commands of the system."""
    folder.mkdir()
    for name in ("bash", "dirname", "grep", "tail", "cut", "env", *names):
        found = shutil.which(name)
        assert found, name
        (folder / name).symlink_to(found)
    return str(folder)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the files that setup needs, without .venv."""
    for name in ("scripts", "fairseq_ssl"):
        shutil.copytree(ROOT / name, tmp_path / "copy" / name)
    for name in ("pyproject.toml", "README.md", "LICENSE", "setup.py"):
        shutil.copy(ROOT / name, tmp_path / "copy" / name)
    return tmp_path / "copy"


def setup(checkout: Path, **changes: str) -> subprocess.CompletedProcess[str]:
    script = checkout / "scripts/setup.sh"
    words = [shutil.which("bash") or "bash", str(script)]
    here = {name: value for name, value in os.environ.items() if name != "PYTHON"}
    return subprocess.run(
        words, env={**here, **changes}, capture_output=True, text=True, check=False
    )


def test_setup_reports_a_wrong_python_in_one_line(checkout: Path, tmp_path: Path) -> None:
    other = tmp_path / "python2"
    other.write_text("#!/bin/sh\necho 2.7\n")
    other.chmod(0o755)
    done = setup(checkout, PYTHON=str(other))
    assert done.returncode == 1
    assert re.fullmatch(r"setup: PYTHON=\S+ is Python 2\.7\. Expected .*\n", done.stderr)
    done = setup(checkout, PYTHON="/none/python3.11")
    assert "is not available. Expected Python 3.10, 3.11 or 3.12" in done.stderr


def test_setup_reports_a_missing_python_in_one_line(checkout: Path, tmp_path: Path) -> None:
    done = setup(checkout, PATH=tools(tmp_path / "bin"))
    assert done.returncode == 1
    assert re.fullmatch(r"setup: no Python 3\.10, 3\.11 or 3\.12 found.*\n", done.stderr)


def test_setup_reports_a_missing_compiler_in_one_line(checkout: Path, tmp_path: Path) -> None:
    path = tools(tmp_path / "bin")
    done = setup(checkout, PATH=path, PYTHON=sys.executable)
    assert done.returncode == 1
    assert re.fullmatch(r"setup: no C\+\+ compiler found.*Install g\+\+.*\n", done.stderr)


def test_setup_reports_a_missing_network_in_one_line(checkout: Path) -> None:
    done = setup(
        checkout,
        PYTHON=sys.executable,
        PIP_CONFIG_FILE=os.devnull,
        PIP_INDEX_URL="http://127.0.0.1:9/simple",
        PIP_EXTRA_INDEX_URL="",
        PIP_FIND_LINKS="",
        PIP_NO_CACHE_DIR="1",
        PIP_RETRIES="1",
        PIP_TIMEOUT="2",
    )
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("setup: no network: pip could not reach a package index")


def test_setup_uses_an_active_environment_that_has_everything(run: Run) -> None:
    shown = run("bash", ROOT / "scripts/setup.sh", REAL_COMMANDS="1").stderr
    assert shown == f"setup: using {BIN / 'python'}\n", "nothing is to be built"


SYSTEMS = ("scratch", "pretrained", "tagger", "pbd")


def demo(folder: Path) -> subprocess.CompletedProcess[str]:
    settings = {"DEMO_DIR": str(folder), "DEMO_UPDATES": "10", "DEMO_TEST_LINES": "8"}
    words = ["bash", str(ROOT / "scripts/demo.sh")]
    return subprocess.run(
        words, env=environment(**settings), capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Folder and output of a short demo."""
    folder = tmp_path_factory.mktemp("demo") / "demo"
    done = demo(folder)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder, done.stdout


def test_a_short_demo_ends_with_scores_and_a_report_and_a_second_run_finds_it_done(
    made: tuple[Path, str],
) -> None:
    folder, printed = made
    for system in SYSTEMS:
        assert re.search(rf"^{system} +\d+\.\d\d +\d+\.\d\d +\d+\.\d\d$", printed, re.M)
        assert re.search(rf"^  {system} +\d+$", printed, re.M), "milliseconds"
    assert "errant|lines:8|" in printed
    assert "gleu|lines:8|" in printed
    report = (folder / "report.html").read_text()
    assert all(system in report for system in SYSTEMS)
    assert not re.search(r'(src|href)="http', report), "the report must need no other file"
    again = demo(folder)
    assert again.returncode == 0, again.stderr[-3000:]
    assert again.stderr.count("up to date:") == 2 + 1 + 2 * len(SYSTEMS)


def test_failing_demo_names_its_log(made: tuple[Path, str], tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    shutil.copytree(made[0], folder)
    (folder / "runs/tagger.1/final.pt").unlink()
    record = folder / "records/runs/tagger.1.json"
    record.write_text(record.read_text().replace('"finished": true', '"finished": false'))
    (folder / "runs/tagger.1/checkpoint_last.pt").write_text("damaged")
    done = demo(folder)
    assert done.returncode == 1
    assert f"Its full output is in {folder}/runs/tagger.1/train.log" in done.stderr
