"""Options declared once, as fields of a dataclass: their default, help, range and choices.

>>> @dataclass(frozen=True)
... class Spelling:
...     rate: float = option(0.003, "probability of an error per character", low=0, high=1)
...
...     def __post_init__(self) -> None:
...         check(self)
>>> Spelling(rate=2)
Traceback (most recent call last):
    ...
fairseq_ssl.errors.UsageError: `rate` is 2. Expected 0 to 1.
>>> describe(options_of(Spelling)["rate"])
'probability of an error per character, 0 to 1'
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import Field, dataclass, field, fields, is_dataclass
from numbers import Integral, Real
from typing import Any, TypeVar

from fairseq_ssl.errors import ConfigurationError, UsageError, flag, nearest

Value = float | bool | str
Config = TypeVar("Config")


@dataclass(frozen=True)
class Declaration:
    """Help and valid values of an option."""

    help: str
    """A noun phrase without the range and the default, which are generated."""
    low: float = -math.inf
    """Minimum, inclusive. An option with a maximum has a minimum, too."""
    high: float = math.inf
    """Maximum, inclusive."""
    choices: tuple[str, ...] = ()
    parse: Callable[[str], Any] | None = None
    """Conversion of an argument of a command (default: by the type of the option's default)."""
    metavar: str | None = None

    def expected(self, default: Any) -> str:
        """Return the valid values in words, such as ``0 to 1``, or an empty string for any."""
        if self.choices:
            *others, last = self.choices
            return f"{', '.join(others)} or {last}"
        if isinstance(default, bool):
            return "true or false"
        if self.low == -math.inf:
            return ""
        return f"{self.low:,} " + ("or more" if self.high == math.inf else f"to {self.high:,}")


def option(default: Value | tuple[str, ...] | None, help: str, **values: Any) -> Any:
    """Declare a dataclass field as an option.

    Args:
        default: the default, whose type is the type of the option.
        help: what it is, without range and default.
        values: other fields of `Declaration`.
    """
    return field(default=default, metadata={"option": Declaration(help, **values)})


def options_of(kind: type[Any]) -> dict[str, Field[Any]]:
    """Return the options of a class by name: the fields declared with `option`."""
    declared = fields(kind) if is_dataclass(kind) else ()
    return {field.name: field for field in declared if "option" in field.metadata}


def describe(declared: Field[Any]) -> str:
    """Return the help of an option with its valid values."""
    declaration: Declaration = declared.metadata["option"]
    return ", ".join(filter(None, [declaration.help, declaration.expected(declared.default)]))


def check(config: Any) -> None:
    """Raise UsageError if an option of a dataclass is not among its valid values. NaN never is."""
    for name, declared in options_of(type(config)).items():
        declaration: Declaration = declared.metadata["option"]
        default: Any = declared.default
        value, expected = getattr(config, name), declaration.expected(default)
        if declaration.choices and value not in declaration.choices:
            hint = nearest(str(value), declaration.choices)
            raise UsageError(f"`{name}` is {value!r}.{hint} Expected {expected}.")
        if not isinstance(default, int | float):
            continue
        kind: Any = Real if isinstance(default, float) else Integral
        if not isinstance(value, kind):
            what = "a number" if kind is Real else "an integer"
            raise UsageError(f"`{name}` is {value!r}. Expected {what}, {expected}.")
        if not declaration.low <= value <= declaration.high:
            raise UsageError(f"`{name}` is {value}. Expected {expected}.")


# Commands


def add_options(
    parser: argparse._ActionsContainer,
    config: type[Any],
    only: Iterable[str] | None = None,
    prefix: str = "",
) -> None:
    """Add the options of a dataclass to a parser. `passed` returns those that a user sets.

    Args:
        parser: a parser, or a group of its options.
        config: the dataclass.
        only: names of the options (default: all).
        prefix: with ``edit_``, each option can also be written with fairseq's name, as --edit-X.
    """
    declared = options_of(config)
    for name in declared if only is None else only:
        _add_option(parser, declared[name], dict.fromkeys([flag(name), flag(f"{prefix}{name}")]))


def passed(args: argparse.Namespace, config: type[Any]) -> dict[str, Any]:
    """Return the options of a dataclass that were passed to a command, by name."""
    return {name: getattr(args, name) for name in options_of(config) if hasattr(args, name)}


def _add_option(
    parser: argparse._ActionsContainer, declared: Field[Any], names: Iterable[str]
) -> None:
    declaration: Declaration = declared.metadata["option"]
    shared: dict[str, Any] = {
        "dest": declared.name,
        "default": argparse.SUPPRESS,
        "help": _help(declared),
    }
    if declared.default is False:
        parser.add_argument(*names, action="store_true", **shared)
        return
    kind, metavar = _KINDS.get(type(declared.default), (str, None))
    parser.add_argument(
        *names,
        type=declaration.parse or kind,
        metavar=None if declaration.choices else declaration.metavar or metavar,
        choices=declaration.choices or None,
        **shared,
    )


def _help(declared: Field[Any]) -> str:
    """Return the help text of a command: with range and default, but without the choices."""
    declaration: Declaration = declared.metadata["option"]
    default = declared.default
    if default is False or default in (None, "", ()):
        return declaration.help
    if isinstance(default, str):
        return f"{declaration.help} (default: {default})"
    shown = f"{default:g}" if isinstance(default, float) else f"{default:,}"
    return f"{describe(declared)} (default: {shown})"


def _integer(word: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,15}", word):  # integers of 15 digits are exact as floats
        raise argparse.ArgumentTypeError(f"{word!r} is not an integer of up to 15 digits.")
    return int(word)


def _number(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{word!r} is not a number.") from None


_KINDS: dict[type[Any], tuple[Callable[[str], Any], str]] = {
    int: (_integer, "N"),
    float: (_number, "X"),
}
"""Conversion and metavar by the type of a default."""


# fairseq


def fairseq_options(config: type[Any], prefix: str) -> Callable[[type[Config]], type[Config]]:
    """Return a decorator that adds the options of a dataclass to one of fairseq, before its own.

    Args:
        config: the dataclass with the options.
        prefix: start of the names in fairseq.
    """

    def add(cls: type[Config]) -> type[Config]:
        added = {}
        for name, declared in options_of(config).items():
            added[f"{prefix}{name}"] = type(declared.default)
            own = field(default=declared.default, metadata={"help": _help(declared)})
            setattr(cls, f"{prefix}{name}", own)
        cls.__annotations__ = added | cls.__annotations__
        return cls

    return add


def from_fairseq(config: type[Config], values: Any, prefix: str, **more: Any) -> Config:
    """Create a dataclass from options that `fairseq_options` added.

    Raise ConfigurationError, with the names in fairseq, for a wrong value.
    """
    given = {name: getattr(values, f"{prefix}{name}") for name in options_of(config)}
    try:
        return config(**given, **more)
    except UsageError as error:
        message = re.sub(r"`(\w+)`", lambda name: flag(f"{prefix}{name[1]}"), str(error))
        raise ConfigurationError(message) from None
