"""Links lead to files and headings, and the generated pages have all options."""

from __future__ import annotations

import os
import pickle
import posixpath
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from papers import PAPERS, Paper

from fairseq_ssl.cli.main import COMMANDS, command_parser
from tests.conftest import ROOT
from tests.docs.page_blocks import FENCE
from tests.recipes.test_flag_tables import flags_of

REPOSITORY = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")),
    *sorted(ROOT.glob("examples/**/*.md")),
    *sorted(ROOT.glob("scripts/**/README.md")),
]
LINK = re.compile(r"\]\(([^)\s]+)\)")


@cache
def generated() -> dict[str, str | bytes]:
    """The pages that the build of the site generates."""
    sys.path.insert(0, str(ROOT / "scripts/docs"))
    import generated_pages

    return generated_pages.pages()


def links(text: str) -> Iterator[tuple[str, str]]:
    """Yield path and fragment of each link to a file."""
    text = re.sub(r"`[^`\n]+`", "code", FENCE.sub("", text))
    for address in LINK.findall(text):
        if not re.match(r"[a-z]+:", address):
            path, _, fragment = address.partition("#")
            yield path, fragment


def anchors(text: str) -> set[str]:
    """Return the anchors of the headings, as GitHub builds them."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", text), re.MULTILINE)
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)|`|<[^>]+>", r"\1", heading) for heading in headings)
    found: set[str] = set()
    for heading in plain:
        anchor = re.sub(r"[^\w\- ]", "", heading.lower().strip()).replace(" ", "-")
        found.add(anchor if anchor not in found else f"{anchor}_1")
    return found


def faults(name: str, text: str, read: Callable[[str], str | None]) -> Iterator[str]:
    """Yield the links of a page that lead nowhere."""
    for path, fragment in links(text):
        target = posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) if path else name
        page = read(target)
        if page is None:
            yield f"{name}: {path}"
        elif fragment and target.endswith(".md") and fragment not in anchors(page):
            yield f"{name}: {path}#{fragment}"


def read_file(name: str) -> str | None:
    """Return the text of a repository file; an empty string for folders and images."""
    path = ROOT / name
    if not path.exists():
        return None
    return path.read_text(encoding="utf-8") if path.suffix == ".md" else ""


def read_page(name: str) -> str | None:
    """Return the text of a site page."""
    if name in generated():
        page = generated()[name]
        return page if isinstance(page, str) else ""
    return None if name.startswith("../") else read_file(f"docs/{name}")


@pytest.mark.parametrize("name", [str(page.relative_to(ROOT)) for page in REPOSITORY])
def test_links_of_the_repository(name: str) -> None:
    text = read_file(name)
    assert text
    assert list(faults(name, text, read_file)) == []


SECTIONS = ["Quick start", "Use your data", "Data", "Commands", "Flags", "Results", "Citation"]
"""The sections of README.md."""
REPRODUCTION = [r"The (paper|slides) and this implementation", "Notes on reproduction"]
"""The last sections of RESULTS.md."""


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.key)
def test_a_recipe_has_all_sections_in_order(paper: Paper) -> None:
    manual, results = ((ROOT / page).read_text("utf-8") for page in paper.pages)
    assert headings(manual) == SECTIONS
    assert len(manual.splitlines()) <= 150
    assert "](RESULTS.md)" in manual
    assert all(map(re.fullmatch, REPRODUCTION, headings(results)[-2:]))


def headings(text: str) -> list[str]:
    return re.findall(r"^## (.*)$", FENCE.sub("", text), re.MULTILINE)


def test_links_of_the_site() -> None:
    names = [str(path.relative_to(ROOT / "docs")) for path in ROOT.glob("docs/**/*.md")]
    names += [name for name in generated() if name.endswith(".md")]
    found = [fault for name in names for fault in faults(name, read_page(name) or "", read_page)]
    assert found == []


def test_all_pages_of_the_navigation_are_there() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    names = re.findall(r"[\w/-]+\.md", navigation)
    assert len(names) > 40
    assert [name for name in names if read_page(name) is None] == []


ELSEWHERE = """
import os, pickle, sys
os.sched_getaffinity = lambda pid: range(99)
os.cpu_count = lambda: 99
sys.path.insert(0, "scripts/docs")
import generated_pages
sys.stdout.buffer.write(pickle.dumps(generated_pages.pages()))
"""
"""Program that generates the pages as a machine with 99 cores does."""


def test_generated_pages_do_not_depend_on_the_machine(tmp_path: Path) -> None:
    machine = {"HOME": str(tmp_path), "COLUMNS": "33", "LANG": "C", "CUDA_VISIBLE_DEVICES": ""}
    words = [sys.executable, "-c", ELSEWHERE]
    env = {**os.environ, **machine}
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, check=True)
    elsewhere = pickle.loads(done.stdout)
    assert elsewhere.keys() == generated().keys()
    assert [name for name in elsewhere if elsewhere[name] != generated()[name]] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_the_page_of_a_command_has_all_its_options(command: str) -> None:
    page = read_page(f"commands/{command}.md")
    assert page
    assert "## Examples" in page
    for flag in flags_of(command_parser(command)):
        if flag not in ("-h", "--help"):
            assert f"`{flag}`" in page, flag


def test_the_page_of_fairseq_options_has_all_registered_names() -> None:
    page = read_page("commands/fairseq-options.md")
    assert page
    for paper in PAPERS:
        for name in paper.registered:
            assert re.search(rf"(^### |`--arch ){name}\b", page, re.MULTILINE), name
