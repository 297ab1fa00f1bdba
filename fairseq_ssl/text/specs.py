"""Names with options that a user writes, such as ``direct:keep=0.2``, and numbers in text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, field, fields, is_dataclass
from typing import Any

from fairseq_ssl.errors import UsageError, nearest

MAX_DIGITS = 15
"""Of a number: it is exact as a floating point number, and no list of numbers overflows."""


def parse_integer(word: str) -> int | None:
    """Return what a word of digits, at most 15, says; None where it is anything else."""
    word = word.strip()
    return int(word) if word.isascii() and word.isdigit() and len(word) <= MAX_DIGITS else None


def parse_integers(listed: str, least: int = 0) -> tuple[int, ...] | None:
    """Return the numbers of a list with commas, such as ``1,2,4``, none below `least`, or None."""
    numbers = [parse_integer(word) for word in listed.split(",")]
    if any(number is None or number < least for number in numbers):
        return None
    return tuple(number for number in numbers if number is not None)


Value = float | bool | str
Registry = Mapping[str, type[Any]]


def option(default: Value, meaning: str) -> Any:
    """Declare an option with its default and what it is for."""
    return field(default=default, metadata={"meaning": meaning})


def options_of(kind: type[Any]) -> dict[str, Field[Any]]:
    """Return the fields that the user may set."""
    declared = fields(kind) if is_dataclass(kind) else ()
    return {field.name: field for field in declared if "meaning" in field.metadata}


def describe_registry(kinds: Registry) -> str:
    """Return a line for each kind and for each of its options, for a help text."""
    lines = []
    for name, kind in kinds.items():
        lines.append(f"  {name:10} {(kind.__doc__ or '').splitlines()[0]}")
        for key, declared in options_of(kind).items():
            lines.append(
                f"    {_flag(key)}={format_value(declared.default) or '...'}: {_meaning(declared)}"
            )
    return "\n".join(lines)


def parse_spec(noun: str, kinds: Registry, words: str) -> tuple[str, dict[str, Value]]:
    """Read ``kind:name=value:...``; messages call what is set by `noun`."""
    name, *pairs = words.strip().split(":")
    check_name(noun, kinds, name)
    return name, dict(_option(noun, name, kinds[name], pair) for pair in pairs)


def check_name(noun: str, kinds: Registry, name: str) -> None:
    """Refuse a kind that there is not."""
    if name not in kinds:
        raise UsageError(
            f"There is no {noun} {name!r}.{nearest(name, kinds)} {noun.capitalize()}s: "
            f"{', '.join(kinds)}."
        )


def check_option(noun: str, name: str, kind: type[Any], key: str) -> str:
    """Return the field that an option is called by, with hyphens or underscores."""
    options = options_of(kind)
    found = key.replace("-", "_")
    if found not in options:
        names = [_flag(option) for option in options]
        has = f"It has: {', '.join(names)}." if names else "It has none."
        raise UsageError(f"The {noun} {name!r} has no option {key!r}.{nearest(key, names)} {has}")
    return found


def format_value(value: Any) -> str:
    """Return a value, or a default, as a user writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _option(noun: str, name: str, kind: type[Any], pair: str) -> tuple[str, Value]:
    """Read ``name=value`` as the type of the option's default."""
    key, _, value = pair.partition("=")
    found = check_option(noun, name, kind, key)
    default: Any = options_of(kind)[found].default
    try:
        if isinstance(default, bool):
            return found, {"true": True, "false": False}[value.lower()]
        return found, type(default)(value)
    except (KeyError, ValueError):
        expected = "true or false" if isinstance(default, bool) else f"as in {key}={default}"
        raise UsageError(f"{name}:{pair} can not be read: expected {expected}.") from None


def _flag(key: str) -> str:
    return key.replace("_", "-")


def _meaning(declared: Field[Any]) -> str:
    return str(declared.metadata["meaning"])
