"""The noises by name, and the words a user sets them with: ``direct:keep=0.2,spelling``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from typing import Any

from fairseq_ssl.noise.batch import Noise, NoiseChain
from fairseq_ssl.noise.characters import SpellingNoise, SpellNoise
from fairseq_ssl.noise.learner import LearnerNoise
from fairseq_ssl.noise.tokens import DenoisingNoise, DirectNoise, FilteringNoise
from fairseq_ssl.text import specs

NOISES: dict[str, type[Any]] = {
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
class NoiseSpec:
    """One noise of a chain as its user asked for it."""

    kind: str
    options: Mapping[str, float | bool | str]

    def __str__(self) -> str:
        """Return it with all its numbers, as in ``direct:keep=0.2:mask=0.3``."""
        values = {
            name: self.options.get(name, field.default)
            for name, field in noise_options(self.kind).items()
            if name in self.options or not isinstance(field.default, str)
        }
        return ":".join([self.kind, *(f"{name}={value}" for name, value in values.items())])

    @property
    def needs(self) -> set[str]:
        """Name what the noise works with that is no option: unigrams, confusions, and so on."""
        return {
            field.name
            for field in fields(NOISES[self.kind])
            if field.init and field.default is MISSING and field.default_factory is MISSING
        }


def parse_noise(words: str) -> list[NoiseSpec]:
    """Read ``kind:option=value:...,kind,...``: the noises of a chain, first to last."""
    return [_parse_spec(word) for word in words.split(",")]


def build_noise(chain: Sequence[NoiseSpec], at_hand: Mapping[str, Any]) -> Noise:
    """Make the noise, with what it needs, and may take, of `at_hand`."""
    noises = []
    for setting in chain:
        kind = NOISES[setting.kind]
        taken = {field.name: at_hand[field.name] for field in fields(kind) if field.name in at_hand}
        noises.append(kind(**taken, **setting.options))
    return noises[0] if len(noises) == 1 else NoiseChain(noises)


def describe_noises() -> str:
    """Return a line for each kind and for each of its options, for a help text."""
    return specs.describe_registry(NOISES)


def noise_options(kind: str) -> dict[str, Field[Any]]:
    """Return the fields of a kind that its user may set."""
    return specs.options_of(NOISES[kind])


def _parse_spec(words: str) -> NoiseSpec:
    return NoiseSpec(*specs.parse_spec("noise", NOISES, words))
