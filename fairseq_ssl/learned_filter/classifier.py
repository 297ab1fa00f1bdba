"""A linear SVM that tells clean pairs from noisy ones; how sure it is orders pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairseq_ssl.errors import DataError, import_optional
from fairseq_ssl.learned_filter.dependence import Values

FOLDS = 5


@dataclass(frozen=True)
class Classifier:
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
    def of_json(cls, content: dict[str, Any]) -> Classifier:
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


def learned(
    clean: Values, noisy: Values, names: Sequence[str], penalty: float = 1.0, seed: int = 1
) -> tuple[Classifier, float]:
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
    if len(clean) < FOLDS or len(noisy) < FOLDS:
        raise DataError(
            f"There are {len(clean)} clean and {len(noisy)} noisy pairs to learn from; expected "
            f"{FOLDS} or more of each."
        )
    means, deviations = features.mean(0), features.std(0)
    deviations = np.where(deviations > 0, deviations, 1.0)
    scaled = (features - means) / deviations
    machine = svm.LinearSVC(C=penalty, random_state=seed, dual=False)
    folds = selection.StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    right = float(selection.cross_val_score(machine, scaled, kinds, cv=folds).mean())
    machine.fit(scaled, kinds)
    weights = np.asarray(machine.coef_[0], float)
    return Classifier(tuple(names), means, deviations, weights, float(machine.intercept_[0])), right
