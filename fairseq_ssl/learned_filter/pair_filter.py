"""The learned filter in its folder, and the noisy pairs that it is trained on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fairseq_ssl.errors import DataError
from fairseq_ssl.inference.scoring import MASKED_MODEL, TRANSLATION, ScoringConfig
from fairseq_ssl.io.blocks import PairBlock
from fairseq_ssl.io.text_files import parse_json
from fairseq_ssl.learned_filter.classifier import Dependence, PairClassifier, Values
from fairseq_ssl.learned_filter.features import Measures, Pairs
from fairseq_ssl.noise.batch import Random, TokenBatch
from fairseq_ssl.noise.tokens import FilteringNoise, Unigrams
from fairseq_ssl.signature import json_text

BytePair = tuple[str, str]


def noise_pairs(
    pairs: Sequence[BytePair],
    measures: Measures,
    counts: Sequence[Mapping[str, int]],
    seed: int,
    copies: int = 1,
) -> list[BytePair]:
    """Return so many noisy copies of each pair, of which chance chooses the side with noise.

    Args:
        pairs: clean ones
        measures: what cuts lines into words
        counts: of the words of both sides, by which words are drawn
        seed: of all that is random
        copies: of each pair
    """
    made: list[BytePair] = []
    for copy in range(copies):
        sides = [
            _noised([pair[side] for pair in pairs], measures, counts[side], side, (seed, copy))
            for side in (0, 1)
        ]
        chosen = Random.of((seed, copy, 2), len(pairs)).lines() < 0.5
        made += [
            (source, pair[1]) if first else (pair[0], target)
            for pair, source, target, first in zip(pairs, *sides, chosen, strict=True)
        ]
    return made


def _noised(
    lines: Sequence[str],
    measures: Measures,
    counts: Mapping[str, int],
    side: int,
    seeds: tuple[int, ...],
) -> list[str]:
    """Return the lines of a side with noise, which nothing but the noise tells from clean ones.

    Where a line has spaces, what stands between them is deleted, replaced and moved; where it has
    none, its words are, and are put together again.
    """
    spaced = [" " in line.strip() for line in lines]
    words = [
        line if has else " ".join(measures.words(line, side))
        for line, has in zip(lines, spaced, strict=True)
    ]
    noise = FilteringNoise(Unigrams.of(counts))
    noisy = noise(
        TokenBatch.of_words(words), Random.of((*seeds, side), len(lines))
    ).block.to_lines()
    return [made if has else made.replace(" ", "") for has, made in zip(spaced, noisy, strict=True)]


FILTER = "filter.json"
COUNTS = ("counts.source", "counts.target")


@dataclass(frozen=True)
class PairFilter:
    """Tells how clean pairs are."""

    measures: Measures
    learned: dict[str, Dependence]
    classifier: PairClassifier

    def scores(self, pairs: Pairs) -> Values:
        """Return how clean pairs are, [pairs]; above 0 they are more like the clean ones."""
        return self.classifier.scores(self.measures.features(pairs, self.learned))

    def write(self, folder: Path, signature: Mapping[str, Any]) -> None:
        """Write it into a folder, where the counts are already."""
        for name, one in self.learned.items():
            one.write(folder / f"{name}.npz")
        content = {
            **signature,
            "measures": _measures_to_json(self.measures),
            "classifier": self.classifier.to_json(),
        }
        (folder / FILTER).write_text(f"{json_text(content)}\n", encoding="utf-8")

    @classmethod
    def read(cls, folder: Path, computing: Mapping[str, Any]) -> PairFilter:
        """Read one; `computing` says on what its models run, as fields of a Scoring."""
        try:
            content = parse_json((folder / FILTER).read_bytes())
            measures = _measures_of_json(content["measures"], folder, computing)
            classifier = PairClassifier.of_json(content["classifier"])
        except FileNotFoundError:
            raise DataError(
                f"{folder} is no filter: it has no {FILTER}. Make one with `fairseq-ssl filter "
                "learned fit`."
            ) from None
        except (ValueError, LookupError, TypeError, ArithmeticError) as error:
            raise DataError(
                f"{folder / FILTER} can not be read: {error!r}. Fit it again."
            ) from None
        if classifier.names != measures.names:
            raise DataError(
                f"{folder / FILTER} has a classifier for {', '.join(map(str, classifier.names))}, "
                f"and measures {', '.join(measures.names)}. Fit it again."
            )
        learned = {name: Dependence.read(folder / f"{name}.npz") for name in measures.embedded}
        return cls(measures, learned, classifier)


def _measures_to_json(measures: Measures) -> dict[str, Any]:
    masked = measures.masked
    return {
        "vectors": measures.vectors and [str(path.resolve()) for path in measures.vectors],
        "smoothing": measures.smoothing,
        "tokenizers": list(measures.tokenizers),
        "masked": masked and [_scoring_to_json(one) for one in masked],
        "translation": measures.translation and _scoring_to_json(measures.translation),
        "subwords": [path and str(path.resolve()) for path in measures.subwords],
    }


def _measures_of_json(
    content: Mapping[str, Any], folder: Path, computing: Mapping[str, Any]
) -> Measures:
    def scoring(kind: str, given: Mapping[str, Any]) -> ScoringConfig:
        options = {
            **given,
            "models": tuple(map(Path, given["models"])),
            "data_dir": given["data_dir"] and Path(given["data_dir"]),
            "languages": tuple(given["languages"]),
        }
        return replace(ScoringConfig(kind, name="", **options), **computing)

    vectors, masked, translation = (content[name] for name in ("vectors", "masked", "translation"))
    subwords = [path and Path(path) for path in content["subwords"]]
    tokenizers, smoothing = content["tokenizers"], float(content["smoothing"])
    if not all(isinstance(name, str) for name in tokenizers):
        raise ValueError("tokenizers are not names")
    if not 0 < smoothing < math.inf:
        raise ValueError(f"smoothing is {smoothing}")
    return Measures(
        vectors=vectors and (Path(vectors[0]), Path(vectors[1])),
        counts=(folder / COUNTS[0], folder / COUNTS[1]),
        smoothing=smoothing,
        tokenizers=(tokenizers[0], tokenizers[1]),
        masked=masked and (scoring(MASKED_MODEL, masked[0]), scoring(MASKED_MODEL, masked[1])),
        translation=translation and scoring(TRANSLATION, translation),
        subwords=(subwords[0], subwords[1]),
    )


def _scoring_to_json(scoring: ScoringConfig) -> dict[str, Any]:
    return {
        "models": [str(path.resolve()) for path in scoring.models],
        "data_dir": scoring.data_dir and str(scoring.data_dir.resolve()),
        "languages": list(scoring.languages),
        "reverse": scoring.reverse,
        "right_to_left": scoring.right_to_left,
    }


@dataclass(frozen=True)
class ScoredPairs:
    """The scores of a block, a line each."""

    outputs: tuple[bytes, ...]
    ends: tuple[int, ...]
    count: int
    share: float


@dataclass(frozen=True)
class PairScoring:
    """What workers do to score pairs."""

    filter: PairFilter

    def __call__(self, block: PairBlock) -> ScoredPairs:
        """Score a block."""
        pairs = list(block.pairs())
        scores = self.filter.scores(pairs).tolist()
        text = "".join(f"{score:.9g}\n" for score in scores)
        return ScoredPairs((text.encode("ascii"),), block.ends, len(pairs), block.share)
