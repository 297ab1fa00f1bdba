"""How much a pair goes with all others: pointwise HSIC (Yokoi et al., 2018) of unit vectors.

With the cosine as the kernel, which is linear in vectors of length 1, there is a closed form:
(x - mean x)' C (y - mean y), C the covariance [source dim, target dim] of the corpus. So it is
learned from sums, in one pass, and needs no kernel matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

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
                return cls(found["source_mean"], found["target_mean"], found["covariance"])
        except Exception as error:  # whatever the zip file, or numpy, stumbles over
            raise DataError(f"{path} can not be read: {error}. Fit the filter again.") from None


def unit(rows: Values) -> Values:
    """Return rows of length 1; those without a direction stay 0."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 1e-9))
