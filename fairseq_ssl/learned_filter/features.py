"""Features of sentence pairs for the learned filter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fairseq_ssl.errors import DataError, check_choice
from fairseq_ssl.inference.scoring import CHECKED_TOKENS, ScoringConfig, check_known_tokens
from fairseq_ssl.io.blocks import Block
from fairseq_ssl.io.executors import worker_number
from fairseq_ssl.io.jobs import Fingerprints, fingerprints
from fairseq_ssl.io.text_files import convert_fields
from fairseq_ssl.learned_filter.classifier import Phsic, PhsicSums, Values, unit
from fairseq_ssl.metrics.bleu import bleu_words
from fairseq_ssl.rerank.word_vectors import Vector, read_vectors
from fairseq_ssl.text.subwords.model import model_file, subword_segmenter
from fairseq_ssl.text.vocabulary import read_counts

if TYPE_CHECKING:
    from fairseq_ssl.inference.language_models import MaskedStates
    from fairseq_ssl.inference.translation_scorer import TranslationScorer

SMOOTHING = 1e-3
"""Default of a in the smooth inverse frequency (SIF) weight a / (a + p(w)) (Arora et al., 2017)."""


@dataclass(frozen=True)
class SentenceVectors:
    """Sentence embeddings: SIF-weighted sums of word vectors, scaled to unit L2 norm."""

    rows: Mapping[str, int]
    """Row index of each word in `weighted`."""
    weighted: Vector
    """Weighted word vectors, [words + 1, dim]. The last row is 0 and stands for unknown words."""

    @classmethod
    def of(
        cls, path: str | Path, counts: Mapping[str, int], smoothing: float = SMOOTHING
    ) -> SentenceVectors:
        """Read word vectors and multiply them by the SIF weights a / (a + p(w)).

        Args:
            path: file of word vectors
            counts: word counts, from which the unigram probabilities p(w) are estimated
            smoothing: the constant a, above 0
        """
        total = sum(counts.values())
        vectors = read_vectors(Path(path), set(counts))
        rows: dict[str, int] = {}
        weighted: list[Vector] = []
        for word, count in counts.items():
            vector = vectors.vector(word)
            if vector is not None:
                rows[word] = len(weighted)
                weighted.append(vector * np.float32(smoothing / (smoothing + count / total)))
        if not weighted:
            raise _no_vectors(path)
        return cls(rows, np.stack([*weighted, np.zeros_like(weighted[0])]))

    def __call__(self, sentences: Sequence[Sequence[str]]) -> Values:
        """Return unit vectors (0 for sentences without known words), [sentences, dim]."""
        if not sentences:
            return np.zeros((0, self.weighted.shape[1]))
        unknown = len(self.weighted) - 1
        # `reduceat` needs nonempty spans, so each sentence gets an empty word.
        words = [self.rows.get(word, unknown) for words in sentences for word in (*words, "")]
        ends = np.cumsum([len(words) + 1 for words in sentences])
        starts = np.concatenate([[0], ends[:-1]])
        rows = self.weighted[words].astype(np.float64)
        return unit(np.add.reduceat(rows, starts.astype(np.intp), axis=0))


WORDS, STATES, ENTROPY = "phsic-words", "phsic-states", "cross-entropy"
TOKENIZERS = ("none", "13a", "intl", "zh", "char", "ja-mecab", "ko-mecab")
"""sacreBLEU tokenizers that download no models, since a filter can be from an untrusted source."""
_tokenizer = lru_cache(maxsize=4)(bleu_words)
FeaturePaths = tuple[str | Path | None, str | Path | None]
Pairs = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class FeatureExtractor:
    """Feature extractor for sentence pairs. A feature is extracted if its resources are set.

    Tuple fields contain an item for the source and an item for the target.
    """

    vectors: tuple[str | Path, str | Path] | None = None
    """Word vector files, for the feature ``phsic-words``."""
    counts: tuple[str | Path, str | Path] | None = None
    """Word count files, for the SIF weights."""
    smoothing: float = SMOOTHING
    """Constant a of the SIF weights a / (a + p(w))."""
    tokenizers: tuple[str, str] = ("none", "none")
    """sacreBLEU tokenizers, from `TOKENIZERS`."""
    masked: tuple[ScoringConfig, ScoringConfig] | None = None
    """Masked language models, for the feature ``phsic-states``."""
    translation: ScoringConfig | None = None
    """Translation model in either direction, for the feature ``cross-entropy``."""
    subwords: FeaturePaths = (None, None)
    """Subword models that segment the input of all models, or None for segmented text."""

    def __post_init__(self) -> None:
        convert_fields(self, [], ["vectors", "counts", "subwords"])
        object.__setattr__(self, "tokenizers", tuple(self.tokenizers))
        for name in self.tokenizers:
            check_choice("tokenize", name, TOKENIZERS)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the features, in column order."""
        resources = {WORDS: self.vectors, STATES: self.masked, ENTROPY: self.translation}
        return tuple(name for name, resource in resources.items() if resource is not None)

    @property
    def models(self) -> tuple[ScoringConfig, ...]:
        """The masked language models and the translation model."""
        return (*(self.masked or ()), *([self.translation] if self.translation else []))

    @property
    def files(self) -> list[str | Path]:
        """Files and model folders from which the features are computed."""
        files = [*(self.vectors or ()), *(self.counts or ())]
        files += [model_file(path) for path in self.subwords if path is not None]
        return files + [path for config in self.models for path in config.models]

    @property
    def embedded(self) -> tuple[str, ...]:
        """Names of the PHSIC features, which compare source and target vectors."""
        return tuple(name for name in self.names if name != ENTROPY)

    def words(self, line: str, side: int) -> list[str]:
        """Tokenize a line of the source (`side` 0) or the target (`side` 1)."""
        return _tokenizer(self.tokenizers[side])(line).split()

    def check_words(self, pairs: Pairs) -> None:
        """Raise DataError if the sides are swapped, or if no word of a side has a vector."""
        if self.vectors is None or self.counts is None:
            return
        files = fingerprints(*self.vectors, *self.counts)
        words = [{w for pair in pairs for w in self.words(pair[side], side)} for side in (0, 1)]
        rows = [_sentence_vectors(self, side, files).rows.keys() for side in (0, 1)]
        if all(len(words[n] & rows[n]) < len(words[n] & rows[1 - n]) for n in (0, 1)):
            raise DataError(
                f"The source words are in {self.vectors[1]}, and the target words are in "
                f"{self.vectors[0]}, so the sides are swapped. Swap source and target."
            )
        for side in (0, 1):
            if words[side] and not words[side] & rows[side]:
                raise _no_vectors(self.vectors[side])

    def directions(self, name: str, pairs: Pairs) -> tuple[Values, Values]:
        """Return a PHSIC feature's unit vectors, [pairs, source_dim] and [pairs, target_dim]."""
        sides = [[pair[side] for pair in pairs] for side in (0, 1)]
        if name == WORDS:
            files = fingerprints(*(self.vectors or ()), *(self.counts or ()))
            vectors = [
                _sentence_vectors(self, side, files)(
                    [self.words(line, side) for line in sides[side]]
                )
                for side in (0, 1)
            ]
        else:
            vectors = [unit(self._states(side, sides[side])) for side in (0, 1)]
        return vectors[0], vectors[1]

    def features(self, pairs: Pairs, phsic: dict[str, Phsic]) -> Values:
        """Return the features, [pairs, features]. Higher values mean better pairs."""
        if not pairs:
            return np.zeros((0, len(self.names)))
        columns = [phsic[name].scores(*self.directions(name, pairs)) for name in self.embedded]
        if self.translation is not None:
            columns.append(self._log_probabilities(pairs))
        return np.stack(columns, 1)

    def _log_probabilities(self, pairs: Pairs) -> Values:
        """Return the translation model's log-probability per token for each pair, [pairs]."""
        assert self.translation is not None
        segmenters = [subword_segmenter(path) for path in self.subwords]
        files = fingerprints(*self.translation.models, self.translation.data_dir)
        scorer = _translation_scorer(self.translation, worker_number(), files)
        tokens = [
            (segmenters[0](source).split(), segmenters[1](target).split())
            for source, target in pairs
        ]
        scored = scorer.score(tokens)
        if scored.tokens >= CHECKED_TOKENS:
            place = f"the block that starts at the pair {' | '.join(pairs[0])[:60]!r}"
            check_known_tokens(scored.unknown, scored.tokens, place)
        return np.array([value for (value,) in scored.values])

    def _states(self, side: int, lines: Sequence[str]) -> Values:
        assert self.masked is not None
        segment = subword_segmenter(self.subwords[side])
        files = fingerprints(*self.masked[side].models, self.masked[side].data_dir)
        states = _masked_states(self.masked[side], worker_number(), files)
        return np.asarray(states.means([segment(line).split() for line in lines]))


