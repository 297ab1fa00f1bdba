"""Filter chains, parsed from strings such as ``langid:source=en,clean:max=100`` or YAML files."""

from __future__ import annotations

import hashlib
import importlib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

from fairseq_ssl.errors import DataError, UsageError, import_optional, nearest
from fairseq_ssl.filters.deduplication import DuplicateFilter
from fairseq_ssl.filters.language import LanguageFilter
from fairseq_ssl.filters.rules import (
    CleanFilter,
    EncodingFilter,
    Filter,
    IdenticalFilter,
    MaxLengthFilter,
)
from fairseq_ssl.io.text_files import read_document
from fairseq_ssl.options import Value, options_of
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
    """Name and options of a filter in a chain."""

    name: str
    """A name in `FILTERS`, or ``package.module:Class``."""
    options: Mapping[str, Value]

    def __str__(self) -> str:
        """Return the specification with all options, such as ``duplicates:by=pair:near=0.0``."""
        return _full_name(self.name, filter_class(self.name), self.options)


FilterRequest: TypeAlias = "str | Sequence[FilterSpec | Filter[Any]]"
"""A specification for `parse_filters`, or a list of `FilterSpec` and `Filter` objects."""


@dataclass(frozen=True)
class FilterChain:
    """Filters in order of application. The duplicate filter is separate and is applied last."""

    names: tuple[str, ...]
    """Specifications of all filters with all options, such as ``encoding:twice=true``."""
    filters: tuple[Filter[Any], ...]
    duplicates: DuplicateFilter | None
    sources: Mapping[str, str] = field(default_factory=dict)
    """Source file digests of user-defined filter classes, by class name.

    The digest is random for a filter passed as an object, or a class without a source file, because
    changes to it cannot be detected. An interrupted job with such a filter starts anew.
    """

    @property
    def accepts_any_bytes(self) -> bool:
        """True if the chain contains an `EncodingFilter`, which drops lines with invalid UTF-8."""
        return any(isinstance(rule, EncodingFilter) for rule in self.filters)


def parse_filters(text: str) -> list[FilterSpec]:
    """Parse a filter chain such as ``clean:max=100,identical`` into `FilterSpec` objects.

    >>> [str(spec) for spec in parse_filters("identical:ignore-case=true,encoding")]
    ['identical:ignore-case=true:ignore-spaces=false', 'encoding:twice=true']
    """
    return [_parse_filter(word.strip()) for word in text.split(",")]


def build_filters(filters: FilterRequest, sides: int) -> FilterChain:
    """Build the filters for text with one or two sides.

    The filter ``duplicates`` is moved to the end. Of duplicate rows, it keeps the first one that
    passes all other filters. The order of the other filters affects only the speed and the counts
    per filter, not the output.
    """
    requested = parse_filters(filters) if isinstance(filters, str) else filters
    built = [(_build_filter(request, sides), request) for request in requested]
    for rule, request in built:
        if sides < 2 and getattr(rule, "compares_sides", False):
            what = "compares the two sides, but the text has only one side. Pass both sides."
            raise UsageError(f"The filter {_name(request)} {what}")
    built.sort(key=lambda pair: isinstance(pair[0], DuplicateFilter))
    duplicates = [rule for rule, _ in built if isinstance(rule, DuplicateFilter)]
    if len(duplicates) > 1:
        raise UsageError(
            "The filter duplicates is listed more than once. List it once. To use it with "
            "different options, filter in separate runs."
        )
    return FilterChain(
        names=tuple(_name(request) for _, request in built),
        filters=tuple(rule for rule, _ in built if isinstance(rule, Filter)),
        duplicates=duplicates[0] if duplicates else None,
        sources={
            _class_name(type(rule)): _source_digest(type(rule), isinstance(request, Filter))
            for rule, request in built
            if type(rule) not in FILTERS.values()
        },
    )


def describe_filters() -> str:
    """Return a text that lists all filters and their options, for command-line help."""
    return specs.describe_registry(FILTERS)


def filter_class(name: str) -> type[Any]:
    """Return the class of a filter from its name in `FILTERS` or from ``package.module:Class``.

    The class's module is imported. It must be on Python's import path.
    """
    if ":" not in name:
        specs.check_name(NOUN, FILTERS, name)
        return FILTERS[name]
    module_name, _, class_name = name.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), class_name)):
        raise UsageError(f"{name!r} is not a filter. Expected package.module:Class.")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # importing user code can raise anything
        hint = nearest(module_name, FILTERS)
        raise UsageError(
            f"The filter {name!r} cannot be imported: {type(error).__name__}: {error}.{hint} "
            f"Expected one of {', '.join(FILTERS)}, or package.module:Class with a module on "
            "PYTHONPATH."
        ) from error
    cls = getattr(module, class_name, None)
    if not (isinstance(cls, type) and issubclass(cls, Filter)) or inspect.isabstract(cls):
        raise UsageError(
            f"{name!r} is not a filter. Expected a class in {module.__name__} that extends "
            "fairseq_ssl.filters.Filter and defines the methods score and accept."
        )
    return cls


def _parse_filter(text: str) -> FilterSpec:
    name, *pairs = text.split(":")
    if name in FILTERS or not pairs or "=" in pairs[0]:
        return FilterSpec(*specs.parse_spec(NOUN, FILTERS, text))
    name = f"{name}:{pairs[0]}"
    _, options = specs.parse_spec(NOUN, {pairs[0]: filter_class(name)}, ":".join(pairs))
    return FilterSpec(name, options)


