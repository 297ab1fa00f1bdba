"""Declaration of options as dataclass fields, with their default, help text, range and choices.

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
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from functools import wraps
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Optional, TypeVar

from fairseq_ssl.errors import ConfigurationError, UsageError, flag, nearest

Value = float | bool | str
Config = TypeVar("Config")


@dataclass(frozen=True)
class Declaration:
    """The declaration of an option: its help text, its valid values and how commands parse it."""

    help: str
    """Help text, a noun phrase without the range and the default, which are added automatically."""
    low: float | None = None
    """Minimum, inclusive."""
    above: float | None = None
    """Minimum, exclusive."""
    high: float | None = None
    """Maximum, inclusive. An option with a maximum also has a minimum."""
    below: float | None = None
    """Maximum, exclusive."""
    choices: tuple[str, ...] = ()
    usual: str | None = None
    """Description of the default, shown instead of its value, such as ``one per core``."""
    flag: str | None = None
    """Name of the flag without dashes (default: the name of the field)."""
    parse: Callable[[str], Any] | None = None
    """Function that parses an argument (default: the function for the field's type)."""
    metavar: str | tuple[str, ...] | None = None
    nargs: int | str | None = None
    alias: str | None = None
    """A short flag in fairseq's commands, such as ``-s``."""

    def expected(self) -> str:
        """Return a description of the valid values, such as ``0 to 1``, or "" if all are valid."""
        if self.choices:
            *others, last = self.choices
            return f"{', '.join(others)} or {last}"
        if self.above is not None:
            return f"above {self.above:,}" + ("" if self.high is None else f", up to {self.high:,}")
        if self.low is None:
            return ""
        if self.high is not None:
            return f"{self.low:,} to {self.high:,}"
        return f"{self.low:,} or more" + ("" if self.below is None else f", below {self.below:,}")

    def contains(self, value: float) -> bool:
        """Return True if `value` is finite and in the range. Without a range, reject only NaN."""
        if not self.expected():
            return value == value  # False for NaN
        return (
            abs(value) <= sys.float_info.max
            and (self.low is None or value >= self.low)
            and (self.above is None or value > self.above)
            and (self.high is None or value <= self.high)
            and (self.below is None or value < self.below)
        )

    def describe(self, values: str) -> str:
        """Return the help text, with `values` inserted before its first semicolon or at its end."""
        first, *rest = self.help.split("; ", 1)
        return "; ".join([f"{first}, {values}" if values else first, *rest])


def option(default: Any, help: str, **values: Any) -> Any:
    """Declare a dataclass field as an option.

    The field's annotation determines the option's type: bool, int, float, str, Path, a union of one
    of them with None, or a tuple of paths. A field with a different type needs `parse`.

    Args:
        default: default value, or `MISSING` for a required option.
        help: noun phrase that describes the option, without range and default.
        values: other fields of `Declaration`.
    """
    declaration = Declaration(help, **values)
    metadata: dict[str, Any] = {"help": _help(declaration, default), "option": declaration}
    if declaration.alias:
        metadata["argparse_alias"] = declaration.alias
    return field(default=default, metadata=metadata)


def options_of(kind: type[Any]) -> dict[str, Field[Any]]:
    """Return the options of a class by name: the fields declared with `option`."""
    declared = fields(kind) if is_dataclass(kind) else ()
    return {field.name: field for field in declared if "option" in field.metadata}


def describe(declared: Field[Any]) -> str:
    """Return the help text of an option with its valid values."""
    declaration: Declaration = declared.metadata["option"]
    return declaration.describe(
        "true or false" if kind_of(declared) is bool else declaration.expected()
    )


def kind_of(declared: Field[Any]) -> type[Any] | None:
    """Return the type in an option's annotation: bool, int, float, str or Path.

    A tuple of paths has the type Path. For other annotations, the result is None.
    """
    words = re.findall(r"\b(Path|tuple|bool|int|float|str)\b", str(declared.type))
    return _TYPES.get("Path" if "Path" in words else words[0]) if words else None


def check(config: Any) -> None:
    """Raise UsageError if an option of a dataclass instance has an invalid value."""
    for name, declared in options_of(type(config)).items():
        if problem := _problem(declared, getattr(config, name)):
            raise UsageError(f"`{name}` is {problem}")


def _problem(declared: Field[Any], value: Any) -> str | None:
    """Return the invalid value and the expected values as text, or None if `value` is valid."""
    declaration: Declaration = declared.metadata["option"]
    kind, expected = kind_of(declared), declaration.expected()
    if value is None and re.search("None|Optional", str(declared.type)):
        return None
    if declaration.choices and value not in declaration.choices:
        return f"{value!r}.{nearest(str(value), declaration.choices)} Expected {expected}."
    if kind not in _NUMBERS:
        return None
    number, what = _NUMBERS[kind]
    if not isinstance(value, number):
        return f"{value!r}. Expected {', '.join(filter(None, [what, expected]))}."
    return None if declaration.contains(value) else f"{value}. Expected {expected or what}."


_TYPES: dict[str, type[Any]] = {kind.__name__: kind for kind in (bool, int, float, str, Path)}
_NUMBERS: dict[Any, tuple[Any, str]] = {
    bool: (bool, "true or false"),
    int: (Integral, "an integer"),
    float: (Real, "a number"),
}
"""Accepted number type and its description in messages, by option type."""


# Commands


def add_options(
    parser: argparse._ActionsContainer,
    config: type[Any],
    only: Iterable[str] | None = None,
    prefix: str = "",
) -> None:
    """Add the options of a dataclass to a parser. `passed` returns the options that a user sets.

    Args:
        parser: a parser, or a group of its options.
        config: the dataclass that declares the options.
        only: names of the options to add (default: all).
        prefix: prefix of the option names in fairseq, such as ``edit_``. It adds the alias
            --edit-NAME for --NAME.
    """
    declared = options_of(config)
    for name in declared if only is None else only:
        _add_option(parser, declared[name], prefix)


def passed(args: argparse.Namespace, config: type[Any]) -> dict[str, Any]:
    """Return the values of the dataclass options that were passed to a command, by name."""
    return {name: getattr(args, name) for name in options_of(config) if hasattr(args, name)}


def _add_option(parser: argparse._ActionsContainer, declared: Field[Any], prefix: str) -> None:
    declaration: Declaration = declared.metadata["option"]
    name = declaration.flag or declared.name
    names = dict.fromkeys([flag(name), flag(f"{prefix}{name}")])
    shared: dict[str, Any] = {
        "dest": declared.name,
        "default": argparse.SUPPRESS,
        "help": declared.metadata["help"],
    }
    kind = kind_of(declared)
    if kind is bool:
        parser.add_argument(*names, action="store_true", **shared)
        return
    parse, metavar = _KINDS.get(kind, (str, None))
    parser.add_argument(
        *names,
        type=declaration.parse or parse,
        metavar=None if declaration.choices else declaration.metavar or metavar,
        choices=declaration.choices or None,
        nargs=declaration.nargs,
        required=declared.default is MISSING,
        **shared,
    )


def _help(declaration: Declaration, default: Any) -> str:
    """Return the help text with range and default. argparse adds the choices."""
    text = declaration.describe("" if declaration.choices else declaration.expected())
    if declaration.usual:
        return f"{text} (default: {declaration.usual})"
    if default is False or default in (None, "", (), MISSING):
        return text
    if isinstance(default, tuple):
        default = ",".join(map(str, default))
    form = {int: "{:,}", float: "{:g}"}.get(type(default), "{}")
    return f"{text} (default: {form.format(default)})"


def integer(word: str) -> int:
    """Parse an integer of up to 15 digits, as an argparse type."""
    if not re.fullmatch(r"[+-]?[0-9]{1,15}", word):  # integers of 15 digits are exact as floats
        raise argparse.ArgumentTypeError(f"{word!r} is not an integer of up to 15 digits.")
    return int(word)


def integers(words: str) -> tuple[int, ...]:
    """Parse integers separated by commas, as an argparse type."""
    return tuple(map(integer, words.split(",")))


def number(word: str) -> float:
    """Parse a number, as an argparse type."""
    try:
        return float(word)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{word!r} is not a number.") from None


def numbers(word: str) -> tuple[float, ...]:
    """Parse numbers separated by commas, as an argparse type."""
    return tuple(map(number, word.split(",")))


_KINDS: dict[Any, tuple[Callable[[str], Any], str]] = {
    int: (integer, "N"),
    float: (number, "X"),
    Path: (Path, "FILE"),
}
"""Parsing function and metavar of a command's argument, by option type."""


# fairseq


def fairseq_options(config: type[Any], prefix: str) -> Callable[[type[Config]], type[Config]]:
    """Return a decorator that adds options to a fairseq dataclass, before its own options.

    Args:
        config: the dataclass with the options to add.
        prefix: prefix of the option names in fairseq.
    """

    def add(cls: type[Config]) -> type[Config]:
        added = {}
        for name, declared in options_of(config).items():
            kind = kind_of(declared)
            added[f"{prefix}{name}"] = Optional[kind] if declared.default is None else kind  # noqa: UP045
            own = field(default=declared.default, metadata={"help": declared.metadata["help"]})
            setattr(cls, f"{prefix}{name}", own)
        cls.__annotations__ = added | cls.__annotations__
        return cls

    return add


def checked(register: Callable[..., Any], method: str) -> Callable[..., Any]:
    """Wrap a fairseq `register_*` function so that the options of registered classes are checked.

    The options are checked when `method` is called, before the object is built.

    Args:
        register: fairseq's `register_model`, `register_task` or `register_criterion`.
        method: name of the class method that builds an object. Its first argument is the options.
    """

    def register_checked(
        name: str, dataclass: type[Any] | None = None, config: type[Any] | None = None
    ) -> Callable[[type[Config]], type[Config]]:
        """Return a decorator that registers a class.

        `config` is a dataclass of options to check, for a class without a fairseq dataclass.
        """

        def decorate(cls: type[Config]) -> type[Config]:
            build = getattr(cls, method).__func__

            @wraps(build)
            def check_and_build(own: Any, values: Any, *args: Any, **options: Any) -> Any:
                check_fairseq(config or dataclass or cls, values)
                return build(own, values, *args, **options)

            setattr(cls, method, classmethod(check_and_build))
            registered: type[Config] = register(name, dataclass=dataclass)(cls)
            return registered

        return decorate

    return register_checked


def check_fairseq(config: type[Any], values: Any) -> None:
    """Raise ConfigurationError if an option that a dataclass declares has an invalid value."""
    for name, declared in options_of(config).items():
        if problem := _problem(declared, getattr(values, name, declared.default)):
            raise ConfigurationError(f"{flag(name)} is {problem}")


def from_fairseq(config: type[Config], values: Any, prefix: str, **more: Any) -> Config:
    """Create a dataclass instance from the options that `fairseq_options` added.

    Raise ConfigurationError for an invalid value. The message names the option's fairseq flag.
    """
    given = {name: getattr(values, f"{prefix}{name}") for name in options_of(config)}
    try:
        return config(**given, **more)
    except UsageError as error:
        message = re.sub(r"`(\w+)`", lambda name: flag(f"{prefix}{name[1]}"), str(error))
        raise ConfigurationError(message) from None
