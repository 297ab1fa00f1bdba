"""All generated pages of the site: commands, packages, recipes, and files of the root."""

from __future__ import annotations

import importlib
import inspect
import json
import posixpath
import re
from functools import cache
from pathlib import Path

import command_pages
import fairseq_options_page
from papers import PAPERS

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (
    *("noise", "filters", "edits", "metrics", "rerank", "report", "text"),
    *("inference", "checkpoints", "analysis"),
)
INCLUDED = {
    "README.md": "index.md",
    "SECURITY.md": "security.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "scripts/benchmarks/README.md": "benchmarks.md",
    "examples/README.md": "recipes/index.md",
    **{paper.pages[0]: f"recipes/{paper.key}.md" for paper in PAPERS},
    **{paper.pages[1]: f"recipes/{paper.key}-results.md" for paper in PAPERS},
}
"""Pages of the repository, and where they are in the site."""
WIDE, WIDE_PAGES = "---\nhide: [toc]\n---\n\n", ("recipes/index.md", "benchmarks.md")
"""Front matter of pages with wide tables, which get the width of the table of contents."""
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
CODE = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)
LANGUAGES = {".py": "python", ".sh": "bash", ".json": "json", ".yaml": "yaml", ".toml": "toml"}


IMAGES = (".png", ".svg")


@cache
def pages() -> dict[str, str | bytes]:
    """Return the generated pages, and the images in them, by their path in the site."""
    generated: dict[str, str | bytes] = {}
    generated |= {f"commands/{name}": text for name, text in command_pages.pages().items()}
    generated["commands/fairseq-options.md"] = fairseq_options_page.page()
    for package in PACKAGES:
        generated[f"reference/{package}.md"] = reference_page(package)
    linked: set[str] = set()
    for source, page in INCLUDED.items():
        if source != "README.md":
            generated[page] = included_page(source, page, linked)
    generated["reproduction.md"] = reproduction_page(linked)
    for path in sorted(linked):
        generated[file_page(path)] = source_page(path)
    return generated


def reference_page(package: str) -> str:
    """Return the page of a package, which mkdocstrings fills."""
    name = f"fairseq_ssl.{package}"
    module = importlib.import_module(name)
    # Functions first; mkdocstrings keeps the order of the list.
    members = sorted(module.__all__, key=lambda member: inspect.isclass(getattr(module, member)))
    return f"# {name}\n\n::: {name}\n    options:\n      members: {json.dumps(members)}\n"


def included_page(source: str, page: str, linked: set[str]) -> str:
    """Return a page of the repository, with its links rewritten for the site."""
    text = with_languages(rewrite_links((ROOT / source).read_text("utf-8"), source, page, linked))
    return f"{WIDE}{text}" if page in WIDE_PAGES else text


def rewrite_links(text: str, source: str, page: str, linked: set[str]) -> str:
    """Replace links to files by links to pages of the site. Collect files that need a page."""

    def replace(match: re.Match[str]) -> str:
        address, _, fragment = match[2].partition("#")
        if not address or "://" in address or address.startswith("mailto:"):
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), address))
        target = target_of(path, linked)
        relative = posixpath.relpath(target, posixpath.dirname(page) or ".")
        return f"{match[1]}{relative}{'#' if fragment else ''}{fragment}{match[3]}"

    pieces = CODE.split(text)
    # A link around inline code is split by it, so code is put back before links are searched.
    kept: list[str] = []
    joined = "".join(
        piece if index % 2 == 0 else _placeholder(kept, piece) for index, piece in enumerate(pieces)
    )
    rewritten = LINK.sub(replace, joined)
    return re.sub("\x00(\\d+)\x00", lambda match: kept[int(match[1])], rewritten)


def _placeholder(kept: list[str], piece: str) -> str:
    kept.append(piece)
    return f"\x00{len(kept) - 1}\x00"


def target_of(path: str, linked: set[str]) -> str:
    """Return the page of the site for a path of the repository."""
    if path in INCLUDED:
        return INCLUDED[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if (ROOT / path).is_dir():
        readme = posixpath.join(path, "README.md")
        if readme not in INCLUDED:
            raise ValueError(f"a page links to the folder {path}, which has no page in the site")
        return INCLUDED[readme]
    linked.add(path)
    return file_page(path)


def file_page(path: str) -> str:
    """Return the path of an image in the site, or of the page that shows another file."""
    return f"files/{path}" if path.endswith(IMAGES) else f"files/{path}.md"


def source_page(path: str) -> str | bytes:
    """Return an image, or a page that shows a file."""
    if path.endswith(IMAGES):
        return (ROOT / path).read_bytes()
    language = LANGUAGES.get(Path(path).suffix, "text")
    text = (ROOT / path).read_text("utf-8").rstrip("\n")
    return f"# {path}\n\n````{language}\n{text}\n````\n"


def with_languages(text: str) -> str:
    """Give fences without a language the language text."""
    is_open = False
    lines = []
    for line in text.splitlines():
        if line.startswith("```"):
            if not is_open and line == "```":
                line = "```text"
            is_open = not is_open
        lines.append(line)
    return "\n".join(lines) + "\n"


def reproduction_page(linked: set[str]) -> str:
    """Return the notes on reproduction of all recipes."""
    parts = [REPRODUCTION]
    for paper in PAPERS:
        source = paper.pages[1]
        text = (ROOT / source).read_text("utf-8")
        parts.append(f"## {paper.title}")
        links = [f"[Results and commands]({INCLUDED[source]})"]
        notes = section_of(text, "Notes on reproduction")
        if notes:
            body = rewrite_links(notes, source, "reproduction.md", linked)
            parts.append(with_languages(body).strip())
        differences = re.search(r"^## (The \w+ and this implementation)$", text, re.MULTILINE)
        if differences:
            page = f"{INCLUDED[source]}#{command_pages.anchor(differences[1])}"
            links.append(f"[{differences[1]}]({page})")
        parts.append(". ".join(links) + ".")
    return "\n\n".join(parts) + "\n"


def section_of(text: str, title: str) -> str:
    """Return the body of a page's section, or an empty string."""
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0].strip()


REPRODUCTION = """\
# Notes on reproduction

Details that the papers do not give, choices that matter, and attempts that did not help. The
results and the commands that produced them are in the recipes.\
"""
