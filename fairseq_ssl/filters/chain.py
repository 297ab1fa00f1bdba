"""Chains of filters, from ``langid:source=en,clean:max=100``, a YAML file, or your own classes."""

from __future__ import annotations

import hashlib
import importlib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeAlias

from fairseq_ssl.errors import DataError, UsageError, import_optional, nearest
from fairseq_ssl.filters.deduplication import DuplicateFilter
from fairseq_ssl.filters.rules import (
    CleanFilter,
    EncodingFilter,
    Filter,
    IdenticalFilter,
    LanguageFilter,
    MaxLengthFilter,
)
from fairseq_ssl.io.text_files import open_bytes
from fairseq_ssl.text import specs

FILTERS: dict[str, type[Any]] = {
    "clean": CleanFilter,
    "duplicates": DuplicateFilter,
    "encoding": EncodingFilter,
    "identical": IdenticalFilter,
    "langid": LanguageFilter,
    "max-length": MaxLengthFilter,
}
NOUN = "filter"


@dataclass(frozen=True)
class FilterSpec:
    """A filter with its options, as requested."""

    name: str
    """A name in `FILTERS`, or ``package.module:Class``."""
    options: Mapping[str, specs.Value]

    def __str__(self) -> str:
        """Return the name with all options, such as ``clean:min=1:max=100:ratio=3.0``."""
        return _full_name(self.name, filter_class(self.name), self.options)


FilterRequest: TypeAlias = "str | Sequence[FilterSpec | Filter[Any]]"
"""Names with options, as `parse_filters` reads them, or a list of specs and your own filters."""


@dataclass(frozen=True)
class FilterChain:
    """Filters that see the rows one after the other, and the filter for duplicates."""

    names: tuple[str, ...]
    """Names with all options, in order."""
    filters: tuple[Filter[Any], ...]
    duplicates: DuplicateFilter | None

    @property
    def accepts_any_bytes(self) -> bool:
        """Return True if a filter drops lines that are not UTF-8."""
        return any(isinstance(one, EncodingFilter) for one in self.filters)

    @property
    def source_digests(self) -> dict[str, str]:
        """Return a digest of the source code of each filter outside this package."""
        classes = [type(one) for one in self.filters if type(one) not in FILTERS.values()]
        return {_class_name(cls): _source_digest(cls) for cls in classes}


def parse_filters(text: str) -> list[FilterSpec]:
    """Parse ``name:option=value:...,name,...``, the filters of a chain in order.

    >>> [str(spec) for spec in parse_filters("identical:ignore-case=true,encoding")]
    ['identical:ignore-case=true:ignore-spaces=false', 'encoding:twice=true']
    """
    return [_parse_filter(word.strip()) for word in text.split(",")]


def build_filters(filters: FilterRequest, sides: int) -> FilterChain:
    """Build the filters for text of one or two sides.

    The filter for duplicates is moved to the end. The verdicts of the other filters do not depend
    on the previous rows, so their order matters for speed only, while of equal rows the first row
    that passes all other filters is kept.
    """
    specs_ = parse_filters(filters) if isinstance(filters, str) else filters
    built = [(_name(one), _build_filter(one, sides)) for one in specs_]
    built.sort(key=lambda pair: isinstance(pair[1], DuplicateFilter))
    duplicates = [one for _, one in built if isinstance(one, DuplicateFilter)]
    if len(duplicates) > 1:
        raise UsageError("The filter duplicates is listed twice. Run one after the other.")
    others = tuple(one for _, one in built if isinstance(one, Filter))
    names = tuple(name for name, _ in built)
    return FilterChain(names, others, duplicates[0] if duplicates else None)


def describe_filters() -> str:
    """Return a line for each filter and for each of its options."""
    return specs.describe_registry(FILTERS)


def filter_class(name: str) -> type[Any]:
    """Return the class of a filter: one of `FILTERS`, or imported as ``package.module:Class``.

    Only modules that Python finds on its path are imported, never a file beside the text.
    """
    if ":" not in name:
        specs.check_name(NOUN, FILTERS, name)
        return FILTERS[name]
    module_name, _, class_name = name.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), class_name)):
        raise UsageError(f"{name!r} is not a filter. Expected package.module:Class.")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # whatever the module raises
        hint = nearest(module_name, FILTERS)
        raise UsageError(
            f"The filter {name!r} cannot be imported: {type(error).__name__}: {error}.{hint} "
            "Expected package.module:Class, of a module that Python finds, for example with "
            f"PYTHONPATH, or one of {', '.join(FILTERS)}."
        ) from error
    found = getattr(module, class_name, None)
    if not (isinstance(found, type) and issubclass(found, Filter)) or inspect.isabstract(found):
        raise UsageError(
            f"{name!r} is not a filter. Expected a subclass of fairseq_ssl.filters.Filter with the "
            f"methods score and accept in {module.__name__}."
        )
    return found


