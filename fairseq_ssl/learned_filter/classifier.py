"""PHSIC scores for sentence pairs, and a linear SVM that separates clean from noisy pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.errors import DataError, import_optional

Values = NDArray[np.float64]


@dataclass
class PhsicSums:
    """Sums over vector pairs, from which PHSIC is estimated. `add` combines partial sums."""

    count: int
    """Number of pairs."""
    sources: Values
    """Sum of the source vectors, [source_dim]."""
    targets: Values
    """Sum of the target vectors, [target_dim]."""
    products: Values
    """Sum of the outer products, [source_dim, target_dim]."""

    @classmethod
    def of(cls, sources: Values, targets: Values) -> PhsicSums:
        """Compute the sums over vectors [pairs, source_dim] and [pairs, target_dim]."""
        return cls(len(sources), sources.sum(0), targets.sum(0), sources.T @ targets)

    def add(self, other: PhsicSums) -> None:
        """Add the sums for another part of the corpus."""
        self.count += other.count
        self.sources = self.sources + other.sources
        self.targets = self.targets + other.targets
        self.products = self.products + other.products

    def phsic(self) -> Phsic:
        """Estimate PHSIC from the sums."""
        mean, other = self.sources / self.count, self.targets / self.count
        return Phsic(mean, other, self.products / self.count - np.outer(mean, other))


@dataclass(frozen=True)
class Phsic:
    """Pointwise Hilbert-Schmidt independence criterion with linear kernels (Yokoi et al., 2018)."""

    source_mean: Values
    """Mean of the source vectors, [source_dim]."""
    target_mean: Values
    """Mean of the target vectors, [target_dim]."""
    covariance: Values
    """Cross-covariance, [source_dim, target_dim]."""

    def scores(self, sources: Values, targets: Values) -> Values:
        """Score pairs of unit vectors with PHSIC.

        Args:
            sources: source vectors, [pairs, source_dim]
            targets: target vectors, [pairs, target_dim]

        Returns:
            PHSIC values, [pairs]
        """
        dims = sources.shape[1], targets.shape[1]
        if dims != self.covariance.shape:
            raise DataError(
                f"The vectors have {dims[0]} and {dims[1]} dimensions, but the filter was trained "
                f"with {' and '.join(map(str, self.covariance.shape))}. Train the filter again."
            )
        seen = (sources - self.source_mean) @ self.covariance
        return np.asarray((seen * (targets - self.target_mean)).sum(1))

    def write(self, path: Path) -> None:
        """Save the arrays in an npz file."""
        with path.open("wb") as file:
            np.savez(
                file,
                source_mean=self.source_mean,
                target_mean=self.target_mean,
                covariance=self.covariance,
            )

    @classmethod
    def read(cls, path: Path) -> Phsic:
        """Load a file written by `write`. Raise DataError for an invalid file."""
        try:
            with np.load(path, allow_pickle=False) as arrays:
                read = cls(arrays["source_mean"], arrays["target_mean"], arrays["covariance"])
        except Exception:  # zipfile and numpy raise many types for a corrupt file
            raise DataError(
                f"{path} is not an npz file with PHSIC arrays. Train the filter again."
            ) from None
        sizes = len(np.atleast_1d(read.source_mean)), len(np.atleast_1d(read.target_mean))
        parts = {"source_mean": sizes[:1], "target_mean": sizes[1:], "covariance": sizes}
        if not all(_has_numbers(getattr(read, name), shape) for name, shape in parts.items()):
            raise DataError(
                f"{path} contains an array of invalid type, shape or value. Train the filter again."
            )
        return read


def _has_numbers(part: Any, shape: tuple[int, ...]) -> bool:
    """Return True if `part` is a float64 array of this shape with finite values."""
    is_array = isinstance(part, np.ndarray) and part.dtype == np.float64 and part.shape == shape
    return is_array and bool(np.isfinite(part).all())


def unit(rows: Values) -> Values:
    """Scale the rows of a matrix to unit L2 norm. Zero rows stay zero."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 1e-9))


SVM_FOLDS = 5


@dataclass(frozen=True)
class PairClassifier:
    """A linear classifier. Features are standardized with training set statistics."""

    names: tuple[str, ...]
    means: Values
    stds: Values
    weights: Values
    bias: float

    def scores(self, features: Values) -> Values:
        """Map features [pairs, features] to scores [pairs]. A score above 0 means clean."""
        return np.asarray((features - self.means) / self.stds @ self.weights + self.bias)

    def to_json(self) -> dict[str, Any]:
        """Return the parameters as a JSON-serializable dictionary."""
        return {
            "names": list(self.names),
            "means": self.means.tolist(),
            "deviations": self.stds.tolist(),
            "weights": self.weights.tolist(),
            "bias": self.bias,
        }

    @classmethod
    def of_json(cls, content: dict[str, Any]) -> PairClassifier:
        """Create a classifier from the output of `to_json`. Raise ValueError for invalid values."""
        means, stds, weights = (
            np.array(content[name], float) for name in ("means", "deviations", "weights")
        )
        names = tuple(content["names"])
        rows = (means, stds, weights)
        if any(row.shape != (len(names),) or not np.isfinite(row).all() for row in rows):
            raise ValueError(
                f"the means, standard deviations or weights are not {len(names)} finite numbers"
            )
        if not (stds > 0).all() or not np.isfinite(float(content["bias"])):
            raise ValueError("a standard deviation is not above 0, or the bias is not finite")
        return cls(names, means, stds, weights, float(content["bias"]))


def train_classifier(
    clean: Values, noisy: Values, names: Sequence[str], seed: int = 1
) -> tuple[PairClassifier, float]:
    """Train a linear SVM that separates clean from noisy pairs.

    Args:
        clean: features of clean pairs, [pairs, features]
        noisy: features of noisy pairs, [pairs, features]
        names: feature names, in column order
        seed: random seed of the SVM and of the cross-validation folds

    Returns:
        The classifier, and its accuracy in 5-fold cross-validation (0 to 1).
    """
    svm = import_optional("sklearn.svm", "Training a filter", "wmt")
    selection = import_optional("sklearn.model_selection", "Training a filter", "wmt")
    features = np.concatenate([clean, noisy])
    kinds = np.repeat([1, -1], [len(clean), len(noisy)])
    if len(clean) < SVM_FOLDS or len(noisy) < SVM_FOLDS:
        raise DataError(
            f"There are {len(clean)} clean and {len(noisy)} noisy pairs. Expected at least "
            f"{SVM_FOLDS} clean and {SVM_FOLDS} noisy pairs."
        )
    means, stds = features.mean(0), features.std(0)
    varies = stds > 1e-9 * np.abs(means)
    stds = np.where(varies, stds, 1.0)
    scaled = np.where(varies, (features - means) / stds, 0.0)
    state = seed % 2**32  # scikit-learn accepts no larger seeds
    machine = svm.LinearSVC(random_state=state, dual=False)
    folds = selection.StratifiedKFold(SVM_FOLDS, shuffle=True, random_state=state)
    accuracy = float(selection.cross_val_score(machine, scaled, kinds, cv=folds).mean())
    machine.fit(scaled, kinds)
    weights = np.where(varies, machine.coef_[0], 0.0)
    return PairClassifier(
        tuple(names), means, stds, weights, float(machine.intercept_[0])
    ), accuracy
