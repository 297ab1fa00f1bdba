"""User errors. Each message says what is wrong, what was expected and what to do."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable
from typing import Any
from unicodedata import category

UNPRINTABLE = ("Cc", "Cs", "Zl", "Zp")
"""Categories of control characters, surrogates and separators of lines and paragraphs."""


class FairseqSslError(Exception):
    """Base of all errors that are the user's to mend; ends a command without a traceback."""

    exit_code = 1


class UsageError(FairseqSslError):
    """Options that do not fit together, or a value outside its range."""

    exit_code = 2


class ConfigurationError(FairseqSslError, ValueError):
    """A setting that fairseq passed on and that this package can not work with."""

    exit_code = 2


class DataError(FairseqSslError):
    """A file that is missing, unreadable or not what it should be."""


class OutputError(DataError):
    """An output that cannot be written."""


class UnsafeCheckpointError(DataError):
    """A checkpoint whose pickle asks for code that no checkpoint needs."""


class MissingPackageError(FairseqSslError):
    """An optional package that a command needs is not installed."""

    def __init__(self, package: str, needed_for: str, install: str) -> None:
        super().__init__(f"{needed_for} needs the package {package}. Install it with: {install}")


def one_line(text: str) -> str:
    """Return a message with line ends and control characters escaped.

    Names of files and parts of their content stand in messages, and a terminal acts on some of
    their characters.
    """
    return "".join(
        char.encode("unicode_escape").decode() if category(char) in UNPRINTABLE else char
        for char in text
    )


def flag(name: str) -> str:
    """Return an option as it is typed."""
    return f"--{name.replace('_', '-')}"


def nearest(word: str, choices: Iterable[str]) -> str:
    """Return ' Did you mean ...?' for the choice closest to `word`, or an empty string."""
    close = difflib.get_close_matches(word, list(choices), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


DISTRIBUTIONS = {"yaml": "PyYAML", "sklearn": "scikit-learn", "MeCab": "mecab-python3"}
"""What brings a module, where it is called otherwise."""


def import_optional(module: str, purpose: str, extra: str) -> Any:
    """Load a module; where its package is missing, say which extra of ours brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        package = DISTRIBUTIONS.get(name, name.replace("_", "-"))
        raise MissingPackageError(
            package, purpose, f"pip install 'fairseq-ssl[{extra}]'"
        ) from error
