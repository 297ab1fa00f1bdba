"""Numbers of options that decoding would stumble over."""

from __future__ import annotations

from fairseq_ssl.errors import UsageError

LENGTH_PENALTY = 20.0
"""A longer sentence's length to a higher power is beyond what a float holds."""


def check_range(option: str, value: float, least: float, most: float) -> None:
    """Refuse a number outside of [least, most], and what is none."""
    if not least <= value <= most:
        raise UsageError(f"{option} is {value:g}; expected {least:g} to {most:g}.")


def check_length_penalty(value: float, least: float = -LENGTH_PENALTY) -> None:
    """Refuse a --lenpen that a length can not be raised to."""
    check_range("--lenpen", value, least, LENGTH_PENALTY)
