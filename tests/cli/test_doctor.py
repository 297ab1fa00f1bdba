"""``fairseq-ssl doctor`` as text and as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from papers import PAPERS

from fairseq_ssl.cli.main import main
from fairseq_ssl.plugin import installation
from tests.conftest import Run


def test_doctor_finds_a_sound_installation(run: Run, tmp_path: Path) -> None:
    shown = run("fairseq-ssl", "doctor", cwd=tmp_path).stdout
    assert "PROBLEM" not in shown
    names = {name for paper in PAPERS for name in paper.registered}
    assert f" {len(names)} names" in shown


@pytest.mark.parametrize("version", [None, "3.8.0"])
def test_a_missing_spacy_pipeline_is_no_problem(
    version: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installation, "_version", lambda name: version)
    found = {one.subject: one for one in installation.examine_installation()}["en_core_web_sm"]
    assert found.fact.startswith(version or "not installed")
    assert not found.problem


def test_doctor_reports_a_shadowing_folder_and_unsafe_loading(run: Run, tmp_path: Path) -> None:
    (tmp_path / "fairseq_ssl").mkdir()
    shown = run(
        *("fairseq-ssl", "doctor", "--format", "json"),
        cwd=tmp_path,
        code=1,
        TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD="1",
    ).stdout
    problems = {row["subject"]: row["problem"] for row in json.loads(shown) if row["problem"]}
    assert set(problems) == {"working folder", "checkpoints"}
    assert str(tmp_path / "fairseq_ssl") in problems["working folder"]
    assert "unset it" in problems["checkpoints"]


def test_fairseq_advice_on_unneeded_packages_is_hidden(run: Run, tmp_path: Path) -> None:
    script = (
        "import logging, sys; logging.basicConfig(level=logging.INFO); "
        "sys.modules['tensorboardX'] = None; "
        "from fairseq_ssl.cli.main import main; main(['doctor']); "
        "logging.getLogger('fairseq.tasks.text_to_speech').info('of a task')"
    )
    done = run(sys.executable, "-c", script, cwd=tmp_path)
    assert "text_to_speech" in done.stderr
    assert done.stderr.endswith("of a task\n")
    assert done.stderr.count("\n") == 1


def test_doctor_warns_of_a_fairseq_that_loads_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "checkpoint_utils.py").write_text("torch.load(f, weights_only=False)")
    monkeypatch.setattr("fairseq_ssl.plugin.installation._home", lambda name: str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert main(["doctor"]) == 1
    assert "PROBLEM: this fairseq sets weights_only=False" in capsys.readouterr().out
