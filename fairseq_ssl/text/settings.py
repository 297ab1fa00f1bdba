"""What a user asks for by name, with options: ``direct:keep=0.2`` of the noises, say.

A kind is a dataclass; those of its fields that are declared with `option` are the user's to set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, field, fields
from typing import Any

from fairseq_ssl.errors import UsageError, nearest

Value = float | bool | str
Kinds = Mapping[str, type[Any]]


def option(default: Value, meaning: str) -> Any:
    """Declare an option with its default and what it is for."""
    return field(default=default, metadata={"meaning": meaning})


def options_of(kind: type[Any]) -> dict[str, Field[Any]]:
    """Return the fields that the user may set."""
    return {field.name: field for field in fields(kind) if "meaning" in field.metadata}


def described(kinds: Kinds) -> str:
    """Return a line for each kind and for each of its options, for a help text."""
    lines = []
    for name, kind in kinds.items():
        lines.append(f"  {name:10} {(kind.__doc__ or '').splitlines()[0]}")
        for key, declared in options_of(kind).items():
            lines.append(
                f"    {_flag(key)}={shown(declared.default) or '...'}: {_meaning(declared)}"
            )
    return "\n".join(lines)


def read_setting(noun: str, kinds: Kinds, words: str) -> tuple[str, dict[str, Value]]:
    """Read ``kind:name=value:...``; messages call what is set by `noun`."""
    name, *pairs = words.strip().split(":")
    known_kind(noun, kinds, name)
    return name, dict(_option(noun, name, kinds[name], pair) for pair in pairs)


def known_kind(noun: str, kinds: Kinds, name: str) -> None:
    """Refuse a kind that there is not."""
    if name not in kinds:
        raise UsageError(
            f"There is no {noun} {name!r}.{nearest(name, kinds)} {noun.capitalize()}s: "
            f"{', '.join(kinds)}."
        )


def known_option(noun: str, name: str, kind: type[Any], key: str) -> str:
    """Return the field that an option is called by, with hyphens or underscores."""
    options = options_of(kind)
    found = key.replace("-", "_")
    if found not in options:
        names = [_flag(option) for option in options]
        has = f"It has: {', '.join(names)}." if names else "It has none."
        raise UsageError(f"The {noun} {name!r} has no option {key!r}.{nearest(key, names)} {has}")
    return found


def shown(value: Any) -> str:
    """Return a value, or a default, as a user writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _option(noun: str, name: str, kind: type[Any], pair: str) -> tuple[str, Value]:
    """Read ``name=value`` as the type of the option's default."""
    key, _, value = pair.partition("=")
    found = known_option(noun, name, kind, key)
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
