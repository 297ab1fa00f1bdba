"""The noises of `text.noise` for lines of ids, on whole words where subwords are told apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from fairseq_ssl.data.lexicon import Lexicon
from fairseq_ssl.data.spans import Spans
from fairseq_ssl.data.word_boundaries import WordBoundaries
from fairseq_ssl.errors import ConfigurationError, UsageError
from fairseq_ssl.noise.batch import Noise, NoisedBatch, Random, TokenBatch
from fairseq_ssl.noise.registry import (
    NOISES,
    WITHIN_WORDS,
    NoiseSpec,
    build_noise,
    noise_options,
    parse_noise,
)

ON_IDS = tuple(kind for kind in NOISES if kind not in WITHIN_WORDS)
"""The noises that need not see how a word is written."""


@dataclass(frozen=True)
class NoisyIds:
    """Noisy lines, and what noise touched of the clean ones."""

    lines: Spans
    touched: Spans
    """Of each id of each clean line whether its word is gone, another, or out of its place."""


@dataclass(frozen=True)
class IdNoise:
    """A noise of words, applied to ids; a line gets what it would get alone."""

    noise: Noise
    boundaries: WordBoundaries
    lexicon: Lexicon
    longest: int
    """Of a line that noise has made longer than this, the words beyond are cut off."""

    @classmethod
    def of(
        cls,
        settings: Sequence[NoiseSpec],
        boundaries: WordBoundaries,
        lexicon: Lexicon,
        mask: int | None,
        longest: int,
    ) -> IdNoise:
        """Build the noise that a user asked for, to draw words of the lexicon."""
        at_hand = {"unigrams": lexicon.unigrams, "mask_token": _key(mask)}
        return cls(build_noise(settings, at_hand), boundaries, lexicon, longest)

    def __call__(self, lines: Spans, draws: Random) -> NoisyIds:
        """Noise lines that come without what ends each."""
        words, in_line = self.boundaries.cut(lines)
        clean = TokenBatch(words.keys, in_line)
        noisy = self.noise(clean, draws)
        found = self._found(words, noisy)
        if len(found):
            noisy, found = self._shortened(noisy, found)
        touched = np.repeat(noisy.touched(clean), words.lengths)
        lengths = noisy.block.lengths_of(found.lengths)
        return NoisyIds(Spans(found.ids, lengths), Spans(touched, lines.lengths))

    def _found(self, clean: Spans, noisy: NoisedBatch) -> Spans:
        """Return the words of the noisy lines: of the clean lines, or else of the lexicon."""
        keys, which = noisy.block.tokens, noisy.origin.copy()
        put_in = np.flatnonzero((which < 0) | (keys != clean.keys[which]))
        which[put_in] = len(clean) + np.arange(len(put_in))
        return clean.joined(self.lexicon.of_keys(keys[put_in])).taken(which)

    def _shortened(self, noisy: NoisedBatch, found: Spans) -> tuple[NoisedBatch, Spans]:
        """Cut the words off that go beyond the longest line."""
        lengths = noisy.block.lengths_of(found.lengths)
        if lengths.max() <= self.longest:
            return noisy, found
        before = np.repeat(np.cumsum(lengths) - lengths, noisy.block.lengths)
        kept = found.ends - before <= self.longest
        block = TokenBatch(noisy.block.tokens[kept], noisy.block.lengths_of(kept))
        return NoisedBatch(block, noisy.origin[kept]), found.taken(np.flatnonzero(kept))


def noise_of_ids(words: str) -> list[NoiseSpec]:
    """Read the noises of a chain; one that has to see how words are written is refused."""
    try:
        settings = parse_noise(words)
    except UsageError as error:
        raise ConfigurationError(f"--noise {words}: {error}") from None
    for setting in settings:
        if setting.kind not in ON_IDS:
            raise ConfigurationError(
                f"--noise {words}: the noise {setting.kind!r} looks into words, which training on "
                f"ids can not. `fairseq-ssl noise --noise {words}` makes it beforehand; in "
                f"training there are {', '.join(ON_IDS)}."
            )
    return settings


def masks(settings: Sequence[NoiseSpec]) -> bool:
    """Tell whether any of these noises puts in a symbol that stands for a hidden word."""
    return any(
        setting.options.get("mask", True)
        for setting in settings
        if "mask_token" in {field.name for field in fields(NOISES[setting.kind])}
    )


def described() -> str:
    """Return each noise of ids with its options and their defaults, in a line."""
    told = []
    for kind in ON_IDS:
        options = ", ".join(
            f"{name}={field.default}" for name, field in noise_options(kind).items()
        )
        told.append(f"{kind} ({options})")
    return "; ".join(told)


def _key(mask: int | None) -> np.uint64:
    """Return the key of the mask as a word; where nothing is masked, any number does."""
    if mask is None:
        return np.uint64(0)
    return np.uint64(Spans.of([np.array([mask])]).keys[0])
