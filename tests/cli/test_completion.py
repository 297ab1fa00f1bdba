"""Completion in real shells: commands, subcommands, flags, choices and files."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from fairseq_ssl.cli.main import COMMANDS, main

COMPLETE = """
source "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_shtab_fairseq_ssl 2>/dev/null
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bash script."""
    path = tmp_path_factory.mktemp("completion") / "script"
    with pytest.MonkeyPatch.context() as patch, path.open("w", encoding="utf-8") as file:
        patch.setattr("sys.stdout", file)
        assert main(["completion", "bash"]) == 0
    return path


def complete(script: Path, folder: Path, *words: str) -> set[str]:
    """Return bash's completions of the last word."""
    command = ["bash", "-c", COMPLETE, "bash", str(script), "fairseq-ssl", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_bash_completes_commands(script: Path, tmp_path: Path) -> None:
    offered = complete(script, tmp_path, "")
    assert offered == {*COMMANDS}
    assert complete(script, tmp_path, "re") == {"report", "rerank"}


def test_bash_completes_subcommands_flags_and_choices(script: Path, tmp_path: Path) -> None:
    assert complete(script, tmp_path, "score", "ch") == {"chrf"}
    assert complete(script, tmp_path, "rerank", "tune", "--met") == {"--metric", "--method"}
    assert complete(script, tmp_path, "rerank", "tune", "--method", "") == {"grid", "mert"}
    assert complete(script, tmp_path, "learned-filter", "f") == {"fit"}


def test_bash_completes_files_of_options_and_arguments(script: Path, tmp_path: Path) -> None:
    (tmp_path / "train.en").touch()
    (tmp_path / "test.en").touch()
    assert complete(script, tmp_path, "noise", "tr") == {"train.en"}
    assert complete(script, tmp_path, "score", "bleu", "te") == {"test.en"}
    assert complete(script, tmp_path, "score", "bleu", "x", "--reference", "t") == {
        "test.en",
        "train.en",
    }


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_reads_the_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "zsh"]) == 0
    (tmp_path / "_fairseq-ssl").write_text(capsys.readouterr().out, encoding="utf-8")
    words = f"fpath=({tmp_path} $fpath); autoload -U compinit; compinit -D -u; "
    words += "autoload +X _fairseq-ssl; print $_comps[fairseq-ssl]"
    done = subprocess.run(["zsh", "-f", "-c", words], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "_fairseq-ssl"
    assert not done.stderr
