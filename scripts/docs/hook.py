"""mkdocs hook: adds the generated pages to the site. mkdocs.yml names this file."""

from __future__ import annotations

import re
from typing import Any

import generated_pages
from mkdocs.structure.files import File, Files
from pygments.lexers.shell import BashSessionLexer

from fairseq_ssl.cli.main import COMMANDS

# Lines of a here-document begin with "> ". Without this they count as output, which is not copied.
BashSessionLexer._bare_continuation = True


def on_config(config: Any) -> Any:
    """Fill the list of commands in the navigation."""
    listed = [
        "commands/index.md",
        *({command: f"commands/{command}.md"} for command in COMMANDS),
        "commands/fairseq-options.md",
    ]
    for section in config.nav:
        for title, items in section.items():
            if title == "Reference":
                items[0]["Commands"] = listed
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages."""
    generated_pages.pages.cache_clear()
    for path, text in generated_pages.pages().items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, **kwargs: Any) -> str:
    """Return the page with the prompts of empty lines in here-documents complete, for the lexer."""
    return re.sub(r"^>$", "> ", markdown, flags=re.MULTILINE)
