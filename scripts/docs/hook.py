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
    """Fill the lists of commands and of the recipes' results in the navigation."""
    listed = [
        "commands/index.md",
        *({command: f"commands/{command}.md"} for command in COMMANDS),
        "commands/fairseq-options.md",
    ]
    for section in config.nav:
        for title, items in section.items():
            if title == "Reference":
                items[0]["Commands"] = listed
            elif title == "Recipes":
                items.insert(-2, {"Results": results_of(items)})
    return config


def results_of(recipes: list[Any]) -> list[dict[str, str]]:
    """Return the pages of results of the recipes in the navigation, with the same titles."""
    pages = {
        title: path.replace(".md", "-results.md")
        for recipe in recipes
        if isinstance(recipe, dict)
        for title, path in recipe.items()
    }
    existing = generated_pages.INCLUDED.values()
    return [{title: page} for title, page in pages.items() if page in existing]


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages."""
    generated_pages.pages.cache_clear()
    for path, text in generated_pages.pages().items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, **kwargs: Any) -> str:
    """Return the page with the prompts of empty lines in here-documents complete, for the lexer."""
    return re.sub(r"^>$", "> ", markdown, flags=re.MULTILINE)
