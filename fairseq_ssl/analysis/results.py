"""Common interface of analysis results: a JSON file, a figure and tables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from fairseq_ssl.errors import UsageError
from fairseq_ssl.io.fingerprints import content_digest
from fairseq_ssl.io.outputs import atomic_lines
from fairseq_ssl.io.text_files import json_text, path_list
from fairseq_ssl.metrics.metric import SeedRange
from fairseq_ssl.signature import Signature

Checkpoints = Mapping[str, Sequence[str | Path]]
"""Checkpoints by model name. A model has one checkpoint for each seed."""
Table = tuple[list[str], list[list[str]]]
"""Header and rows of a text table."""


@dataclass(frozen=True)
class AnalysisResult(ABC):
    """Values of an analysis, with methods that write them as JSON, tables and a figure."""

    signature: Signature
    results: dict[str, Any]
    """JSON-serializable values."""

    @abstractmethod
    def tables(self) -> Iterator[Table]:
        """Yield the results as one or more text tables."""

    @abstractmethod
    def draw(self, path: str | Path) -> None:
        """Write a figure of the results to `path`."""

    def write(self, prefix: str | Path, image: str = "png") -> tuple[Path, Path]:
        """Write the results to ``PREFIX.json``, and a figure. Return the paths of both files.

        Args:
            prefix: path without suffix.
            image: format of the figure, ``png``, ``svg`` or ``pdf``.
        """
        prefix = Path(prefix)
        prefix.parent.mkdir(parents=True, exist_ok=True)
        figure = prefix.with_name(f"{prefix.name}.{image}")
        path = prefix.with_name(f"{prefix.name}.json")
        content = {
            "signature": str(self.signature),
            **self.signature.parameters,
            **self.signature.details,
            **self.results,
        }
        with atomic_lines(path) as file:
            file.write(f"{json_text(content)}\n")
        self.draw(figure)  # after the results, which do not need matplotlib
        return path, figure


def bucket_names(ends: Sequence[int]) -> list[str]:
    """Return bucket names such as 1-10, 11-20 and 21- for the upper bounds 10 and 20."""
    starts = [1, *(end + 1 for end in ends)]
    return [f"{start}-{end}" for start, end in zip(starts, [*ends, ""], strict=True)]


def checkpoint_paths(checkpoints: Checkpoints, minimum: int = 0) -> dict[str, list[Path]]:
    """Return the paths by model. Raise UsageError if there are fewer than `minimum` models."""
    if len(checkpoints) < minimum:
        raise UsageError(
            f"The number of models in `checkpoint` is {len(checkpoints)}. Expected at least "
            f"{minimum} models to compare."
        )
    return {name: path_list(paths) for name, paths in checkpoints.items()}


def checkpoint_digest(checkpoints: Checkpoints) -> str:
    """Return a digest of the contents of all checkpoints, for a signature."""
    return content_digest(*chain.from_iterable(checkpoints.values()))


def mean_and_sd(values: Iterable[float]) -> dict[str, float]:
    """Return the mean and the sample standard deviation (0 for one value), to 4 decimals."""
    seeds = SeedRange(list(values))
    return {"mean": round(seeds.mean, 4), "sd": round(seeds.std, 4)}