def _name(request: FilterSpec | Filter[Any]) -> str:
    if isinstance(request, FilterSpec):
        return str(request)
    cls = type(request)
    return _full_name(_class_name(cls), cls, {n: getattr(request, n) for n in options_of(cls)})


def _full_name(name: str, cls: type[Any], options: Mapping[str, Any]) -> str:
    values = {key: options.get(key, declared.default) for key, declared in options_of(cls).items()}
    words = [
        f"{key.replace('_', '-')}={specs.format_value(value)}"
        for key, value in values.items()
        if value != ""
    ]
    return ":".join([name, *words])


def _class_name(cls: type[Any]) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def _source_digest(cls: type[Any], is_object: bool) -> str:
    """Return a digest of a class's source file. For objects or missing files, it is random."""
    try:
        source = uuid4().bytes if is_object else Path(inspect.getfile(cls)).read_bytes()
    except (TypeError, OSError):
        source = uuid4().bytes
    return hashlib.sha256(source).hexdigest()[:12]


def _build_filter(request: FilterSpec | Filter[Any], sides: int) -> Filter[Any] | DuplicateFilter:
    if isinstance(request, Filter):
        return request
    if not isinstance(request, FilterSpec):
        raise TypeError(
            f"`filters` contains {request!r}, of type {type(request).__name__}. Expected Filter "
            "objects, or FilterSpec objects from parse_filters."
        )
    cls = filter_class(request.name)
    needs_sides = is_dataclass(cls) and any(known.name == "sides" for known in fields(cls))
    arguments = {**({"sides": sides} if needs_sides else {}), **request.options}
    try:
        built: Filter[Any] | DuplicateFilter = specs.build(NOUN, request.name, cls, arguments)
    except TypeError as error:
        raise UsageError(
            f"The filter {request.name!r} cannot be created: {error}. Expected a class "
            "whose constructor requires no arguments except its options."
        ) from error
    return built


MAX_DEPTH = 20
"""Maximum nesting depth of a YAML file. A filter chain has at most five levels."""


def read_filters(path: str | Path) -> list[FilterSpec]:
    """Read a filter chain from the list ``filters`` in a YAML file.

    Each item is a specification such as ``clean:max=100``, or ``{name: {option: value}}``.
    """
    content = _read_yaml(path)
    if not isinstance(content, dict) or "filters" not in content:
        raise UsageError(
            f"{path} does not contain the key 'filters'. Expected 'filters:' and a list."
        )
    for key in content:
        if key != "filters":
            hint = nearest(str(key), ["filters"])
            raise UsageError(
                f"{path} contains the unknown key {key!r}.{hint} Expected only 'filters'."
            )
    entries = content["filters"]
    if not isinstance(entries, list) or not entries:
        raise UsageError(
            f"{path}: 'filters' is {entries!r}. Expected a list with one line per filter, such as "
            "'- identical'."
        )
    try:
        return [spec for entry in entries for spec in _parse_entry(entry)]
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None


def _read_yaml(path: str | Path) -> Any:
    yaml = import_optional("yaml", "Reading filters from a YAML file", "wmt")
    data = read_document(path)
    try:
        _check_events(yaml, data)
        return yaml.safe_load(data)
    except Exception as error:  # a YAMLError, or ValueError for an invalid number or date
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        what = getattr(error, "problem", None) or " ".join(str(error).split()) or "not text"
        raise DataError(f"{where} cannot be parsed as YAML: {what}.") from None


def _check_events(yaml: Any, data: bytes) -> None:
    """Raise ValueError if the YAML is nested too deeply or contains aliases.

    Aliases can expand exponentially.
    """
    depth = 0
    for event in yaml.parse(data, Loader=yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if isinstance(event, yaml.AliasEvent):
            raise ValueError("aliases, such as *name, are not supported")
        if depth > MAX_DEPTH:
            raise ValueError(f"it has more than {MAX_DEPTH} levels of nesting")


def _parse_entry(entry: Any) -> Iterator[FilterSpec]:
    if isinstance(entry, str):
        yield from parse_filters(entry)
        return
    if not isinstance(entry, dict) or len(entry) != 1:
        raise UsageError(
            f"{entry!r} is not a filter. Expected a name, or a name with options, such as: clean: "
            "{max: 100}"
        )
    [(name, options)] = entry.items()
    cls = filter_class(str(name))
    if options is not None and not isinstance(options, dict):
        raise UsageError(
            f"The options of {name} are {options!r}. Expected a mapping, such as {{max: 100}}."
        )
    yield FilterSpec(
        name, dict(_parse_option(name, cls, *pair) for pair in (options or {}).items())
    )


def _parse_option(name: str, cls: type[Any], key: Any, value: Any) -> tuple[str, Value]:
    """Return an option's field name and value. Raise UsageError if the value's type is wrong."""
    field_name = specs.check_option(NOUN, name, cls, str(key))
    default: Any = options_of(cls)[field_name].default
    if isinstance(default, str) and isinstance(value, list):
        value = "+".join(map(str, value)) if all(isinstance(word, str) for word in value) else value
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if isinstance(default, float) and number:
        return field_name, float(value)
    if type(value) is type(default):
        return field_name, value
    expected = {bool: "true or false", int: "an integer", float: "a number"}
    words = expected.get(type(default), "a string. Quote words such as no, which YAML converts")
    raise UsageError(f"Invalid filter {name!r}: {key} is {value!r}. Expected {words}.")
