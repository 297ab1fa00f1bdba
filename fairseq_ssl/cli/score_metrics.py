"""What ``fairseq-ssl score`` computes of words: each metric reads files and counts by sentence."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fairseq_ssl.errors import DataError
from fairseq_ssl.io.text_files import read_lines
from fairseq_ssl.metrics.errant import TypedCounts
from fairseq_ssl.metrics.significance import SentenceStatistics

if TYPE_CHECKING:
    from fairseq_ssl.metrics.bleu import SumMetric

Settings = dict[str, Any]
Values = dict[str, float]


@dataclass
class Output:
    """One file of outputs, read and counted."""

    name: str
    lines: list[str]
    rows: SentenceStatistics
    """[sentences, numbers]: what adds up."""
    typed: list[TypedCounts] | None = None
    """By sentence, where the edits have types."""


class Metric(ABC):
    """Makes numbers of outputs."""

    headline: str
    """Which of its values others are compared by."""

    def __init__(self, settings: Settings, references: Sequence[Path]) -> None:
        self.settings = settings
        self.references = references

    @abstractmethod
    def count(self, name: str, lines: list[str]) -> Output:
        """Count what a file has; raise an error if it does not go with the others."""

    @abstractmethod
    def values(self, rows: SentenceStatistics) -> Values:
        """Score some sentences."""

    def score(self, totals: SentenceStatistics) -> float:
        """Return the headline of numbers that were added up."""
        return self.values(totals[None])[self.headline]

    def sentence_score(self, row: SentenceStatistics) -> float:
        """Return the headline of one sentence."""
        return self.score(row)

    def parameters(self) -> dict[str, Any]:
        """Return what belongs into the signature."""
        return {"references": len(self.references)}

    def beside(self, path: Path, lines: Sequence[str], name: str) -> list[str]:
        """Read a file that must have as many lines as an output."""
        found = list(read_lines(path))
        check_lengths(path, len(found), name, len(lines))
        return found

    def wanted(self, lines: Sequence[str], name: str) -> list[list[str]]:
        """Return the references, by annotator."""
        return [self.beside(path, lines, name) for path in self.references]


def check_lengths(path: Path, there: int, name: str, lines: int) -> None:
    """Refuse files that are not equally long."""
    if there != lines:
        raise DataError(
            f"{path} has {there} lines and {name} {lines}. Parallel files must have equally many "
            "lines."
        )


class GleuMetric(Metric):
    """GLEU; as the bootstrap has it, the mean over single references."""

    headline = "GLEU"

    def count(self, name: str, lines: list[str]) -> Output:
        """Count n-grams."""
        from fairseq_ssl.metrics.gleu import gleu_counts

        sources = self.beside(self.settings["source"], lines, name)
        counts = gleu_counts(lines, sources, self.wanted(lines, name))
        return Output(name, lines, counts.reshape(len(lines), -1))

    def values(self, rows: SentenceStatistics) -> Values:
        """Score as the authors' script does."""
        from fairseq_ssl.metrics.gleu import gleu_of_counts

        counts = rows.reshape(len(rows), len(self.references), -1)
        found = gleu_of_counts(counts, self.settings["samples"])
        if len(self.references) == 1:
            return {"GLEU": found.score}
        return {
            "GLEU": found.score,
            "deviation of samples": found.deviation,
            "mean of single references": float(np.mean(found.by_reference)),
        }

    def score(self, totals: SentenceStatistics) -> float:
        """Return the mean over single references."""
        from fairseq_ssl.metrics.gleu import gleu_of

        counts = totals.reshape(len(self.references), -1)
        return float(np.mean([gleu_of(each) for each in counts]))

    def parameters(self) -> dict[str, Any]:
        """Return how often references are drawn."""
        samples = {"samples": self.settings["samples"]} if len(self.references) > 1 else {}
        return {**super().parameters(), **samples}