def block_sums(features: FeatureExtractor, block: Block) -> dict[str, PhsicSums]:
    """Return the PHSIC sums of a block of pairs, by feature name."""
    pairs = list(block.pairs())
    return {name: PhsicSums.of(*features.directions(name, pairs)) for name in features.embedded}


def count_block_words(features: FeatureExtractor, block: Block) -> list[Counter[str]]:
    """Return the source and the target word counts of a block of pairs."""
    return [
        Counter(word for line in block.lines(side) for word in features.words(line, side))
        for side in (0, 1)
    ]


def _no_vectors(path: str | Path) -> DataError:
    return DataError(
        f"{path} contains no vector for any word of the text. Expected word vectors and text in "
        "the same language, with the same tokenization."
    )


@lru_cache(maxsize=2)
def _sentence_vectors(
    features: FeatureExtractor, side: int, files: Fingerprints
) -> SentenceVectors:
    assert features.vectors is not None
    assert features.counts is not None
    counts = read_counts(features.counts[side])
    return SentenceVectors.of(features.vectors[side], counts, features.smoothing)


@lru_cache(maxsize=2)
def _masked_states(scoring: ScoringConfig, worker: int, files: Fingerprints) -> MaskedStates:
    from fairseq_ssl.inference.language_models import MaskedStates

    return MaskedStates(scoring, worker)


@lru_cache(maxsize=1)
def _translation_scorer(
    scoring: ScoringConfig, worker: int, files: Fingerprints
) -> TranslationScorer:
    from fairseq_ssl.inference.translation_scorer import TranslationScorer

    return TranslationScorer(scoring, worker)
