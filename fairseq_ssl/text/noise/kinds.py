"""The noises by name, and the words a user sets them with: ``direct:keep=0.2,spelling``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from typing import Any

from fairseq_ssl.text import specs
from fairseq_ssl.text.noise.block import Chain, Noise
from fairseq_ssl.text.noise.denoise import DenoisingNoise
from fairseq_ssl.text.noise.direct import DirectNoise
from fairseq_ssl.text.noise.filtering import FilteringNoise
from fairseq_ssl.text.noise.learner import LearnerNoise
from fairseq_ssl.text.noise.spell import SpellNoise
from fairseq_ssl.text.noise.spelling import SpellingNoise

KINDS: dict[str, type[Any]] = {
    "direct": DirectNoise,
    "spell": SpellNoise,
    "spelling": SpellingNoise,
    "denoise": DenoisingNoise,
    "learner": LearnerNoise,
    "filtering": FilteringNoise,
}
WITHIN_WORDS = ("spell", "spelling", "learner")
"""Those that look into words; the others take ids as well."""


@dataclass(frozen=True)
class Setting:
    """One noise of a chain as its user asked for it."""

    kind: str
    options: Mapping[str, float | bool | str]

    def __str__(self) -> str:
        """Return it with all its numbers, as in ``direct:keep=0.2:mask=0.3``."""
        values = {
            name: self.options.get(name, field.default)
            for name, field in options_of(self.kind).items()
            if name in self.options or not isinstance(field.default, str)
        }
        return ":".join([self.kind, *(f"{name}={value}" for name, value in values.items())])

    @property
    def needs(self) -> set[str]:
        """Name what the noise works with that is no option: unigrams, confusions, and so on."""
        return {
            field.name
            for field in fields(KINDS[self.kind])
            if field.init and field.default is MISSING and field.default_factory is MISSING
        }


def parsed(words: str) -> list[Setting]:
    """Read ``kind:option=value:...,kind,...``: the noises of a chain, first to last."""
    return [_setting(word) for word in words.split(",")]


def built(chain: Sequence[Setting], at_hand: Mapping[str, Any]) -> Noise:
    """Make the noise, with what it needs, and may take, of `at_hand`."""
    noises = []
    for setting in chain:
        kind = KINDS[setting.kind]
        taken = {field.name: at_hand[field.name] for field in fields(kind) if field.name in at_hand}
        noises.append(kind(**taken, **setting.options))
    return noises[0] if len(noises) == 1 else Chain(noises)


def described() -> str:
    """Return a line for each kind and for each of its options, for a help text."""
    return specs.describe_registry(KINDS)


def options_of(kind: str) -> dict[str, Field[Any]]:
    """Return the fields of a kind that its user may set."""
    return specs.options_of(KINDS[kind])


def _setting(words: str) -> Setting:
    return Setting(*specs.parse_spec("noise", KINDS, words))
