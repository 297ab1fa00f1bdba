"""Set-up, and a short demo."""

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


def test_setup_reports_a_missing_compiler_in_one_line(tmp_path: Path) -> None:
    for name in ("scripts", "fairseq_ssl"):
        shutil.copytree(ROOT / name, tmp_path / "copy" / name)
    for name in ("pyproject.toml", "README.md", "LICENSE", "setup.py"):
        shutil.copy(ROOT / name, tmp_path / "copy" / name)
    (tmp_path / "bin").mkdir()
    for name in ("bash", "dirname", "grep", "tail", "cut", "env"):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name) or name)
    words = [tmp_path / "bin/bash", tmp_path / "copy/scripts/setup.sh"]
    variables = {**os.environ, "PATH": str(tmp_path / "bin"), "PYTHON": sys.executable}
    done = subprocess.run(words, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert re.fullmatch(r"setup: no C\+\+ compiler found.*Install g\+\+.*\n", done.stderr)


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
        assert re.search(
            rf"^{method} +.* \d+\.\d  .* \d+\.\d +[+-]\d+\.\d  .*shown$", printed, re.M
        )
    assert max(map(len, printed.splitlines())) <= 100
    report = (folder / "report.html").read_text()
    rows = re.findall(r'<th scope="row"><a href="#(.*?)">', report)
    assert rows == list(METHODS), "one table, without baselines"
    assert report.index('class="plot"') < report.index("<table")
    assert re.findall(r'<h2 id="(.*?)">', report) == ["scores", *METHODS]
    assert not re.search(r'src="http', report), "the report must need no other file"


@pytest.mark.slow
def test_second_run_of_the_demo_reuses_everything(made: tuple[Path, str]) -> None:
    folder, _ = made
    again = demo(folder)
    assert again.returncode == 0, again.stderr[-3000:]
    trained = len(list(folder.glob("*/*/final.pt")))
    assert trained == 5
    assert again.stderr.count("up to date:") > 2 * trained
    assert "Epoch" not in again.stderr


@pytest.fixture
def outputs(tmp_path: Path) -> list[Path]:
    """Score files of three methods, and two lines of outputs. The systems differ in one line."""
    scores = {"names": (90.0, 0.001), "revisions": (51.0, 0.4), "imitators": (1.0, 0.01)}
    lines = {"source": "a <b\nd\n", "reference": "a x c\nd\n", "baseline": "a c y\nd\n"}
    lines["method"] = lines["reference"]
    for name, (score, p) in scores.items():
        systems = {"baseline": {"seeds": [50.0]}, "method": {"seeds": [score]}}
        against = {"method": {"difference": score - 50, "low": 0, "high": 1, "p": p}}
        scored = {name: {"accuracy": one} for name, one in systems.items()}
        content = {"systems": scored, "against the baseline": against}
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
        for side, text in lines.items():
            (tmp_path / side).mkdir(exist_ok=True)
            (tmp_path / side / f"{name}.txt").write_text(text)
    return [tmp_path / f"{name}.json" for name in scores]


def test_demo_names_the_claims_that_do_not_show(outputs: list[Path], run: Run) -> None:
    """A higher score is not enough: the difference must be significant."""
    printed = run(sys.executable, ROOT / "scripts/demo_table.py", *outputs).stdout
    verdicts = re.findall(r"^[a-z-]+ .*[+-]\d+\.\d  (.*)$", printed, re.M)
    assert verdicts == ["shown", "not shown", "not shown"]


def test_page_of_the_demo_has_the_lines_where_systems_differ(
    outputs: list[Path], tmp_path: Path, run: Run
) -> None:
    page = tmp_path / "page.html"
    run(sys.executable, ROOT / "scripts/demo_table.py", "--page", page, *outputs)
    _, *sections = page.read_text().split("<section aria-labelledby=")[1:]
    assert len(sections) == 3
    for section in sections:
        assert "differ in 1 of 2 lines" in section
        assert re.findall("<h3>(.*?)</h3>", section) == ["Line 1"]
        source, reference, baseline, method = re.findall("<dd>(.*?)</dd>", section)
        assert (source, reference, method) == ("a &lt;b", "a x c", "a x c")
        assert baseline == "a <del>x</del> c <ins>y</ins>"
    assert ["Not shown" in section for section in sections] == [False, True, True]
