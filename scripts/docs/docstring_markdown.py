"""griffe extension: docstrings as Markdown, and defaults as values. mkdocs.yml names this file."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Mapping
from operator import attrgetter
from types import NoneType
from typing import Any

import griffe
from command_pages import escape

from fairseq_ssl.options import describe, options_of

FIRST = ["corpus_score", "sentence_score", "get_signature"]
"""Members of a class that come before the others, which are in the order of the source."""


class MarkdownDocstrings(griffe.Extension):
    """Puts examples of docstrings into fences, and replaces the markup of reStructuredText."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rewrite the docstring of an object that has been read."""
        if obj.docstring:
            obj.docstring.value = as_markdown(obj.docstring.value)


class Values(griffe.Extension):
    """Replaces names of constants by their values, and lists the options of dataclasses."""

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        """Describe the functions and classes of all modules that are imported."""
        describe_members(pkg)


def describe_members(scope: Any) -> None:
    """Describe the functions and classes of a module or a class."""
    for member in scope.members.values():
        if member.is_alias or member.is_attribute:
            continue
        if not member.is_function:
            describe_members(member)
        if member.is_module:
            continue
        try:
            module = sys.modules.get(member.module.path)
            imported = attrgetter(member.path.removeprefix(f"{member.module.path}."))(module)
            set_defaults(member.parameters, inspect.signature(imported).parameters)
        except (AttributeError, ValueError):  # not imported, or without a signature
            continue
        if member.is_class:
            describe_class(member, imported)


def describe_class(described: griffe.Class, imported: type) -> None:
    """Set the order of the members, the values of fields, and the descriptions of options."""
    described.exports = FIRST
    for parameter in described.parameters:
        if field := described.members.get(parameter.name):
            field.value = parameter.default
    if options := options_of(imported):
        lines = [f"    {name}: {escape(describe(option))}" for name, option in options.items()]
        described.docstring.value += "\n\nArgs:\n" + "\n".join(lines)


def set_defaults(described: griffe.Parameters, imported: Mapping[str, inspect.Parameter]) -> None:
    """Replace expressions by their values, if these are numbers, strings, tuples or None."""
    for parameter in described:
        if parameter.default is not None and parameter.name in imported:
            value = imported[parameter.name].default
            if value is inspect.Parameter.empty:
                parameter.default = None
            elif isinstance(value, (bool, int, float, str, tuple, NoneType)):
                parameter.default = repr(value)


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
