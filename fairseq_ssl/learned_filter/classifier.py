"""A linear SVM that tells clean pairs from noisy ones, and PHSIC, its strongest feature."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.errors import DataError, import_optional

Values = NDArray[np.float64]


@dataclass
class Sums:
    """What is known of the pairs so far."""

    count: int
    sources: Values
    """[source dim]"""
    targets: Values
    """[target dim]"""
    products: Values
    """[source dim, target dim]"""

    @classmethod
    def of(cls, sources: Values, targets: Values) -> Sums:
        """Sum over the vectors of pairs, [pairs, source dim] and [pairs, target dim]."""
        return cls(len(sources), sources.sum(0), targets.sum(0), sources.T @ targets)

    def add(self, other: Sums) -> None:
        """Count more pairs."""
        self.count += other.count
        self.sources = self.sources + other.sources
        self.targets = self.targets + other.targets
        self.products = self.products + other.products

    def dependence(self) -> Dependence:
        """Return what scores pairs by those counted."""
        mean, other = self.sources / self.count, self.targets / self.count
        return Dependence(mean, other, self.products / self.count - np.outer(mean, other))


@dataclass(frozen=True)
class Dependence:
    """Scores pairs by the corpus that it is learned from."""

    source_mean: Values
    target_mean: Values
    covariance: Values
    """[source dim, target dim]"""

    def scores(self, sources: Values, targets: Values) -> Values:
        """Return the PHSIC of each pair of unit vectors, [pairs]."""
        dims = sources.shape[1], targets.shape[1]
        if dims != self.covariance.shape:
            raise DataError(
                f"The vectors have {dims[0]} and {dims[1]} dimensions, and the filter was fitted "
                f"with {' and '.join(map(str, self.covariance.shape))}. Fit the filter again."
            )
        seen = (sources - self.source_mean) @ self.covariance
        return np.asarray((seen * (targets - self.target_mean)).sum(1))

    def write(self, path: Path) -> None:
        """Write it, as numpy does."""
        with path.open("wb") as file:
            np.savez(
                file,
                source_mean=self.source_mean,
                target_mean=self.target_mean,
                covariance=self.covariance,
            )

    @classmethod
    def read(cls, path: Path) -> Dependence:
        """Read what was written."""
        try:
            with np.load(path, allow_pickle=False) as found:
                read = cls(found["source_mean"], found["target_mean"], found["covariance"])
        except Exception:  # whatever the zip file, or numpy, stumbles over
            raise DataError(
                f"{path} is not an npz file of numbers. Fit the filter again."
            ) from None
        sizes = len(np.atleast_1d(read.source_mean)), len(np.atleast_1d(read.target_mean))
        parts = {"source_mean": sizes[:1], "target_mean": sizes[1:], "covariance": sizes}
        if not all(_has_numbers(getattr(read, name), shape) for name, shape in parts.items()):
            raise DataError(
                f"{path} has arrays of other types or sizes than a filter's. Fit the filter again."
            )
        return read


def _has_numbers(part: Any, shape: tuple[int, ...]) -> bool:
    """Return True for an array of a shape with finite numbers."""
    is_array = isinstance(part, np.ndarray) and part.dtype == np.float64 and part.shape == shape
    return is_array and bool(np.isfinite(part).all())


def unit(rows: Values) -> Values:
    """Return rows of length 1; those without a direction stay 0."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 1e-9))


KEY_BITS = 16
"""Read of each number in a pass; four passes know all 64."""
SIGN = np.uint64(1 << 63)

FloatArrays = Callable[[], Iterable[NDArray[np.float64]]]
"""Yields the same numbers, in arrays, as often as it is called."""


