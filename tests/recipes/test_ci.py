"""Packages that CI installs, and pytest's list of skipped tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

PACKAGES = "chromium chromium-driver"


def command(folder: Path, name: str, script: str) -> None:
    """Write a shell script that replaces a command."""
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A PATH without browser and apt-get, for root."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("bash", "sh", "dirname", "tail", "timeout", "mktemp", "rm", "cat"):
        (folder / name).symlink_to(shutil.which(name) or name)
    command(folder, "id", "echo 0")
    command(folder, "python", "")
    return folder


def run_ci(path: Path) -> list[str]:
    """Run `.ci/run` with a test script that only prints. Return the printed lines."""
    root = path.parent / "checkout"
    for name in (".ci", "scripts"):
        (root / name).mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / ".ci/run", root / ".ci/run")
    (root / "scripts/setup.sh").write_text("")
    (root / "scripts/test.sh").write_text("echo tests\n")
    words = [str(path / "bash"), str(root / ".ci/run")]
    done = subprocess.run(
        words, env={"PATH": str(path)}, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_ci_installs_the_packages_that_setup_does_not_install(path: Path) -> None:
    command(path, "python", 'echo "$*"')
    command(path, "apt-get", "exit 1")
    *_, pip, tests = run_ci(path)
    assert pip.startswith("-m pip install ")
    assert " --constraint scripts/constraints.txt " in pip
    assert pip.endswith(" .[scale-tests]")
    assert tests == "tests"


def test_ci_fails_without_these_packages(path: Path) -> None:
    """Their tests would be skipped."""
    command(path, "python", "exit 3")
    command(path, "apt-get", "exit 1")
    with pytest.raises(subprocess.CalledProcessError) as error:
        run_ci(path)
    assert error.value.returncode == 3
    assert "tests" not in error.value.stdout.splitlines()


def test_ci_installs_a_missing_browser(path: Path) -> None:
    log = path.parent / "apt.log"
    command(path, "apt-get", f'echo "$*" >>{log}; echo noise')
    assert run_ci(path) == [f"ci: installing {PACKAGES} ...", "tests"]
    assert log.read_text().splitlines() == [
        "update",
        f"install -y --no-install-recommends {PACKAGES}",
    ]


@pytest.mark.parametrize("failing", ["update", "install"])
def test_ci_continues_if_apt_fails(path: Path, failing: str) -> None:
    command(path, "apt-get", f'[ "$1" = {failing} ] || exit 0\necho E: broken >&2\nexit 100')
    assert run_ci(path)[1:] == ["ci: no browser: apt-get failed: E: broken", "tests"]


def test_setup_does_not_check_the_packages_that_ci_installs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(ROOT / "scripts")
    from check_environment import requirements

    declared = [
        "numpy",
        'torch; extra == "train"',
        'zstandard; extra == "scale"',
        'fairseq-ssl[scale,train]; extra == "all"',
    ]
    monkeypatch.setattr("importlib.metadata.requires", lambda name: declared)
    assert [required.name for required in requirements("all")] == ["numpy", "torch"]


def test_pytest_ends_with_a_count_and_a_remedy_of_skipped_tests(path: Path) -> None:
    tests = "tests/unit/report/test_page_in_a_browser.py"
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tests]
    done = subprocess.run(
        words,
        cwd=ROOT,
        env={**os.environ, "PATH": str(path)},
        capture_output=True,
        text=True,
        check=True,
    )
    *_, reason, _ = done.stdout.splitlines()
    assert reason == f"skipped 8: needs Chromium: apt-get install {PACKAGES}"
