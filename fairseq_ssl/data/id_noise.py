"""Word noise for token ids, including subword ids, and a denoising dataset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import torch
from fairseq.data import LanguagePairDataset
from numpy.typing import NDArray

from fairseq_ssl.errors import ConfigurationError, DataError, UsageError
from fairseq_ssl.noise.batch import GOLDEN, Noise, NoisedBatch, Random, TokenBatch
from fairseq_ssl.noise.block_noise import NOISES, WITHIN_WORDS, NoiseSpec, build_noise, parse_noise
from fairseq_ssl.noise.tokens import Unigrams
from fairseq_ssl.text.spans import Ids, Spans
from fairseq_ssl.text.tokenization import MARKER


@dataclass(frozen=True)
class WordBoundaries:
    """Masks of the dictionary symbols that can begin or end a word."""

    begins: NDArray[np.bool_]
    """[symbols], True if a word can begin with the symbol."""
    ends: NDArray[np.bool_]
    """[symbols], True if a word can end with the symbol."""

    @classmethod
    def of(cls, symbols: Sequence[str], subwords: str) -> WordBoundaries:
        """Detect the boundaries from the markers of a subword scheme.

        With sentencepiece, U+2581 marks the beginning of a word. With subword-nmt, @@ at the end of
        a subword marks that the word continues. With `none`, each token is a word.
        """
        everywhere = np.ones(len(symbols), dtype=np.bool_)
        if subwords == "none":
            return cls(everywhere, everywhere)
        is_begin = subwords == "sentencepiece"
        mark, where = (MARKER, "begins with") if is_begin else ("@@", "ends with")
        has_mark = str.startswith if is_begin else str.endswith
        marked = np.array([has_mark(symbol, mark) for symbol in symbols])
        if not marked.any():
            raise ConfigurationError(
                f"No symbol in the dictionary {where} {mark}, so the text does not consist of "
                f"{subwords} subwords. Set --noise-subwords to the text's subword scheme, or to "
                "none for words."
            )
        return cls(marked, everywhere) if is_begin else cls(everywhere, ~marked)

    def split_words(self, lines: Spans) -> tuple[Spans, Ids]:
        """Split lines into words. Return the words and the number of words in each line."""
        begins = self.begins[lines.ids]
        begins[1:] &= self.ends[lines.ids[:-1]]
        begins[lines.starts[lines.lengths > 0]] = True
        starts = np.flatnonzero(begins)
        line = np.repeat(np.arange(len(lines)), lines.lengths)
        words = Spans(lines.ids, np.diff(np.append(starts, len(lines.ids))))
        return words, np.bincount(line[starts], minlength=len(lines))


def sequence_keys(sequences: Spans) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each sequence. Sequences must not be empty.

    The hash is a sum over the ids. Each summand is the id's random number times `GOLDEN` to the
    power of its position. A collision in a million words has a probability of about 1e-7.
    """
    positions = np.arange(len(sequences.ids)) - np.repeat(sequences.starts, sequences.lengths)
    hashes = Random.of((0,), sequences.ids).keys * GOLDEN ** positions.astype(np.uint64)
    return np.add.reduceat(hashes, sequences.starts)


@dataclass(frozen=True)
class Lexicon:
    """Words that noise can insert, sorted by hash (`sequence_keys`), with their counts."""

    words: Spans
    counts: NDArray[np.int64]

    @classmethod
    def counted(
        cls, words: Spans, counts: Ids, known: NDArray[np.bool_], mask: int | None = None
    ) -> Lexicon:
        """Build a lexicon from words, and add up the counts of equal words.

        Words with a count of 0 or with ids that noise may not insert are ignored.

        Args:
            words: words from a dictionary or a text.
            counts: count of each word, [words].
            known: [symbols], True for ids that noise may insert.
            mask: id of the mask token, which can be inserted but is never sampled.
        """
        is_known = np.logical_and.reduceat(known[words.ids], words.starts)
        kept = np.flatnonzero(is_known & (counts > 0))
        if not len(kept):
            raise DataError(
                "The noise has no words to sample: the dictionary or the training text contains "
                "only special symbols, such as <unk>, or words with a count of 0. Expected words "
                "with a count of 1 or more."
            )
        words, counts = words.select(kept), counts[kept]
        if mask is not None:
            words, counts = words.concat(Spans.of([np.array([mask])])), np.append(counts, 0)
        _, first, which = np.unique(sequence_keys(words), return_index=True, return_inverse=True)
        return cls(words.select(first), np.bincount(which, counts).astype(np.int64))

    @cached_property
    def unigrams(self) -> Unigrams:
        """Unigram distribution of the words."""
        return Unigrams(np.cumsum(self.counts), self.keys)

    @cached_property
    def keys(self) -> NDArray[np.uint64]:
        """[words], hashes of the words in ascending order."""
        return sequence_keys(self.words)

    def of_keys(self, keys: NDArray[np.uint64]) -> Spans:
        """Return the words with these keys, which must all be in the lexicon."""
        return self.words.select(np.searchsorted(self.keys, keys))


