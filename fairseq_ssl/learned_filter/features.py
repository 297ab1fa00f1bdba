"""Features of a sentence pair for the learned filter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fairseq_ssl.errors import DataError
from fairseq_ssl.inference.scoring import ScoringConfig
from fairseq_ssl.io.blocks import PairBlock
from fairseq_ssl.io.executors import worker_number
from fairseq_ssl.learned_filter.classifier import Dependence, Sums, Values, unit
from fairseq_ssl.metrics.bleu import bleu_words
from fairseq_ssl.rerank.word_vectors import Vector, read_vectors
from fairseq_ssl.text.subwords.model import subword_segmenter
from fairseq_ssl.text.tokenization import LineRewriter
from fairseq_ssl.text.vocabulary import read_counts

if TYPE_CHECKING:
    from fairseq_ssl.inference.masked_models import MaskedStates
    from fairseq_ssl.inference.translation_scorer import TranslationScorer

SMOOTHING = 1e-3
"""a of Arora et al."""


@dataclass(frozen=True)
class SentenceVectors:
    """Knows words by their weighted vectors; others are left out of the sum."""

    places: Mapping[str, int]
    weighted: Vector
    """[words and one more, dim]; the last row, of words not known, is 0."""

    @classmethod
    def of(
        cls, path: Path, counts: Mapping[str, int], smoothing: float = SMOOTHING
    ) -> SentenceVectors:
        """Weigh the vectors of the words that were counted.

        Args:
            path: file of vectors
            counts: of each word, in whatever p(w) is taken from
            smoothing: a
        """
        total = sum(counts.values())
        vectors = read_vectors(path, set(counts))
        rows: list[Vector] = []
        places: dict[str, int] = {}
        for word, count in counts.items():
            vector = vectors.vector(word)
            if vector is not None:
                places[word] = len(rows)
                rows.append(vector * np.float32(smoothing / (smoothing + count / total)))
        if not rows:
            raise DataError(
                f"{path} has no word of the text. Expected vectors of its language, for words cut "
                "by the same --tokenizers."
            )
        return cls(places, np.stack([*rows, np.zeros_like(rows[0])]))

    def __call__(self, sentences: Sequence[Sequence[str]]) -> Values:
        """Return the direction of each sentence, [sentences, dim]: of length 1, or 0."""
        if not sentences:
            return np.zeros((0, self.weighted.shape[1]))
        none = len(self.weighted) - 1
        words = [self.places.get(word, none) for words in sentences for word in (*words, "")]
        ends = np.cumsum([len(words) + 1 for words in sentences])
        starts = np.concatenate([[0], ends[:-1]])
        rows = self.weighted[words].astype(np.float64)
        return unit(np.add.reduceat(rows, starts.astype(np.intp), axis=0))


WORDS, STATES, ENTROPY = "phsic-words", "phsic-states", "cross-entropy"
FeaturePaths = tuple[Path | None, Path | None]
Pairs = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Measures:
    """What is at hand; what is None is not measured. Of two, the first is the source's."""

    vectors: tuple[Path, Path] | None = None
    """Files of words' vectors."""
    counts: tuple[Path, Path] | None = None
    """Files of words' counts, for SIF."""
    smoothing: float = 1e-3
    tokenizers: tuple[str, str] = ("none", "none")
    """What cuts lines into words."""
    masked: tuple[ScoringConfig, ScoringConfig] | None = None
    """Masked language models."""
    translation: ScoringConfig | None = None
    """Of either direction."""
    subwords: FeaturePaths = (None, None)
    """What cuts lines for the models."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of the features, in their order."""
        there = {WORDS: self.vectors, STATES: self.masked, ENTROPY: self.translation}
        return tuple(name for name, given in there.items() if given is not None)

    @property
    def embedded(self) -> tuple[str, ...]:
        """Those that compare vectors of both sides."""
        return tuple(name for name in self.names if name != ENTROPY)

    def words(self, line: str, side: int) -> list[str]:
        """Cut a line into words."""
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

    def sums(self, pairs: Pairs) -> dict[str, Sums]:
        """Return what PHSIC learns from pairs, by feature."""
        return {name: Sums.of(*self.directions(name, pairs)) for name in self.embedded}

    def features(self, pairs: Pairs, learned: dict[str, Dependence]) -> Values:
        """Return the features of pairs, [pairs, features]; all are higher for better pairs."""
        columns = [learned[name].scores(*self.directions(name, pairs)) for name in self.embedded]
        if self.translation is not None:
            columns.append(self._log_probabilities(pairs))
        return np.stack(columns, 1)

    def _log_probabilities(self, pairs: Pairs) -> Values:
        """Return the cross-entropy per token, negated, so that more is better."""
        from fairseq_ssl.inference.scoring import check_known_tokens

        assert self.translation is not None
        cut = [subword_segmenter(path) for path in self.subwords]
        scorer = _translation_scorer(self.translation, worker_number())
        tokens = [(cut[0](source).split(), cut[1](target).split()) for source, target in pairs]
        found = check_known_tokens(scorer.score(tokens), f"the pair {' | '.join(pairs[0])[:60]!r}")
        return np.array([value for (value,) in found.values])

    def _states(self, side: int, lines: Sequence[str]) -> Values:
        assert self.masked is not None
        cut = subword_segmenter(self.subwords[side])
        states = _masked_states(self.masked[side], worker_number())
        return np.asarray(states.means([cut(line).split() for line in lines]))


@dataclass(frozen=True)
class Learning:
    """What workers do to learn PHSIC."""

    measures: Measures

    def __call__(self, block: PairBlock) -> dict[str, Sums]:
        """Sum over a block of the bitext."""
        return self.measures.sums(list(block.pairs()))


@dataclass(frozen=True)
class WordCounting:
    """What workers do to know how often each word comes."""

    measures: Measures

    def __call__(self, block: PairBlock) -> tuple[Counter[str], Counter[str]]:
        """Count the words of both sides."""
        source, target = (
            Counter(word for line in block.lines(side) for word in self.measures.words(line, side))
            for side in (0, 1)
        )
        return source, target


@lru_cache(maxsize=2)
def _sentence_vectors(measures: Measures, side: int) -> SentenceVectors:
    assert measures.vectors is not None
    assert measures.counts is not None
    counts = read_counts(measures.counts[side])
    return SentenceVectors.of(measures.vectors[side], counts, measures.smoothing)


@lru_cache(maxsize=2)
def _masked_states(scoring: ScoringConfig, worker: int) -> MaskedStates:
    from fairseq_ssl.inference.masked_models import MaskedStates

    return MaskedStates(scoring, worker)


@lru_cache(maxsize=1)
def _translation_scorer(scoring: ScoringConfig, worker: int) -> TranslationScorer:
    from fairseq_ssl.inference.translation_scorer import TranslationScorer

    return TranslationScorer(scoring, worker)


@lru_cache(maxsize=4)
def _tokenizer(name: str) -> LineRewriter:
    return bleu_words(name)
