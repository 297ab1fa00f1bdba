"""How much a pair goes with all others: pointwise HSIC (Yokoi et al., 2018) of unit vectors.

With the cosine as the kernel, which is linear in vectors of length 1, there is a closed form:
(x - mean x)' C (y - mean y), C the covariance [source dim, target dim] of the corpus. So it is
learned from sums, in one pass, and needs no kernel matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.errors import DataError

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
