"""The commands and programs of the documentation run, and its links lead somewhere."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from papers import PAPERS

from fairseq_ssl.cli.main import COMMANDS, command_parser
from tests.conftest import ROOT
from tests.docs.page_blocks import (
    NEEDS,
    REGISTER,
    SHOWN,
    Block,
    Session,
    blocks,
    matches,
    simple_commands,
    transcript,
)

README = ROOT / "README.md"
PAGES = [
    README,
    *(path for path in sorted(ROOT.glob("docs/**/*.md")) if path.name != "api.md"),
]
"""docs/api.md has a test of its own, tests/unit/test_public_api.py."""


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def is_run(block: Block) -> bool:
    return not block.needs and block.language not in SHOWN


def page_cases() -> Iterator[Any]:
    """Yield the pages. Those that train a model are slow."""
    for page in PAGES:
        code = "\n".join(block.text for block in blocks(page.read_text("utf-8")) if is_run(block))
        marks = [pytest.mark.slow] if "fairseq-train" in code else []
        yield pytest.param(page, id=name_of(page), marks=marks)


@pytest.mark.parametrize("page", list(page_cases()))
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    found = list(blocks(page.read_text(encoding="utf-8")))
    if not any(is_run(block) for block in found):
        return
    code = "\n".join(block.text for block in filter(is_run, found))
    for package in re.findall(r"^from (datasets|datatrove)\b", code, re.MULTILINE):
        pytest.importorskip(package)
    folder, scripts = tmp_path / "page", tmp_path / "scripts"
    folder.mkdir()
    scripts.mkdir()
    session = Session(folder, scripts)
    try:
        for block in filter(is_run, found):
            run_block(session, block, f"{name_of(page)}, line {block.line}")
        if page == README:
            run_table(session)
    finally:
        session.close()


def run_table(session: Session) -> None:
    """Run the commands in the README's table of tasks."""
    text = README.read_text(encoding="utf-8")
    options = re.search(r"stands for training options, such as\s`(.*?)`", text)
    assert options is not None
    commands = re.findall(r"^\| [^|`]+ \| `([^`]+)` \| \[", text, re.MULTILINE)
    assert len(commands) == 8
    for command in commands:
        succeeded, output = session.run(command.replace("...", f"{options[1]} --cpu"))
        assert succeeded, f"{command}\n{output}"


def run_block(session: Session, block: Block, place: str) -> None:
    if block.language == "console":
        for command, shown in transcript(block.text):
            succeeded, output = session.run(command)
            assert succeeded, f"{place}: {command}\n{output}"
            assert matches(shown, output, block.within), (
                f"{place}: {command}\nshown:\n{shown}\nprinted:\n{output}"
            )
    else:
        run = session.run_python if block.language == "python" else session.run
        succeeded, output = run(block.text)
        assert succeeded, f"{place}:\n{block.text}\n{output}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_each_block_names_its_language_and_what_it_needs(page: Path) -> None:
    for block in blocks(page.read_text(encoding="utf-8")):
        place = f"{name_of(page)}, line {block.line}"
        assert block.language in ("bash", "console", "python", *SHOWN), place
        assert block.needs in ("", *NEEDS), place


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_with_names_of_the_plugin_load_it(page: Path) -> None:
    """The command server has loaded the plug-in, so commands without --user-dir run in tests."""
    registered = {name for paper in PAPERS for name in paper.registered}
    for block in blocks(page.read_text(encoding="utf-8")):
        for words in [*commands_of(block), *printed_commands(block)]:
            if {*FAIRSEQ, "launch_train"}.intersection(words) and registered.intersection(words):
                place = f"{name_of(page)}, line {block.line}: {' '.join(words)}"
                # A variable, which is 1 here, can hold the option.
                assert {"--user-dir", "...", "1"}.intersection(words), place


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_guides_name_the_extras_of_their_commands(page: Path) -> None:
    """Tests have all extras, so commands that need one run."""
    text = page.read_text(encoding="utf-8")
    code = "\n".join(block.text for block in blocks(text))
    if page.parent.name == "guides":
        for extra, pattern in EXTRAS.items():
            named = re.search(rf"\bextras?\b[^|]*`{extra}`", text)
            assert named or not re.search(pattern, code), f"{name_of(page)}: {extra}"