def sample_blocks(text: Any, sizes: NDArray[Any], tokens: int = 1_000_000) -> Spans:
    """Return evenly spaced lines with about `tokens` tokens in total. End symbols are removed."""
    count = len(text)
    if total := int(np.sum(sizes, dtype=np.int64)):
        count = min(count, -(-count * tokens // total))
    chosen = np.arange(count) * len(text) // max(count, 1)
    if getattr(text, "supports_prefetch", False):
        text.prefetch(chosen)
    return Spans.of([text[int(line)].numpy() for line in chosen]).without_last()


ON_IDS = tuple(kind for kind in NOISES if kind not in WITHIN_WORDS)
"""Noises that do not need the spelling of words."""


@dataclass(frozen=True)
class NoisyIds:
    """Noisy lines, and a mask of the changed words in the clean lines."""

    lines: Spans
    changed: Spans
    """True for each id in the clean lines whose word was deleted, replaced or moved."""


@dataclass(frozen=True)
class IdNoise:
    """Word noise applied to ids. The noise of a line does not depend on the other lines."""

    noise: Noise
    boundaries: WordBoundaries
    lexicon: Lexicon
    max_length: int
    """Maximum length of a noisy line. Longer lines are truncated at a word boundary."""

    @classmethod
    def of(
        cls,
        settings: Sequence[NoiseSpec],
        boundaries: WordBoundaries,
        lexicon: Lexicon,
        mask: int | None,
        max_length: int,
    ) -> IdNoise:
        """Build noise from parsed specifications. Words to insert come from `lexicon`."""
        resources = {"unigrams": lexicon.unigrams, "mask_token": _key(mask)}
        return cls(build_noise(settings, resources), boundaries, lexicon, max_length)

    def __call__(self, lines: Spans, draws: Random) -> NoisyIds:
        """Add noise to lines, which must not have end symbols."""
        words, in_line = self.boundaries.split_words(lines)
        clean = TokenBatch(sequence_keys(words), in_line)
        noisy = self.noise(clean, draws)
        noisy, noisy_words = self._truncate(noisy, self._noisy_words(words, clean.tokens, noisy))
        changed = np.repeat(noisy.changed(clean), words.lengths)
        lengths = noisy.block.lengths_of(noisy_words.lengths)
        return NoisyIds(Spans(noisy_words.ids, lengths), Spans(changed, lines.lengths))

    def _noisy_words(
        self, clean: Spans, clean_keys: NDArray[np.uint64], noisy: NoisedBatch
    ) -> Spans:
        """Return the words in the noisy lines, copied from the clean lines or the lexicon."""
        keys, which = noisy.block.tokens, noisy.origin.copy()
        inserted = np.flatnonzero((which < 0) | (keys != clean_keys[which]))
        which[inserted] = len(clean) + np.arange(len(inserted))
        return clean.concat(self.lexicon.of_keys(keys[inserted])).select(which)

    def _truncate(self, noisy: NoisedBatch, words: Spans) -> tuple[NoisedBatch, Spans]:
        """Remove the words that do not fit into the first `max_length` ids of each line."""
        lengths = noisy.block.lengths_of(words.lengths)
        if lengths.max(initial=0) <= self.max_length:
            return noisy, words
        line_starts = np.repeat(np.cumsum(lengths) - lengths, noisy.block.lengths)
        kept = words.ends - line_starts <= self.max_length
        block = TokenBatch(noisy.block.tokens[kept], noisy.block.lengths_of(kept))
        return NoisedBatch(block, noisy.origin[kept]), words.select(np.flatnonzero(kept))


def parse_id_noise(words: str) -> list[NoiseSpec]:
    """Parse a chain of noises. Raise ConfigurationError if a noise needs the spelling of words."""
    try:
        settings = parse_noise(words)
    except UsageError as error:
        raise ConfigurationError(f"--noise {words} is invalid. {error}") from None
    for setting in settings:
        if setting.kind not in ON_IDS:
            raise ConfigurationError(
                f"The noise {setting.kind!r} in --noise {words} needs the spelling of words and "
                f"cannot be applied to ids. Expected {', '.join(ON_IDS)}. To use this noise, add "
                f"it to the text beforehand with: fairseq-ssl noise --method {words}"
            )
    return settings


def uses_mask(settings: Sequence[NoiseSpec]) -> bool:
    """Return True if any of these noises inserts a mask token."""
    return any(
        setting.options.get("mask", True)
        for setting in settings
        if "mask_token" in {field.name for field in fields(NOISES[setting.kind])}
    )


def describe_id_noises() -> str:
    """Return a one-line description of all id noises with their options and defaults."""
    return ", ".join(str(NoiseSpec(kind, {})) for kind in ON_IDS)


def _key(mask: int | None) -> np.uint64:
    """Return the hash of the mask token, or 0 if there is no mask."""
    if mask is None:
        return np.uint64(0)
    return np.uint64(sequence_keys(Spans.of([np.array([mask])]))[0])


FIXED_EPOCH = 0
"""Epoch that seeds noise outside training. Training epochs start at 1."""


class OnlineDenoisingDataset(LanguagePairDataset):
    """Pairs of a noisy source and a clean target, with new noise in each epoch.

    The noise of a sentence depends only on the seed, the epoch and the sentence index, not on the
    batch, the worker process or whether training was resumed. Batch sizes are computed from clean
    lengths, although some noises, such as direct, can make a source slightly longer than its
    target.
    """

    def __init__(
        self,
        text: Any,
        sizes: NDArray[Any],
        dictionary: Any,
        noise: IdNoise,
        seed: int,
        renew: bool,
        **options: Any,
    ) -> None:
        """Create pairs of a noisy and a clean sentence from a text.

        Args:
            text: sentences as ids with </s> at the end.
            sizes: length of each sentence.
            dictionary: dictionary of both sides.
            noise: word noise, applied to the sources.
            seed: random seed of the noise.
            renew: whether the noise changes with the epoch, which only training needs.
            options: padding and shuffling options of LanguagePairDataset.
        """
        super().__init__(text, sizes, dictionary, text, sizes, dictionary, **options)
        self.noise = noise
        self.seed = seed
        self.renew = renew
        # fairseq keeps its workers across epochs. They read a new epoch from shared memory.
        self._epoch: torch.Tensor = torch.tensor(FIXED_EPOCH)
        self._epoch.share_memory_()  # type: ignore[no-untyped-call]

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the noise in this process and in all workers, if `renew` is True."""
        if self.renew:
            self._epoch.fill_(epoch)

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Return the clean sentence. `collater` adds noise to whole batches."""
        return {"id": index, "target": self.tgt[index]}

    def collater(
        self, samples: Sequence[dict[str, Any]], pad_to_length: dict[str, int] | None = None
    ) -> dict[str, Any]:
        """Add noise and return a batch in the format of LanguagePairDataset.

        LanguagePairDataset's collater is not called, because it processes sentences one by one,
        which is slow.

        Returns:
            a batch, longest sources first. The additional key `changed` [batch, target time] is
            True for words changed by noise, and False for end symbols and padding.
        """
        if not samples:
            return {}
        indices = np.array([sample["id"] for sample in samples])
        clean = Spans.of([sample["target"].numpy() for sample in samples])
        noisy = self._add_noise(clean, indices)
        order = np.argsort(-noisy.lines.lengths, kind="stable")
        source = noisy.lines.select(order).with_last(self.eos)
        target = clean.select(order)
        changed = noisy.changed.select(order).with_last(False)
        # Rolling moves the eos of each sentence to the start of the next sentence.
        previous = Spans(np.roll(target.ids, 1), target.lengths)
        lengths = pad_to_length or {"source": 0, "target": 0}
        pad, left = self.tgt_dict.pad(), self.left_pad_target
        to_target = left, lengths["target"], self.pad_to_multiple
        to_source = self.left_pad_source, lengths["source"], self.pad_to_multiple
        return {
            "id": torch.from_numpy(indices[order]),
            "nsentences": len(samples),
            "ntokens": len(target.ids),
            "net_input": {
                "src_tokens": torch.from_numpy(source.pad(pad, *to_source)),
                "src_lengths": torch.from_numpy(source.lengths),
                "prev_output_tokens": torch.from_numpy(previous.pad(pad, *to_target)),
            },
            "target": torch.from_numpy(target.pad(pad, *to_target)),
            "changed": torch.from_numpy(changed.pad(False, *to_target)),
        }

    def noisy_lengths(self) -> tuple[Ids, Ids]:
        """Return the lengths of noisy sources and of their targets, including </s>.

        The lengths are from evenly spaced sentences of the data set.
        """
        clean = sample_blocks(self.tgt, self.tgt_sizes)
        noisy = self.noise(clean, Random.of((self.seed, 0), np.arange(len(clean))))
        return noisy.lines.lengths + 1, clean.lengths + 1

    def _add_noise(self, clean: Spans, indices: Ids) -> NoisyIds:
        """Remove eos from each sentence, then add noise. Raise DataError if eos is missing."""
        lacks_eos = clean.ids[clean.ends - 1] != self.eos
        if lacks_eos.any():
            raise DataError(
                f"Sentence {indices[np.argmax(lacks_eos)]} of the data, counted from 0, does not "
                f"end with the end-of-sentence id {self.eos}. Binarize the data again with "
                "fairseq-preprocess."
            )
        draws = Random.of((self.seed, int(self._epoch)), indices)
        return self.noise(clean.without_last(), draws)
