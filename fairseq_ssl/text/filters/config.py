"""A chain of filters in a YAML file: ``filters: [{langid: {source: en, target: de}}, clean]``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fairseq_ssl.errors import DataError, UsageError, import_optional, nearest
from fairseq_ssl.io.text_files import open_bytes
from fairseq_ssl.text import specs
from fairseq_ssl.text.filters import kinds
from fairseq_ssl.text.filters.kinds import KINDS, NOUN, Setting

MAX_DEPTH = 20
"""Levels of lists and options in each other; a chain of filters has four."""


def read_chain(path: Path) -> list[Setting]:
    """Read the filters of a file: a list of names, or of names with options."""
    content = _content(path)
    if not isinstance(content, dict) or "filters" not in content:
        raise UsageError(f"{path} has no list of filters. Expected, as a first line: filters:")
    for key in content:
        if key != "filters":
            hint = nearest(str(key), ["filters"])
            raise UsageError(f"{path}: {key!r} is not understood.{hint} It takes 'filters' alone.")
    entries = content["filters"]
    if not isinstance(entries, list) or not entries:
        raise UsageError(f"{path}: 'filters' is no list of filters. Begin each with a hyphen.")
    try:
        return [setting for entry in entries for setting in _settings(entry)]
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None


def _content(path: Path) -> Any:
    yaml = import_optional("yaml", "A file of filters", "wmt")
    with open_bytes(path) as file:
        data = file.read()
    try:
        _check_events(yaml, data)
        return yaml.safe_load(data)
    except Exception as error:  # of YAML, or of a number or a date that is none
        mark = getattr(error, "problem_mark", None)
        place = f"{path}:{mark.line + 1}" if mark else str(path)
        what = getattr(error, "problem", None) or str(error) or "is it text?"
        raise DataError(f"{place} is not YAML: {what}.") from None


def _check_events(yaml: Any, data: bytes) -> None:
    """Reject aliases, by which a short file has a huge content, and deep nesting."""
    depth = 0
    for event in yaml.parse(data, Loader=yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if isinstance(event, yaml.AliasEvent):
            raise ValueError("aliases, such as *name, are not supported")
        if depth > MAX_DEPTH:
            raise ValueError("it is nested too deeply")


def _settings(entry: Any) -> list[Setting]:
    if isinstance(entry, str):
        return kinds.parsed(entry)
    if not isinstance(entry, dict) or len(entry) != 1:
        raise UsageError(
            f"{entry!r} is no filter. Expected a name, or one name with its options, as in "
            "clean: {max: 100}."
        )
    [(name, options)] = entry.items()
    specs.check_name(NOUN, KINDS, str(name))
    if options is not None and not isinstance(options, dict):
        raise UsageError(f"{name}: {options!r} are no options. Expected as in {{max: 100}}.")
    return [Setting(name, dict(_option(name, *pair) for pair in (options or {}).items()))]


def _option(name: str, key: Any, value: Any) -> tuple[str, specs.Value]:
    """Check a value against the type of the option's default."""
    found = specs.check_option(NOUN, name, KINDS[name], str(key))
    default: Any = specs.options_of(KINDS[name])[found].default
    if isinstance(default, str) and isinstance(value, list):
        value = "+".join(map(str, value)) if all(isinstance(one, str) for one in value) else value
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if isinstance(default, float) and number:
        return found, float(value)
    if type(value) is type(default):
        return found, value
    expected = {bool: "true or false", int: "a whole number", float: "a number"}
    words = expected.get(type(default), "text; YAML takes some words, such as no, for other things")
    raise UsageError(f"{name}: {key} is {value!r}; expected {words}.")