def _parse_filter(text: str) -> FilterSpec:
    name, *pairs = text.split(":")
    if name in FILTERS or not pairs or "=" in pairs[0]:
        return FilterSpec(*specs.parse_spec(NOUN, FILTERS, text))
    name = f"{name}:{pairs[0]}"
    _, options = specs.parse_spec(NOUN, {pairs[0]: filter_class(name)}, ":".join(pairs))
    return FilterSpec(name, options)


def _name(one: FilterSpec | Filter[Any]) -> str:
    if isinstance(one, FilterSpec):
        return str(one)
    options = {name: getattr(one, name) for name in specs.options_of(type(one))}
    return _full_name(_class_name(type(one)), type(one), options)


def _full_name(name: str, cls: type[Any], options: Mapping[str, Any]) -> str:
    values = {
        key: options.get(key, declared.default) for key, declared in specs.options_of(cls).items()
    }
    words = [
        f"{key.replace('_', '-')}={specs.format_value(value)}"
        for key, value in values.items()
        if value != ""
    ]
    return ":".join([name, *words])


def _class_name(cls: type[Any]) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def _source_digest(cls: type[Any]) -> str:
    """Return a digest of the module's source; empty in a notebook, where there is no file."""
    try:
        return hashlib.sha256(Path(inspect.getfile(cls)).read_bytes()).hexdigest()[:12]
    except (TypeError, OSError):
        return ""


def _build_filter(one: FilterSpec | Filter[Any], sides: int) -> Filter[Any] | DuplicateFilter:
    if isinstance(one, Filter):
        return one
    cls = filter_class(one.name)
    needs_sides = is_dataclass(cls) and any(field.name == "sides" for field in fields(cls))
    arguments = {**({"sides": sides} if needs_sides else {}), **one.options}
    try:
        built: Filter[Any] | DuplicateFilter = cls(**arguments)
    except TypeError as error:
        raise UsageError(f"The filter {one.name!r} cannot be created: {error}.") from error
    return built


MAX_DEPTH = 20
"""Maximum nesting of the YAML. A chain of filters has four levels."""


def read_filters(path: Path) -> list[FilterSpec]:
    """Read the filters of a YAML file: a list of names, or of names with options."""
    content = _read_yaml(path)
    if not isinstance(content, dict) or "filters" not in content:
        raise UsageError(f"{path} has no list of filters. Expected as its first line: filters:")
    for key in content:
        if key != "filters":
            hint = nearest(str(key), ["filters"])
            raise UsageError(f"{path}: unknown key {key!r}.{hint} Expected 'filters' only.")
    entries = content["filters"]
    if not isinstance(entries, list) or not entries:
        raise UsageError(f"{path}: 'filters' is not a list of filters. Begin each with a hyphen.")
    try:
        return [spec for entry in entries for spec in _parse_entry(entry)]
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None


def _read_yaml(path: Path) -> Any:
    yaml = import_optional("yaml", "A file of filters", "wmt")
    with open_bytes(path) as file:
        data = file.read()
    try:
        _check_events(yaml, data)
        return yaml.safe_load(data)
    except Exception as error:  # of YAML, or of an invalid number or date
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


def _parse_entry(entry: Any) -> Iterator[FilterSpec]:
    if isinstance(entry, str):
        yield from parse_filters(entry)
        return
    if not isinstance(entry, dict) or len(entry) != 1:
        raise UsageError(
            f"{entry!r} is not a filter. Expected a name, or one name with its options, for "
            "example clean: {max: 100}."
        )
    [(name, options)] = entry.items()
    cls = filter_class(str(name))
    if options is not None and not isinstance(options, dict):
        raise UsageError(f"{name}: {options!r} are not options. Expected for example {{max: 100}}.")
    yield FilterSpec(
        name, dict(_parse_option(name, cls, *pair) for pair in (options or {}).items())
    )


def _parse_option(name: str, cls: type[Any], key: Any, value: Any) -> tuple[str, specs.Value]:
    """Check a value against the type of the option's default."""
    found = specs.check_option(NOUN, name, cls, str(key))
    default: Any = specs.options_of(cls)[found].default
    if isinstance(default, str) and isinstance(value, list):
        value = "+".join(map(str, value)) if all(isinstance(one, str) for one in value) else value
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if isinstance(default, float) and number:
        return found, float(value)
    if type(value) is type(default):
        return found, value
    expected = {bool: "true or false", int: "an integer", float: "a number"}
    words = expected.get(type(default), "text; in YAML some words, such as no, are not text")
    raise UsageError(f"{name}: {key} is {value!r}. Expected {words}.")
