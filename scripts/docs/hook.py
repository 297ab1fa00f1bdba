"""mkdocs hook: adds the generated pages to the site. mkdocs.yml names this file."""

from __future__ import annotations

import re
import runpy
from typing import Any

import command_pages
import generated_pages
from mkdocs.structure.files import File, Files
from pygments.lexers.shell import BashSessionLexer

from fairseq_ssl._version import __version__

# Lines of a here-document begin with "> ". Without this they count as output, which is not copied.
BashSessionLexer._bare_continuation = True

SETUP = runpy.run_path(str(generated_pages.ROOT / "setup.py"))
SOURCES = {page: source for source, page in generated_pages.INCLUDED.items()}


def on_config(config: Any) -> Any:
    """List the commands in the navigation. Set the version and the address of the repository."""
    for section in config.nav:
        for name, items in section.items():
            if name == "Commands":
                for title, commands in command_pages.GROUPS.items():
                    pages = [{command: f"commands/{command}.md"} for command in commands]
                    items.append({title: pages})
    config.site_name = f"{config.site_name} {__version__}"
    if SETUP["REPOSITORY"]:
        config.repo_url, config.repo_name = SETUP["REPOSITORY"], "Repository"
        config.edit_uri = f"edit/{SETUP['BRANCH']}/docs/"
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages."""
    generated_pages.pages.cache_clear()
    for path, text in generated_pages.pages().items():
        file = File.generated(config, path, content=text)
        file.edit_uri = f"../{SOURCES[path]}" if path in SOURCES else None
        files.append(file)
    return files


def on_page_markdown(markdown: str, **kwargs: Any) -> str:
    """Return the page with the prompts of empty lines in here-documents complete, for the lexer."""
    return re.sub(r"^>$", "> ", markdown, flags=re.MULTILINE)


def on_page_content(html: str, **kwargs: Any) -> str:
    """Return the page with flags marked, so that site.css keeps each on one line."""
    flag, marked = r"(?<![\w-])--?[a-z][\w-]*", r'<span class="flag">\g<0></span>'
    return re.sub(r"(?<=>)[^<]*-[a-z][^<]*", lambda text: re.sub(flag, marked, text[0]), html)