class RougeMetric(Metric):
    """ROUGE, the mean over summaries."""

    headline = "ROUGE-L"

    def count(self, name: str, lines: list[str]) -> Output:
        """Score each summary."""
        from fairseq_ssl.metrics.rouge import rouge_by_line

        wanted = self.wanted(lines, name)
        settings = self.settings
        rows = rouge_by_line(lines, wanted, settings["stem"], settings["sentence_mark"])
        return Output(name, lines, np.array([[*row, 1] for row in rows]))

    def values(self, rows: SentenceStatistics) -> Values:
        """Return the means."""
        from fairseq_ssl.metrics.rouge import VARIANTS

        *sums, count = rows.sum(0)
        return {
            f"ROUGE-{variant}": float(100 * found / count)
            for variant, found in zip(VARIANTS, sums, strict=True)
        }

    def parameters(self) -> dict[str, Any]:
        """Return what the package was told."""
        from fairseq_ssl.metrics.rouge import package

        return {
            **super().parameters(),
            "stem": self.settings["stem"],
            "mark": self.settings["sentence_mark"] or "none",
            "by": package(),
        }


class SacreBleuMetric(Metric):
    """Base of the metrics that sacreBLEU computes."""

    def __init__(self, settings: Settings, references: Sequence[Path]) -> None:
        super().__init__(settings, references)
        self._aim = self.aim()

    @abstractmethod
    def aim(self) -> SumMetric:
        """Return what counts and scores."""

    def count(self, name: str, lines: list[str]) -> Output:
        """Count n-grams."""
        counts = self._aim.counts([[line] for line in lines], self.wanted(lines, name))
        return Output(name, lines, np.array([row for (row,) in counts], np.float64))

    def values(self, rows: SentenceStatistics) -> Values:
        """Score a corpus."""
        return {self.headline: self._aim.exact(rows.sum(0).astype(np.int64))}

    def sentence_score(self, row: SentenceStatistics) -> float:
        """Score a sentence, which may be short."""
        return float(self._aim.by_sentence(row.astype(np.int64)))

    def sacrebleu_signature(self) -> dict[str, str]:
        """Return sacreBLEU's signature by its keys."""
        pairs = (pair.partition(":") for pair in self._aim.signature().split("|"))
        return {key: value for key, _, value in pairs}


class BleuMetric(SacreBleuMetric):
    """BLEU."""

    headline = "BLEU"

    def aim(self) -> SumMetric:
        """Return BLEU with the tokenizer of the settings."""
        from fairseq_ssl.metrics.bleu import BleuSums

        return BleuSums(self.settings["tokenize"])

    def parameters(self) -> dict[str, Any]:
        """Return the tokenizer, and the version of sacreBLEU."""
        by = f"sacrebleu-{self.sacrebleu_signature()['version']}"
        return {**super().parameters(), "tokenize": self.settings["tokenize"], "by": by}


class ChrfMetric(SacreBleuMetric):
    """chrF of character n-grams."""

    headline = "chrF2"
    word_order = 0

    def aim(self) -> SumMetric:
        """Return chrF with word n-grams up to `word_order`."""
        from fairseq_ssl.metrics.bleu import ChrfSums

        return ChrfSums(self.word_order)

    def parameters(self) -> dict[str, Any]:
        """Return sacreBLEU's parameters."""
        found = self.sacrebleu_signature()
        version = found.pop("version")
        found.pop("nrefs", None)
        return {**super().parameters(), **found, "by": f"sacrebleu-{version}"}


class ChrfPlusPlusMetric(ChrfMetric):
    """chrF++: character n-grams, words and pairs of words."""

    headline = "chrF2++"
    word_order = 2


class AccuracyMetric(Metric):
    """How many lines are one of their references, word for word."""

    headline = "accuracy"

    def count(self, name: str, lines: list[str]) -> Output:
        """Compare lines."""
        columns = zip(*self.wanted(lines, name), strict=True)
        pairs = zip(lines, columns, strict=True)
        rows = [[float(line in wanted), 1.0] for line, wanted in pairs]
        return Output(name, lines, np.array(rows))

    def values(self, rows: SentenceStatistics) -> Values:
        """Return the share in percent."""
        right, count = rows.sum(0)
        return {"accuracy": float(100 * right / count)}


METRICS: dict[str, type[Metric]] = {
    "gleu": GleuMetric,
    "bleu": BleuMetric,
    "chrf": ChrfMetric,
    "chrf++": ChrfPlusPlusMetric,
    "rouge": RougeMetric,
    "accuracy": AccuracyMetric,
}
