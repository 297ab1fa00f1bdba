"""The noises of `noise` on token ids, of whole words where the vocabulary has subwords."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.data.spans import Ids, Spans
from fairseq_ssl.errors import ConfigurationError, DataError, UsageError, nearest
from fairseq_ssl.noise.batch import Noise, NoisedBatch, Random, TokenBatch
from fairseq_ssl.noise.registry import (
    NOISES,
    WITHIN_WORDS,
    NoiseSpec,
    build_noise,
    noise_options,
    parse_noise,
)
from fairseq_ssl.noise.tokens import Unigrams
from fairseq_ssl.text.tokenization import SUBWORDS


@dataclass(frozen=True)
class WordBoundaries:
    """Between which ids of a dictionary a word ends and the next begins."""

    begins: NDArray[np.bool_]
    """By id: whether it can begin a word."""
    ends: NDArray[np.bool_]
    """By id: whether what follows it can begin a word."""

    @classmethod
    def of(cls, symbols: Sequence[str], subwords: str) -> WordBoundaries:
        """Read the marks of one kind of subwords in the symbols of a dictionary.

        Of sentencepiece a piece that starts with U+2581 begins a word, of subword-nmt what
        follows a piece that ends with @@ does not; with none each token is a word.
        """
        if subwords not in SUBWORDS:
            raise ConfigurationError(
                f"There are no subwords {subwords!r}.{nearest(subwords, SUBWORDS)} Expected one "
                f"of {', '.join(SUBWORDS)}."
            )
        everywhere = np.ones(len(symbols), dtype=np.bool_)
        if subwords == "sentencepiece":
            return cls(np.array([word.startswith("\u2581") for word in symbols]), everywhere)
        if subwords == "subword-nmt":
            return cls(everywhere, np.array([not word.endswith("@@") for word in symbols]))
        return cls(everywhere, everywhere)

    def cut(self, lines: Spans) -> tuple[Spans, Ids]:
        """Cut lines at their words; returns all words, and how many each line has.

        Where a line begins, a word begins.
        """
        begins = self.begins[lines.ids]
        begins[1:] &= self.ends[lines.ids[:-1]]
        begins[lines.starts[lines.lengths > 0]] = True
        starts = np.flatnonzero(begins)
        line = np.repeat(np.arange(len(lines)), lines.lengths)
        words = Spans(lines.ids, np.diff(np.append(starts, len(lines.ids))))
        return words, np.bincount(line[starts], minlength=len(lines))


LEXICON_SAMPLE = 1_000_000
"""How many tokens of a corpus are counted, about."""


@dataclass(frozen=True)
class Lexicon:
    """Words that noise may put in, sorted by their keys, and how often each was counted."""

    words: Spans
    counts: NDArray[np.int64]

    @classmethod
    def counted(cls, words: Spans, special: Sequence[int], mask: int | None = None) -> Lexicon:
        """Count words; those that hold a special id are left out.

        Args:
            words: the words of some text
            special: ids that stand for no text of their own; <unk> is such a one: it stands
                for any rare word, so that to put it in would be to put in nothing
            mask: an id that can be put in, but is never drawn
        """
        is_special = np.isin(words.ids, np.array(special, dtype=np.int64))
        plain = ~np.logical_or.reduceat(is_special, words.starts)
        known = words.taken(np.flatnonzero(plain))
        keys, first, counts = np.unique(known.keys, return_index=True, return_counts=True)
        if not len(keys):
            raise DataError(
                "The training text holds no word to draw from: all that was read is <unk> or "
                "another special symbol. Binarize it with the dictionary of its own subwords."
            )
        lexicon = cls(known.taken(first), counts)
        return lexicon if mask is None else lexicon._with(mask)

    @cached_property
    def unigrams(self) -> Unigrams:
        """The words by their keys, drawn as often as they were counted."""
        return Unigrams(self.words.keys, np.cumsum(self.counts))

    def of_keys(self, keys: NDArray[np.uint64]) -> Spans:
        """Return the words that have these keys; all of them must be here."""
        return self.words.taken(np.searchsorted(self.words.keys, keys))

    def _with(self, mask: int) -> Lexicon:
        """Add a word of one id, counted as never seen."""
        words = self.words.joined(Spans.of([np.array([mask])]))
        order = np.argsort(words.keys)
        return Lexicon(words.taken(order), np.append(self.counts, 0)[order])


def sample_blocks(text: Any, sizes: NDArray[Any], tokens: int = LEXICON_SAMPLE) -> Spans:
    """Read lines, evenly spaced over the text, of about so many tokens, or all if there are less.

    They come without the id that ends each.
    """
    count = len(text)
    if total := int(np.sum(sizes, dtype=np.int64)):
        count = min(count, -(-count * tokens // total))
    chosen = np.arange(count) * len(text) // max(count, 1)
    if getattr(text, "supports_prefetch", False):
        text.prefetch(chosen)
    return Spans.of([text[int(line)].numpy() for line in chosen]).without_last()


def read_lexicon(
    text: Any,
    sizes: NDArray[Any],
    boundaries: WordBoundaries,
    special: Sequence[int],
    mask: int | None,
) -> Lexicon:
    """Count the words of a sample of the training text."""
    lines = sample_blocks(text, sizes)
    known = len(boundaries.begins)
    if lines.ids.max(initial=0) >= known:
        raise DataError(
            f"The training data holds the id {lines.ids.max()} and its dictionary only {known} "
            "symbols. Expected the dictionary that the data was binarized with."
        )
    words, _ = boundaries.cut(lines)
    return Lexicon.counted(words, special, mask)


ON_IDS = tuple(kind for kind in NOISES if kind not in WITHIN_WORDS)
"""The noises that need not see how a word is written."""


@dataclass(frozen=True)
class NoisyIds:
    """Noisy lines, and what noise changed of the clean ones."""

    lines: Spans
    changed: Spans
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
        changed = np.repeat(noisy.changed(clean), words.lengths)
        lengths = noisy.block.lengths_of(found.lengths)
        return NoisyIds(Spans(found.ids, lengths), Spans(changed, lines.lengths))

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
                f"ids can not. `fairseq-ssl noise --method {words}` makes it beforehand; in "
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


def describe_id_noise() -> str:
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