def kth_largest(numbers: FloatArrays, k: int) -> tuple[float, int]:
    """Return the k-th largest number, counted from 1, and how many of its equals are in the k.

    Each pass counts, among numbers that begin with the bits known so far, the next bits.
    """
    known, left = 0, k
    for shift in range(64 - KEY_BITS, -1, -KEY_BITS):
        counts = np.zeros(2**KEY_BITS, np.int64)
        for some in numbers():
            keys = _keys(some)
            if shift + KEY_BITS < 64:
                keys = keys[keys >> np.uint64(shift + KEY_BITS) == np.uint64(known)]
            found = (keys >> np.uint64(shift)) & np.uint64(2**KEY_BITS - 1)
            counts += np.bincount(found.astype(np.intp), minlength=2**KEY_BITS)
        above = np.cumsum(counts[::-1])
        assert above[-1] >= left, "k is more than there are numbers"
        place = int(np.searchsorted(above, left))
        left -= int(above[place] - counts[::-1][place])
        known = (known << KEY_BITS) | (2**KEY_BITS - 1 - place)
    return _number(known), left


def _keys(numbers: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Return whole numbers in the same order; -0.0 is as 0.0."""
    bits = (numbers + 0.0).view(np.uint64)
    return np.where(bits & SIGN, ~bits, bits | SIGN)


def _number(key: int) -> float:
    bits = np.array([key], np.uint64)
    bits = np.where(bits & SIGN, bits ^ SIGN, ~bits)
    return float(bits.view(np.float64)[0])


SVM_FOLDS = 5


@dataclass(frozen=True)
class PairClassifier:
    """Weighs features, each brought to mean 0 and deviation 1 of the pairs learned from."""

    names: tuple[str, ...]
    means: Values
    deviations: Values
    weights: Values
    bias: float

    def scores(self, features: Values) -> Values:
        """Return how clean pairs are, [pairs], of features [pairs, features]; clean above 0."""
        return np.asarray((features - self.means) / self.deviations @ self.weights + self.bias)

    def to_json(self) -> dict[str, Any]:
        """Return it as plain numbers."""
        return {
            "names": list(self.names),
            "means": self.means.tolist(),
            "deviations": self.deviations.tolist(),
            "weights": self.weights.tolist(),
            "bias": self.bias,
        }

    @classmethod
    def of_json(cls, content: dict[str, Any]) -> PairClassifier:
        """Return what was written."""
        means, deviations, weights = (
            np.array(content[name], float) for name in ("means", "deviations", "weights")
        )
        names = tuple(content["names"])
        rows = (means, deviations, weights)
        if any(row.shape != (len(names),) or not np.isfinite(row).all() for row in rows):
            raise ValueError(f"expected {len(names)} numbers for each of {', '.join(names)}")
        if not (deviations > 0).all() or not np.isfinite(float(content["bias"])):
            raise ValueError("deviations and bias of the classifier are out of range")
        return cls(names, means, deviations, weights, float(content["bias"]))


def train_classifier(
    clean: Values, noisy: Values, names: Sequence[str], penalty: float = 1.0, seed: int = 1
) -> tuple[PairClassifier, float]:
    """Learn from features of clean and noisy pairs, [pairs, features] each.

    Args:
        clean: the one kind
        noisy: the other
        names: of the features
        penalty: C of the SVM
        seed: of its search, and of the parts of the cross-validation

    Returns:
        the classifier, and the share of pairs that ones learned from other parts tell right
    """
    svm = import_optional("sklearn.svm", "Learning a filter", "wmt")
    selection = import_optional("sklearn.model_selection", "Learning a filter", "wmt")
    features = np.concatenate([clean, noisy])
    kinds = np.repeat([1, -1], [len(clean), len(noisy)])
    if len(clean) < SVM_FOLDS or len(noisy) < SVM_FOLDS:
        raise DataError(
            f"There are {len(clean)} clean and {len(noisy)} noisy pairs to learn from; expected "
            f"{SVM_FOLDS} or more of each."
        )
    means, deviations = features.mean(0), features.std(0)
    deviations = np.where(deviations > 0, deviations, 1.0)
    scaled = (features - means) / deviations
    machine = svm.LinearSVC(C=penalty, random_state=seed, dual=False)
    folds = selection.StratifiedKFold(SVM_FOLDS, shuffle=True, random_state=seed)
    right = float(selection.cross_val_score(machine, scaled, kinds, cv=folds).mean())
    machine.fit(scaled, kinds)
    weights = np.asarray(machine.coef_[0], float)
    return PairClassifier(
        tuple(names), means, deviations, weights, float(machine.intercept_[0])
    ), right
