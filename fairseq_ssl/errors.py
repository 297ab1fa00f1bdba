"""User errors and imports of optional packages.

Each message says what is wrong, what was expected and what to do.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from numbers import Integral
from typing import Any
from unicodedata import category

UNPRINTABLE = ("Cc", "Cs", "Zl", "Zp")
"""Unicode categories of characters that `one_line` escapes: control characters, surrogates, line
separators and paragraph separators."""


class FairseqSslError(Exception):
    """Base class of errors that the user can fix. A command prints them without a traceback."""

    exit_code = 1


class UsageError(FairseqSslError):
    """Incompatible options, or a value outside its range."""

    exit_code = 2


class ConfigurationError(FairseqSslError, ValueError):
    """An invalid or unsupported option that fairseq parsed."""

    exit_code = 2


class DataError(FairseqSslError):
    """A missing, unreadable or malformed file."""


class OutputError(DataError):
    """An output that cannot be written."""


class UnsafeCheckpointError(DataError):
    """A checkpoint or model folder that could run code or read other files when it is loaded."""


class MissingPackageError(FairseqSslError):
    """An optional package that is not installed."""

    def __init__(self, package: str, needed_for: str, install: str) -> None:
        super().__init__(package, needed_for, install)  # with which pickle creates it again

    def __str__(self) -> str:
        package, needed_for, install = self.args
        return f"{needed_for} needs the package {package}. Install it with: {install}"


RUST_PANICS = "pyo3_runtime"
"""Module of the exception type for Rust panics, which is not a subclass of `Exception`."""


@contextmanager
def library_errors(message: str) -> Iterator[None]:
    """Raise DataError if a library call in the block fails, for example with a Rust panic.

    Rust prints the panic message to file descriptor 2 before the exception is raised. Python cannot
    prevent this, and redirecting the descriptor would lose output of other threads.

    Args:
        message: description of what failed. The first line of the library's message is appended.
    """
    try:
        yield
    except FairseqSslError:
        raise
    except BaseException as error:  # each package has its own exception types
        if not isinstance(error, Exception) and type(error).__module__ != RUST_PANICS:
            raise
        raise DataError(f"{message}: {first_line(error)}") from None


def first_line(error: BaseException) -> str:
    """Return the first line of an exception's message, or its type name if there is no message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def one_line(text: str) -> str:
    """Escape line breaks and control characters in a message.

    Messages contain file names and file content. A terminal would interpret control characters.
    """
    return "".join(
        char.encode("unicode_escape").decode() if category(char) in UNPRINTABLE else char
        for char in text
    )


def flag(name: str) -> str:
    """Return the command-line flag of a parameter, such as ``--max-tokens`` for ``max_tokens``."""
    return f"--{name.replace('_', '-')}"


def nearest(word: str, choices: Iterable[str]) -> str:
    """Return " Did you mean ...?" with the choice closest to `word`, or an empty string."""
    close = difflib.get_close_matches(word, list(choices), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def system_error(error: BaseException) -> OSError | None:
    """Return the first OSError among an exception and its causes, or None.

    On a full disk, torch raises a RuntimeError that is caused by an OSError.
    """
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__cause__ or cause.__context__
    return cause


def check_choice(name: str, value: str, choices: Iterable[str]) -> None:
    """Raise UsageError if `value`, the value of the argument `name`, is not one of `choices`."""
    known = list(choices)
    if value not in known:
        raise UsageError(
            f"`{name}` is {value!r}.{nearest(value, known)} Expected one of {', '.join(known)}."
        )


def reject_options(subject: str, options: Mapping[str, Any]) -> None:
    """Raise ConfigurationError if one of the options is set, because `subject` conflicts with them.

    Args:
        subject: name of the conflicting option or feature, for the error message.
        options: values of the fairseq options, by name. Options with false values are not set.
    """
    for name, value in options.items():
        if value:
            raise ConfigurationError(
                f"{flag(name)} cannot be used with {subject}. Remove one of the two."
            )


def check_integer(name: str, value: object, minimum: int) -> None:
    """Raise UsageError unless the argument `name` is an integer of `minimum` or more."""
    if not isinstance(value, Integral) or value < minimum:
        kind = "" if isinstance(value, Integral) else "an integer, "
        raise UsageError(f"`{name}` is {value!r}. Expected {kind}{minimum} or more.")


def check_positive(name: str, value: object) -> None:
    """Raise UsageError unless the argument `name` is an integer of 1 or more."""
    check_integer(name, value, 1)


DISTRIBUTIONS = {"yaml": "PyYAML", "sklearn": "scikit-learn", "MeCab": "mecab-python3"}
"""PyPI names by module name, for packages whose PyPI name differs from the module name."""
TRAINING_PACKAGES = ("torch", "fairseq", "omegaconf")
INSTALL_TRAINING = "pip install 'fairseq-ssl[train]'"


@contextmanager
def needs_torch(purpose: str) -> Iterator[None]:
    """Raise MissingPackageError if torch, fairseq or omegaconf cannot be imported in the block.

    Args:
        purpose: subject of the error message, as in "PURPOSE needs the package torch".
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in TRAINING_PACKAGES:
            raise
        raise MissingPackageError(package, purpose, INSTALL_TRAINING) from error


def import_optional(module: str, purpose: str, extra: str = "") -> Any:
    """Import and return a module. Raise MissingPackageError if it cannot be imported.

    Args:
        module: name of the module, such as ``sklearn.linear_model``.
        purpose: subject of the error message, as in "PURPOSE needs the package scikit-learn".
        extra: fairseq-ssl extra that installs the module, such as ``bert``. If it is empty, the
            error suggests installing the package itself.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        package = DISTRIBUTIONS.get(name, name.replace("_", "-"))
        install = f"pip install 'fairseq-ssl[{extra}]'" if extra else f"pip install {package}"
        if not isinstance(error, ModuleNotFoundError):  # installed, but broken
            package += f" ({first_line(error)})"
        raise MissingPackageError(package, purpose, install) from error
