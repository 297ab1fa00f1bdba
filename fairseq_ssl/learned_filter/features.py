"""Features of a sentence pair for the learned filter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fairseq_ssl.errors import DataError, UsageError, nearest
from fairseq_ssl.inference.scoring import ScoringConfig
from fairseq_ssl.io.blocks import PairBlock
from fairseq_ssl.io.executors import worker_number
from fairseq_ssl.learned_filter.classifier import Phsic, PhsicSums, Values, unit
from fairseq_ssl.metrics.bleu import bleu_words
from fairseq_ssl.rerank.word_vectors import Vector, read_vectors
from fairseq_ssl.text.subwords.model import subword_segmenter
from fairseq_ssl.text.tokenization import LineRewriter
from fairseq_ssl.text.vocabulary import read_counts

if TYPE_CHECKING:
    from fairseq_ssl.inference.language_models import MaskedStates
    from fairseq_ssl.inference.translation_scorer import TranslationScorer

SMOOTHING = 1e-3
"""a of Arora et al. (2017)."""


@dataclass(frozen=True)
class SentenceVectors:
    """Sentence vectors: weighted sums of word vectors (SIF). Unknown words are skipped."""

    rows: Mapping[str, int]
    weighted: Vector
    """[words + 1, dim]. The last row, of unknown words, is 0."""

    @classmethod
    def of(
        cls, path: Path, counts: Mapping[str, int], smoothing: float = SMOOTHING
    ) -> SentenceVectors:
        """Weight the vectors of the counted words.

        Args:
            path: file of word vectors
            counts: word counts, from which p(w) is estimated
            smoothing: a of the weight a / (a + p(w))
        """
        total = sum(counts.values())
        vectors = read_vectors(path, set(counts))
        rows: dict[str, int] = {}
        weighted: list[Vector] = []
        for word, count in counts.items():
            vector = vectors.vector(word)
            if vector is not None:
                rows[word] = len(weighted)
                weighted.append(vector * np.float32(smoothing / (smoothing + count / total)))
        if not weighted:
            raise DataError(
                f"{path} has no word of the text. Expected vectors of its language, for words of "
                "the same `tokenize`."
            )
        return cls(rows, np.stack([*weighted, np.zeros_like(weighted[0])]))

    def __call__(self, sentences: Sequence[Sequence[str]]) -> Values:
        """Return a vector of each sentence, [sentences, dim], of length 1, or 0."""
        if not sentences:
            return np.zeros((0, self.weighted.shape[1]))
        none = len(self.weighted) - 1
        words = [self.rows.get(word, none) for words in sentences for word in (*words, "")]
        ends = np.cumsum([len(words) + 1 for words in sentences])
        starts = np.concatenate([[0], ends[:-1]])
        rows = self.weighted[words].astype(np.float64)
        return unit(np.add.reduceat(rows, starts.astype(np.intp), axis=0))


WORDS, STATES, ENTROPY = "phsic-words", "phsic-states", "cross-entropy"
TOKENIZERS = ("none", "13a", "intl", "zh", "char", "ja-mecab", "ko-mecab")
"""Tokenizers of sacreBLEU that need no download. A filter's folder must not cause a download."""
FeaturePaths = tuple[Path | None, Path | None]
Pairs = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class FeatureExtractor:
    """Features of pairs. Those of a resource that is None are left out. The source is first."""

    vectors: tuple[Path, Path] | None = None
    """Files of word vectors."""
    counts: tuple[Path, Path] | None = None
    """Files of word counts, for SIF."""
    smoothing: float = 1e-3
    tokenizers: tuple[str, str] = ("none", "none")
    """Tokenizers of sacreBLEU, of `TOKENIZERS`."""
    masked: tuple[ScoringConfig, ScoringConfig] | None = None
    """Masked language models of the sides."""
    translation: ScoringConfig | None = None
    """A translation model of either direction."""
    subwords: FeaturePaths = (None, None)
    """Subword models for the masked language models and the translation model."""

    def __post_init__(self) -> None:
        for name in self.tokenizers:
            if name not in TOKENIZERS:
                raise UsageError(
                    f"`tokenize` is {name!r}.{nearest(name, TOKENIZERS)} Expected one of "
                    f"{', '.join(TOKENIZERS)}."
                )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the features, in order."""
        there = {WORDS: self.vectors, STATES: self.masked, ENTROPY: self.translation}
        return tuple(name for name, given in there.items() if given is not None)

    @property
    def embedded(self) -> tuple[str, ...]:
        """Names of the features that compare vectors of both sides."""
        return tuple(name for name in self.names if name != ENTROPY)

    def words(self, line: str, side: int) -> list[str]:
        """Tokenize a line."""
        return _tokenizer(self.tokenizers[side])(line).split()

    def directions(self, name: str, pairs: Pairs) -> tuple[Values, Values]:
        """Return unit vectors of both sides, [pairs, source dim] and [pairs, target dim]."""
        sides = [[pair[side] for pair in pairs] for side in (0, 1)]
        if name == WORDS:
            made = [
                _sentence_vectors(self, side)([self.words(line, side) for line in sides[side]])
                for side in (0, 1)
            ]
        else:
            made = [unit(self._states(side, sides[side])) for side in (0, 1)]
        return made[0], made[1]

    def sums(self, pairs: Pairs) -> dict[str, PhsicSums]:
        """Return the sums for PHSIC of pairs, by feature."""
        return {name: PhsicSums.of(*self.directions(name, pairs)) for name in self.embedded}

    def features(self, pairs: Pairs, phsic: dict[str, Phsic]) -> Values:
        """Return the features of pairs, [pairs, features]. Higher is better."""
        columns = [phsic[name].scores(*self.directions(name, pairs)) for name in self.embedded]
        if self.translation is not None:
            columns.append(self._log_probabilities(pairs))
        return np.stack(columns, 1)

    def _log_probabilities(self, pairs: Pairs) -> Values:
        """Return the negative cross-entropy per token."""
        from fairseq_ssl.inference.scoring import check_known_tokens

        assert self.translation is not None
        segmenters = [subword_segmenter(path) for path in self.subwords]
        scorer = _translation_scorer(self.translation, worker_number())
        tokens = [
            (segmenters[0](source).split(), segmenters[1](target).split())
            for source, target in pairs
        ]
        found = check_known_tokens(scorer.score(tokens), f"the pair {' | '.join(pairs[0])[:60]!r}")
        return np.array([value for (value,) in found.values])

    def _states(self, side: int, lines: Sequence[str]) -> Values:
        assert self.masked is not None
        segment = subword_segmenter(self.subwords[side])
        states = _masked_states(self.masked[side], worker_number())
        return np.asarray(states.means([segment(line).split() for line in lines]))


@dataclass(frozen=True)
class BlockPhsic:
    """Sums for PHSIC over a block of pairs."""

    features: FeatureExtractor

    def __call__(self, block: PairBlock) -> dict[str, PhsicSums]:
        """Return the sums by feature."""
        return self.features.sums(list(block.pairs()))


@dataclass(frozen=True)
class BlockWordCounts:
    """Word counts of a block of pairs."""

    features: FeatureExtractor

    def __call__(self, block: PairBlock) -> tuple[Counter[str], Counter[str]]:
        """Return the counts of both sides."""
        source, target = (
            Counter(word for line in block.lines(side) for word in self.features.words(line, side))
            for side in (0, 1)
        )
        return source, target


@lru_cache(maxsize=2)
def _sentence_vectors(features: FeatureExtractor, side: int) -> SentenceVectors:
    assert features.vectors is not None
    assert features.counts is not None
    counts = read_counts(features.counts[side])
    return SentenceVectors.of(features.vectors[side], counts, features.smoothing)


@lru_cache(maxsize=2)
def _masked_states(scoring: ScoringConfig, worker: int) -> MaskedStates:
    from fairseq_ssl.inference.language_models import MaskedStates

    return MaskedStates(scoring, worker)


@lru_cache(maxsize=1)
def _translation_scorer(scoring: ScoringConfig, worker: int) -> TranslationScorer:
    from fairseq_ssl.inference.translation_scorer import TranslationScorer

    return TranslationScorer(scoring, worker)


@lru_cache(maxsize=4)
def _tokenizer(name: str) -> LineRewriter:
    return bleu_words(name)
