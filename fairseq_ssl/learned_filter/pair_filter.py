"""The learned filter, its file format, and noisy pairs to train it on."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.inference.scoring import MASKED_MODEL, TRANSLATION, ScoringConfig
from fairseq_ssl.io.blocks import Block
from fairseq_ssl.io.parts import BlockResult
from fairseq_ssl.io.text_files import json_text, read_json
from fairseq_ssl.learned_filter.classifier import PairClassifier, Phsic, Values
from fairseq_ssl.learned_filter.features import FeatureExtractor, Pairs
from fairseq_ssl.noise.batch import Random
from fairseq_ssl.noise.byte_words import WordTable
from fairseq_ssl.noise.tokens import NegativeExampleNoise, Unigrams


def noise_pairs(
    pairs: Pairs,
    features: FeatureExtractor,
    counts: Sequence[Mapping[str, int]],
    seed: int,
) -> list[tuple[str, str]]:
    """Return a noisy copy of each pair, with noise on one random side.

    Args:
        pairs: clean pairs
        features: feature extractor, of which only the tokenizers are used
        counts: word counts of the source and the target, from which words are sampled
        seed: random seed, 0 or more
    """
    sides = [
        _add_noise([pair[side] for pair in pairs], features, counts[side], side, seed)
        for side in (0, 1)
    ]
    chosen = Random.of((seed, 0, 2), len(pairs)).lines() < 0.5
    return [
        (source, pair[1]) if first else (pair[0], target)
        for pair, source, target, first in zip(pairs, *sides, chosen, strict=True)
    ]


def _add_noise(
    lines: Sequence[str],
    features: FeatureExtractor,
    counts: Mapping[str, int],
    side: int,
    seed: int,
) -> list[str]:
    """Delete, replace or move some words of each line, with `NegativeExampleNoise`.

    Lines with spaces are split at spaces, because tokenization would change the text even where
    there is no noise. Other lines are tokenized, and their noisy tokens are joined without spaces.
    """
    spaced = [" " in line.strip() for line in lines]
    words = [
        line if has else " ".join(features.words(line, side))
        for line, has in zip(lines, spaced, strict=True)
    ]
    inserted, unigrams = Unigrams.of(counts)
    table = WordTable(inserted)
    noise, draws = NegativeExampleNoise(unigrams), Random.of((seed, 0, side), len(lines))
    noisy = table.to_lines(noise(table.start_lines(words), draws).block)
    return [line if has else line.replace(" ", "") for has, line in zip(spaced, noisy, strict=True)]


FILTER = "filter.json"
COUNTS = ("counts.source", "counts.target")


@dataclass(frozen=True)
class PairFilter:
    """A learned filter for sentence pairs: feature extractor, PHSIC estimates and classifier."""

    features: FeatureExtractor
    phsic: dict[str, Phsic]
    classifier: PairClassifier

    def scores(self, pairs: Pairs) -> Values:
        """Return the scores, [pairs]. A score above 0 means a clean pair."""
        return self.classifier.scores(self.features.features(pairs, self.phsic))

    def write(self, folder: str | Path, signature: Mapping[str, Any]) -> None:
        """Write the filter and its signature to a folder that already contains the word counts."""
        folder = Path(folder)
        for name, phsic in self.phsic.items():
            phsic.write(folder / f"{name}.npz")
        content = {
            **signature,
            "measures": _features_to_json(self.features),
            "classifier": self.classifier.to_json(),
        }
        (folder / FILTER).write_text(f"{json_text(content)}\n", encoding="utf-8")

    @classmethod
    def read(cls, folder: str | Path, computing: Mapping[str, Any]) -> PairFilter:
        """Load a filter. `computing` overrides fields of `ScoringConfig`, such as ``device``."""
        folder = Path(folder)
        if not (folder / FILTER).is_file():
            raise DataError(
                f"{folder} is not a learned filter: {FILTER} is missing. Create a filter with: "
                "fairseq-ssl learned-filter fit"
            )
        content = read_json(folder / FILTER)
        try:
            features = _features_of_json(content["measures"], folder, computing)
            classifier = PairClassifier.of_json(content["classifier"])
        except (UsageError, ValueError, LookupError, TypeError, ArithmeticError) as error:
            raise DataError(
                f"{folder / FILTER} is invalid ({type(error).__name__}: {error}). Train the filter "
                "again."
            ) from None
        if classifier.names != features.names:
            raise DataError(
                f"{folder / FILTER} contains a classifier for the features "
                f"{', '.join(map(str, classifier.names))}, but resources for "
                f"{', '.join(features.names)}. Train the filter again."
            )
        phsic = {name: Phsic.read(folder / f"{name}.npz") for name in features.embedded}
        return cls(features, phsic, classifier)


def _features_to_json(features: FeatureExtractor) -> dict[str, Any]:
    masked = features.masked
    return {
        "vectors": features.vectors and [str(Path(path).resolve()) for path in features.vectors],
        "smoothing": features.smoothing,
        "tokenizers": list(features.tokenizers),
        "masked": masked and [_scoring_to_json(scoring) for scoring in masked],
        "translation": features.translation and _scoring_to_json(features.translation),
        "subwords": [path and str(Path(path).resolve()) for path in features.subwords],
    }


def _features_of_json(
    content: Mapping[str, Any], folder: Path, computing: Mapping[str, Any]
) -> FeatureExtractor:
    def scoring(kind: str, given: Mapping[str, Any]) -> ScoringConfig:
        options = {**given, "languages": tuple(given["languages"])}
        return replace(ScoringConfig(kind, name="", **options), **computing)

    if "://" in json_text(content):  # the file may be untrusted
        raise ValueError("it contains a URL instead of a local path")
    vectors, subwords = content["vectors"], content["subwords"]
    masked, translation = (content[name] for name in ("masked", "translation"))
    tokenizers, smoothing = content["tokenizers"], float(content["smoothing"])
    if not all(isinstance(name, str) for name in tokenizers):
        raise ValueError("the tokenizers are not strings")
    if not 0 < smoothing < math.inf:
        raise ValueError(f"smoothing is {smoothing}, expected a number above 0")
    return FeatureExtractor(
        vectors=vectors and (vectors[0], vectors[1]),
        counts=(folder / COUNTS[0], folder / COUNTS[1]),
        smoothing=smoothing,
        tokenizers=(tokenizers[0], tokenizers[1]),
        masked=masked and (scoring(MASKED_MODEL, masked[0]), scoring(MASKED_MODEL, masked[1])),
        translation=translation and scoring(TRANSLATION, translation),
        subwords=(subwords[0], subwords[1]),
    )


def _scoring_to_json(scoring: ScoringConfig) -> dict[str, Any]:
    return {
        "models": [str(Path(path).resolve()) for path in scoring.models],
        "data_dir": scoring.data_dir and str(Path(scoring.data_dir).resolve()),
        "languages": list(scoring.languages),
        "reverse": scoring.reverse,
        "right_to_left": scoring.right_to_left,
    }


def score_block(pair_filter: PairFilter, block: Block) -> BlockResult:
    """Return a block's scores as lines of text. Check the words of the corpus's first block."""
    pairs = list(block.pairs())
    if block.seeds == (0, 0):
        pair_filter.features.check_words(pairs)
    scores = pair_filter.scores(pairs).tolist()
    text = "".join(f"{score:.9g}\n" for score in scores)
    return BlockResult((text.encode("ascii"),), Counter(lines=len(pairs)))
