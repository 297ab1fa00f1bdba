"""griffe extension: docstrings as Markdown. mkdocs.yml names this file."""

from __future__ import annotations

import re
from typing import Any

import griffe


class MarkdownDocstrings(griffe.Extension):
    """Puts examples of docstrings into fences, and replaces the markup of reStructuredText."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rewrite the docstring of an object that has been read."""
        if obj.docstring:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(docstring: str) -> str:
    """Return a docstring as Markdown, for griffe's parser of Google's style.

    >>> print(as_markdown("See :func:`register`."))
    See `register`.
    """
    text = re.sub(r":\w+:`([^`]+)`", r"`\1`", docstring)
    text = re.sub(r"``([^`]+)``", r"`\1`", text)
    text = re.sub(r"^Example:$", "Examples:", text, flags=re.MULTILINE)
    paragraphs = re.split(r"(\n{2,})", text)
    return "".join(
        f"```pycon\n{part}\n```" if part.startswith(">>> ") else part for part in paragraphs
    )
