"""Shell scripts: errors for missing programs, and a short demo."""

from __future__ import annotations

import json
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


@pytest.mark.slow
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


METHODS = ("late-evidence", "revisions", "reconstruction")


def demo(folder: Path, **changes: str) -> subprocess.CompletedProcess[str]:
    settings = {"DEMO_DIR": str(folder), "DEMO_METHODS": " ".join(METHODS)}
    settings |= {"DEMO_PERCENT": "1", "DEMO_TEST_LINES": "6"}
    words = ["bash", str(ROOT / "scripts/demo.sh")]
    return subprocess.run(
        words, env=environment(**settings | changes), capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Folder and output of a demo of some methods with few updates."""
    folder = tmp_path_factory.mktemp("demo") / "demo"
    done = demo(folder)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder, done.stdout


@pytest.mark.slow
def test_demo_prints_a_line_for_each_method_and_writes_a_page(made: tuple[Path, str]) -> None:
    folder, printed = made
    for method in METHODS:
        lines = re.findall(rf"^{method} +.* \d+\.\d   .* \d+\.\d   .*: .*shown.*$", printed, re.M)
        assert len(lines) == 2, "one when it is done, one in the table"
    report = (folder / "report.html").read_text()
    rows = re.findall(r'<th scope="row">(.*?)</th>', report)
    assert [row.partition(":")[0] for row in rows] == list(METHODS), "one table, without baselines"
    assert report.index("<figure>") < report.index("<table")
    assert not re.search(r'(src|href)="http', report), "the report must need no other file"


@pytest.mark.slow
def test_second_run_of_the_demo_reuses_everything(made: tuple[Path, str]) -> None:
    folder, _ = made
    again = demo(folder)
    assert again.returncode == 0, again.stderr[-3000:]
    trained = len(list(folder.glob("*/*/final.pt")))
    assert trained == 5
    assert again.stderr.count("up to date:") > 2 * trained
    assert "Epoch" not in again.stderr


@pytest.mark.slow
def test_failing_demo_names_its_log(made: tuple[Path, str], tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    shutil.copytree(made[0], folder)
    (folder / "revisions/tagger/final.pt").unlink()
    record = folder / "records/revisions/tagger.json"
    record.write_text(record.read_text().replace('"finished": true', '"finished": false'))
    (folder / "revisions/tagger/checkpoint_last.pt").write_text("damaged")
    done = demo(folder, DEMO_METHODS="revisions")
    assert done.returncode == 1
    assert f"Its full output is in {folder}/revisions/tagger/train.log" in done.stderr


def test_demo_rejects_unknown_methods_and_sizes(tmp_path: Path) -> None:
    done = demo(tmp_path, DEMO_METHODS="names nothing", DRY_RUN="1")
    assert done.returncode == 2
    assert "DEMO_METHODS has 'nothing'" in done.stderr
    for wrong in ("7", "0", "abc", "1002"):
        done = demo(tmp_path, DEMO_TEST_LINES=wrong, DRY_RUN="1")
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    for wrong in ("0", "abc", "1001"):
        done = demo(tmp_path, DEMO_PERCENT=wrong, DRY_RUN="1")
        assert done.stderr.startswith(f"demo: DEMO_PERCENT is {wrong}, expected 1 to 1000;")


def test_demo_names_the_claims_that_do_not_show(tmp_path: Path, run: Run) -> None:
    """A higher score is not enough: the difference must be significant."""
    for name, score, p in (
        ("names", 90.0, 0.001),
        ("revisions", 51.0, 0.4),
        ("imitators", 1.0, 0.01),
    ):
        systems = {"baseline": 50.0, "method": score}
        content = {
            "systems": {key: {"accuracy": {"seeds": [one]}} for key, one in systems.items()},
            "against the baseline": {
                "method": {"difference": score - 50, "low": 0, "high": 1, "p": p}
            },
        }
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    files = [tmp_path / f"{name}.json" for name in ("names", "revisions", "imitators")]
    shown = run(sys.executable, ROOT / "scripts/demo_table.py", *files).stdout.splitlines()
    assert [line.partition("): ")[2] for line in shown] == [
        "shown, p = 0.001",
        "not shown here, p = 0.400",
        "not shown here, p = 0.010",
    ]
