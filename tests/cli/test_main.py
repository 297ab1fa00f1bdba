"""The command `fairseq-ssl`: help, unknown words, exit codes."""

from __future__ import annotations

import re
import shlex

import pytest

from fairseq_ssl import errors
from fairseq_ssl.cli import main, user_dir
from tests.cli.rewriting import refused


def examples_of(command: str) -> list[str]:
    """Return the example commands of a command, each without what follows in a shell."""
    text = main.load_command(command).EXAMPLES.replace("\\\n", " ")
    commands = re.findall(r"^ *fairseq-ssl (.*)", text, re.M)
    return [re.split(r"\s[|<>]|\)$|\s{2,}\(", command)[0] for command in commands]


@pytest.mark.parametrize("command", main.COMMANDS)
def test_examples_are_valid(command: str) -> None:
    for example in examples_of(command):
        name, *words = shlex.split(example.replace("$SLURM_ARRAY_TASK_ID", "1"))
        if name == command and "--help" not in words:
            main.command_parser(command).parse_args(words)


@pytest.mark.parametrize(
    ("words", "culprit"),
    [
        ("averge", "'average'"),
        ("average x -o y --lst 3", "'--last'"),
        ("average x --out y", "--output"),
        ("export x -o y --to tflite", "'tflite'"),
        ("user-dir here", "'here'"),
    ],
)
def test_unknown_words_exit_with_two_and_a_hint(
    words: str, culprit: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = refused(capsys, 2, *words.split())
    assert culprit in shown
    assert shown.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "code"),
    [(errors.DataError("bad file"), 1), (errors.UsageError("bad flag"), 2)],
)
def test_errors_are_one_line_and_debug_raises_them(
    error: errors.FairseqSslError,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(_: object) -> int:
        raise error

    monkeypatch.setattr(user_dir, "run", fail)
    shown = refused(capsys, code, "user-dir")
    assert shown.startswith(f"fairseq-ssl user-dir: error: {error}\n")
    with pytest.raises(errors.FairseqSslError):
        main.main(["--debug", "user-dir"])


@pytest.mark.parametrize("name", main.MOVED)
def test_a_removed_name_ends_in_an_error_that_names_its_successor(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["doctor", name] if name.startswith("-") else name.split()
    assert main.MOVED[name] in refused(capsys, 2, *words)
