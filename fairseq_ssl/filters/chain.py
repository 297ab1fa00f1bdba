"""Chains of filters, from ``langid:source=en,clean:max=100`` or from a YAML file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from fairseq_ssl.errors import DataError, UsageError, import_optional, nearest
from fairseq_ssl.filters.deduplication import DuplicateFilter
from fairseq_ssl.filters.language import LanguageFilter
from fairseq_ssl.filters.rules import (
    CleanFilter,
    EncodingFilter,
    Filter,
    IdenticalFilter,
    LongestFilter,
)
from fairseq_ssl.io.text_files import open_bytes
from fairseq_ssl.text import specs

FILTERS: dict[str, type[Any]] = {
    "clean": CleanFilter,
    "duplicates": DuplicateFilter,
    "encoding": EncodingFilter,
    "identical": IdenticalFilter,
    "langid": LanguageFilter,
    "longest": LongestFilter,
}
NOUN = "filter"


@dataclass(frozen=True)
class FilterSpec:
    """One filter of a chain as its user asked for it."""

    kind: str
    options: Mapping[str, specs.Value]

    def __str__(self) -> str:
        """Return it with all its options, as in ``clean:min=1:max=100:ratio=3.0``."""
        values = {
            name: self.options.get(name, field.default)
            for name, field in specs.options_of(FILTERS[self.kind]).items()
        }
        words = [
            f"{name.replace('_', '-')}={specs.format_value(value)}"
            for name, value in values.items()
            if value != ""
        ]
        return ":".join([self.kind, *words])


@dataclass(frozen=True)
class FilterChain:
    """The filters that see a row one after the other, and the one that comes last."""

    names: tuple[str, ...]
    """Of all of them."""
    filters: tuple[Filter[Any], ...]
    duplicates: DuplicateFilter | None

    @property
    def takes_any_bytes(self) -> bool:
        """Tell whether lines that are not UTF-8 are dropped here."""
        return any(isinstance(one, EncodingFilter) for one in self.filters)


def parse_filters(words: str) -> list[FilterSpec]:
    """Read ``kind:option=value:...,kind,...``: filters of a chain, first to last."""
    return [FilterSpec(*specs.parse_spec(NOUN, FILTERS, word)) for word in words.split(",")]


def build_filters(chain: Sequence[FilterSpec], sides: int) -> FilterChain:
    """Make the filters for text of so many sides.

    The one for duplicates is put last: what the others say of a row does not depend on the rows
    before, so that their order is a matter of speed, while of equal rows the first has to be
    kept that passes all else.
    """
    ordered = sorted(chain, key=lambda setting: setting.kind == "duplicates")
    made = [_made_filter(setting, sides) for setting in ordered]
    duplicates = [one for one in made if isinstance(one, DuplicateFilter)]
    if len(duplicates) > 1:
        raise UsageError("The filter duplicates is there twice. Run one after the other.")
    others = tuple(one for one in made if not isinstance(one, DuplicateFilter))
    return FilterChain(tuple(map(str, ordered)), others, duplicates[0] if duplicates else None)


def describe_filters() -> str:
    """Return a line for each kind and for each of its options, for a help text."""
    return specs.describe_registry(FILTERS)


def _made_filter(setting: FilterSpec, sides: int) -> Any:
    kind = FILTERS[setting.kind]
    needs_sides = any(field.name == "sides" for field in fields(kind))
    return kind(**({"sides": sides} if needs_sides else {}), **setting.options)


MAX_DEPTH = 20
"""Levels of lists and options in each other; a chain of filters has four."""


def read_filters(path: Path) -> list[FilterSpec]:
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


def _settings(entry: Any) -> list[FilterSpec]:
    if isinstance(entry, str):
        return parse_filters(entry)
    if not isinstance(entry, dict) or len(entry) != 1:
        raise UsageError(
            f"{entry!r} is no filter. Expected a name, or one name with its options, as in "
            "clean: {max: 100}."
        )
    [(name, options)] = entry.items()
    specs.check_name(NOUN, FILTERS, str(name))
    if options is not None and not isinstance(options, dict):
        raise UsageError(f"{name}: {options!r} are no options. Expected as in {{max: 100}}.")
    return [FilterSpec(name, dict(_option(name, *pair) for pair in (options or {}).items()))]


def _option(name: str, key: Any, value: Any) -> tuple[str, specs.Value]:
    """Check a value against the type of the option's default."""
    found = specs.check_option(NOUN, name, FILTERS[name], str(key))
    default: Any = specs.options_of(FILTERS[name])[found].default
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
