"""Parsers for integers and for specifications with options, such as ``direct:keep=0.2``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from fairseq_ssl.errors import UsageError, nearest
from fairseq_ssl.options import Value, describe, options_of

MAX_DIGITS = 15
"""Maximum number of digits in an integer. Integers with 15 digits are exact as floats."""


def parse_integer(word: str) -> int | None:
    """Parse an integer of at most 15 ASCII digits, without a sign. Return None for other words."""
    word = word.strip()
    return int(word) if word.isascii() and word.isdigit() and len(word) <= MAX_DIGITS else None


def parse_integers(listed: str, least: int = 0) -> tuple[int, ...] | None:
    """Parse a list of integers, such as ``1,2,4``. Return None if an item is invalid.

    Args:
        listed: integers separated by commas.
        least: minimum value of each integer.
    """
    numbers = [parse_integer(word) for word in listed.split(",")]
    if any(number is None or number < least for number in numbers):
        return None
    return tuple(number for number in numbers if number is not None)


Registry = Mapping[str, type[Any]]

RENAMED = {
    "spell": "confusion",
    "spelling": "characters",
    "denoise": "shuffle",
    "filtering": "negatives",
    "deviation": "std",
}
"""Current names of noises and noise options, by their names in version 0.2."""


def rename(words: str) -> str:
    """Replace names from version 0.2 in a specification, such as ``denoise`` with ``shuffle``."""
    names = r"((?:^|[,:])\s*)(\w+)"
    return re.sub(names, lambda match: match[1] + RENAMED.get(match[2], match[2]), words)


def describe_registry(kinds: Registry) -> str:
    """Describe all classes in a registry and their options, for a help text."""
    lines = []
    for name, kind in kinds.items():
        lines.append(f"  {name:10} {(kind.__doc__ or '').splitlines()[0]}")
        for key, declared in options_of(kind).items():
            default = format_value(declared.default) or "..."
            lines.append(f"    {_flag(key)}={default}: {describe(declared)}")
    return "\n".join(lines)


def parse_spec(noun: str, kinds: Registry, words: str) -> tuple[str, dict[str, Value]]:
    """Parse ``NAME:option=value:...`` into the name of a registered class and its options.

    Args:
        noun: word for a registry member in error messages, such as `noise`.
        kinds: classes by name.
        words: specification, such as ``direct:keep=0.2``.
    """
    name, *pairs = words.strip().split(":")
    check_name(noun, kinds, name)
    options: dict[str, Value] = {}
    for pair in pairs:
        key, value = _parse_option(noun, name, kinds[name], pair)
        if key in options:
            raise UsageError(
                f"The {noun} {name!r} sets the option {_flag(key)} twice. Set it once."
            )
        options[key] = value
    return name, options


def check_name(noun: str, kinds: Registry, name: str) -> None:
    """Raise UsageError, which suggests similar names, if `name` is not in the registry."""
    if name not in kinds:
        if (new := RENAMED.get(name)) in kinds:
            raise UsageError(f"There is no {noun} {name!r}. It is now {new!r}.")
        raise UsageError(
            f"There is no {noun} {name!r}.{nearest(name, kinds)} Expected one of "
            f"{', '.join(kinds)}."
        )


def check_option(noun: str, name: str, kind: type[Any], key: str) -> str:
    """Return the field name of an option, whose key can contain hyphens or underscores.

    Raise UsageError if the class does not declare the option.
    """
    options = options_of(kind)
    field_name = key.replace("-", "_")
    if field_name not in options:
        if (new := RENAMED.get(field_name)) in options:
            raise UsageError(f"The {noun} {name!r} has no option {key!r}. It is now {new!r}.")
        names = [_flag(option) for option in options]
        listed = f"Expected one of {', '.join(names)}." if names else "It has no options."
        raise UsageError(
            f"The {noun} {name!r} has no option {key!r}.{nearest(key, names)} {listed}"
        )
    return field_name


def build(noun: str, name: str, kind: type[Any], arguments: Mapping[str, Any]) -> Any:
    """Create an instance of a registered class. Errors about invalid options name the class."""
    try:
        return kind(**arguments)
    except UsageError as error:
        message = str(error).replace("`", "")  # these are not command-line options
        raise UsageError(f"Invalid {noun} {name!r}: {message}") from None


def format_value(value: Any) -> str:
    """Format an option value for a specification, such as ``true`` for True."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _parse_option(noun: str, name: str, kind: type[Any], pair: str) -> tuple[str, Value]:
    """Parse ``name=value`` into a field name and a value of the same type as the default."""
    key, _, value = pair.partition("=")
    field_name = check_option(noun, name, kind, key)
    default: Any = options_of(kind)[field_name].default
    try:
        if isinstance(default, bool):
            return field_name, {"true": True, "false": False}[value.lower()]
        return field_name, type(default)(value)
    except (KeyError, ValueError):
        known = {bool: "true or false", int: "an integer"}
        expected = known.get(type(default), "a number")
        raise UsageError(f"{name}:{pair} has an invalid value. Expected {expected}.") from None


def _flag(key: str) -> str:
    return key.replace("_", "-")
