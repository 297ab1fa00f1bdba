"""Numbers of options that must be in a range."""

from __future__ import annotations

from fairseq_ssl.errors import UsageError

LENGTH_PENALTY = 20
"""A longer sentence's length to a higher power is beyond what a float holds."""


def check_range(option: str, value: float, least: float, most: float) -> None:
    """Refuse a number outside of [least, most], and what is none."""
    if not least <= value <= most:
        raise UsageError(f"{option} is {value}; expected {least} to {most}.")


def check_length_penalty(value: float, least: float = -LENGTH_PENALTY) -> None:
    """Refuse a --lenpen that a length can not be raised to."""
    check_range("--lenpen", value, least, LENGTH_PENALTY)
