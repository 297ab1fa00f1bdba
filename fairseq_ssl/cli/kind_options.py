"""Verbs whose first word names a kind, as ``fairseq-ssl score m2``: which options go with it."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from fairseq_ssl.errors import UsageError, flag

Kinds = Mapping[str, Mapping[str, Any]]
"""The options of each kind and their defaults; ``...`` for those that must be given."""


def chosen_options(
    args: argparse.Namespace, verb: str, kind: str, kinds: Kinds, least: Mapping[str, int]
) -> dict[str, Any]:
    """Return the options of `kind`, with defaults for those that are not given, None in `args`.

    Refused are options of other kinds, needed ones that are missing, and numbers below `least`.
    """
    chosen = dict(kinds[kind])
    for name in dict.fromkeys(name for options in kinds.values() for name in options):
        value = getattr(args, name)
        if value is None:
            continue
        if name not in chosen:
            owners = " or ".join(other for other, options in kinds.items() if name in options)
            raise UsageError(f"{flag(name)} goes with {owners}, not with {kind}.")
        chosen[name] = value
    for name, value in chosen.items():
        if value is ...:
            raise UsageError(f"{verb} {kind} needs {flag(name)}.")
        if name in least and value < least[name]:
            raise UsageError(f"{flag(name)} is {value}; expected {least[name]} or more.")
    return chosen
