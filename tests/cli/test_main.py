"""The command `fairseq-ssl`: help, unknown words, exit codes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from fairseq_ssl import __version__, errors
from fairseq_ssl.cli import main, user_dir


def test_help_lists_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main([]) == 0
    shown = capsys.readouterr().out
    assert all(f"\n  {verb} " in shown for verb in main.VERBS)


@pytest.mark.parametrize("verb", main.VERBS)
def test_each_verb_has_help_with_examples(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main([verb, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"fairseq-ssl {verb}" in shown.partition("examples:")[2] or verb == "user-dir"


def examples_of(verb: str) -> list[str]:
    """Return the example commands of a verb, each without what follows in a shell."""
    text = main.load_verb(verb).EXAMPLES.replace("\\\n", " ")
    commands = re.findall(r"^ *fairseq-ssl (.*)", text, re.M)
    return [re.split(r"\s[|<>]|\)$|\s{2,}\(", command)[0] for command in commands]


@pytest.mark.parametrize("verb", main.VERBS)
def test_examples_are_valid(verb: str) -> None:
    for example in examples_of(verb):
        name, *words = shlex.split(example.replace("$SLURM_ARRAY_TASK_ID", "1"))
        if name == verb and "--help" not in words:
            main.verb_parser(verb).parse_args(words)


@pytest.mark.parametrize("verb", ["rerank", "classify", "export"])
def test_examples_with_a_model_have_its_dictionaries(verb: str) -> None:
    needs = re.compile(r"rerank features|classify (label|predict)|--to (ct|onnx|hugging)")
    found = [example for example in examples_of(verb) if needs.search(example)]
    assert found
    assert all("--data-dir" in example for example in found)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == f"fairseq-ssl {__version__}"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["averge"], "unknown verb 'averge'. Did you mean 'average'?"),
        (["average", "x", "-o", "y", "--lst", "3"], "Did you mean '--last'?"),
        (["average", "x", "--out", "y"], "-o/--output"),
        (["export", "x", "-o", "y", "--to", "tflite"], "invalid choice: 'tflite'"),
        (["user-dir", "here"], "unknown argument 'here'."),
    ],
)
def test_unknown_words_exit_with_two_and_a_hint(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(words) == 2
    shown = capsys.readouterr().err
    assert message in shown
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
    assert main.main(["user-dir"]) == code
    assert capsys.readouterr().err.startswith(f"fairseq-ssl user-dir: error: {error}\n")
    with pytest.raises(errors.FairseqSslError):
        main.main(["user-dir", "--debug"])


@pytest.mark.parametrize(
    "words",
    [
        ["tokenize", "--moses", "en", "text", "-o", "."],
        ["noise", "text", "--method", "spelling", "-o", "noisy", "--clean", "/"],
        ["filter", "text", "text", "--filter", "clean", "-o", "kept", "."],
    ],
)
def test_output_without_a_name_is_rejected(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(words) == 2
    assert f" is the folder {words[-1]}. Expected a new path in it.\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["filter", "text", "text", "--filter", "clean", "-o", "kept", "-"],
        ["noise", "text", "--method", "spelling", "-o", "noisy", "--clean", "-"],
    ],
)
def test_output_that_cannot_be_stdout_is_rejected(
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text").write_text("a\n")
    assert main.main(words) == 2
    assert "cannot write to stdout (-) here. Name a file." in capsys.readouterr().err
    assert list(map(str, tmp_path.iterdir())) == [str(tmp_path / "text")]


def test_ctrl_c_ends_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(user_dir, "run", stop)
    assert main.main(["user-dir"]) == 130


def test_user_dir_prints_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["user-dir"]) == 0
    assert (Path(capsys.readouterr().out.strip()) / "plugin/__init__.py").is_file()