EXTRAS = {
    "train": r"fairseq-(train|generate)|fairseq_ssl\.register",
    "bert": r"--edit-init|--to huggingface|transformers import",
    "correct": r"fairseq-ssl (correct|serve) .*onnx",
    "ctranslate2": r"--to ctranslate2|--engine ctranslate2",
    "gec": r"score errant|m2 from-(text|json)",
    "noise": r"--method learner|learner-errors|confusion-sets|--spelling",
    "onnx": r"--to onnx",
    "plot": r"--figure|shift-similarity|length-bleu",
    "ray": r"--executor ray\b",
    "rouge": r"score rouge",
    "scale": r"\b(s3|gs|hdfs)://|\.zst\b",
    "serve": r"fairseq-ssl serve",
    "wmt": r"langid:|--config |learned-filter|rerank vectors|mecab",
}
"""Patterns of the code that needs an extra."""


def test_the_page_of_installation_has_all_extras() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    table = project.partition("[project.optional-dependencies]\n")[2].partition("\n[")[0]
    extras = set(re.findall(r"^([\w-]+) = \[", table, re.MULTILINE))
    developer = {"docs", "dev", "scale-tests"}
    assert extras == {*EXTRAS, "all", *developer}
    page = (ROOT / "docs/getting_started.md").read_text(encoding="utf-8")
    rows = page.partition("| extra | for |\n")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", rows, re.MULTILINE)) == extras - developer


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_programs_register_the_names_that_they_import(page: Path) -> None:
    """The command server has registered them, so other programs would run in tests."""
    for block in blocks(page.read_text(encoding="utf-8")):
        before, call, _ = block.text.partition(REGISTER)
        if block.language == "python" and call:
            imported = set(re.findall(r"^from fairseq_ssl\.(\w+)", before, re.MULTILINE))
            assert imported <= {"inference", "checkpoints", "analysis"}, block.line


def commands_of(block: Block) -> list[list[str]]:
    """Return the words of each command in a block of bash or of a console."""
    if block.language == "console":
        return list(simple_commands("".join(command for command, _ in transcript(block.text))))
    return list(simple_commands(block.text)) if block.language == "bash" else []


def printed_commands(block: Block) -> list[list[str]]:
    """Return the words of each line of output in a console block, such as those of a dry run."""
    steps = transcript(block.text) if block.language == "console" else []
    return [line.split() for _, shown in steps for line in shown.splitlines()]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_that_need_data_have_known_flags(page: Path) -> None:
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.needs:
            for words in commands_of(block):
                fault = fault_of(words)
                assert not fault, f"{name_of(page)}, line {block.line}: {' '.join(words)}: {fault}"


def fault_of(words: list[str]) -> str:
    """Return the error that the parser of a command would print, or an empty string."""
    if words[0] == "fairseq-ssl":
        return fault_of_command(words[1:])
    if words[0] in FAIRSEQ:
        unknown = [word for word in words if word.startswith("--")]
        unknown = [word for word in unknown if word.partition("=")[0] not in fairseq_flags()]
        return f"unknown: {' '.join(unknown)}" if unknown else ""
    return ""


FAIRSEQ = {f"fairseq-{name}" for name in ("train", "generate", "interactive", "preprocess")}


@cache
def fairseq_flags() -> set[str]:
    from fairseq import options

    from tests.recipes.test_flag_tables import flags_of, known

    parsers = (options.get_preprocessing_parser(), options.get_interactive_generation_parser())
    return known().union(*map(flags_of, parsers))


def fault_of_command(words: list[str]) -> str:
    name, *rest = words or [""]
    if name not in COMMANDS:
        return f"no command {name}"
    parser = command_parser(name)
    printed = io.StringIO()
    try:
        with contextlib.redirect_stderr(printed):
            parser.parse_args([word for word in rest if word != "..."])
    except SystemExit:
        if "..." not in rest or "the following arguments are required" not in printed.getvalue():
            return printed.getvalue()
    return ""


def test_dots_in_output_match_any_text() -> None:
    assert matches("BLEU ...\n", "BLEU 25.1\n")
    assert matches("...\nend\n", "a\nb\nend\n")
    assert not matches("BLEU 25.1\n", "BLEU 25x1\n")
    assert matches("BLEU 25.1 ...\n", "BLEU 29.0 a\n", within=4)
    assert not matches("BLEU 25.1\n", "BLEU 20.0\n", within=4)
