"""What ``fairseq-ssl score`` computes of edits: MaxMatch and ERRANT."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from fairseq_ssl.cli.console import watched
from fairseq_ssl.cli.score_metrics import Metric, Output, Settings, Values, check_lengths
from fairseq_ssl.errors import DataError
from fairseq_ssl.io.executors import LocalExecutor
from fairseq_ssl.io.text_files import read_lines
from fairseq_ssl.metrics.errant import Annotator, compared, packages
from fairseq_ssl.metrics.significance import SentenceStatistics
from fairseq_ssl.text.m2 import M2Edit, M2Sentence, read_m2

Item = TypeVar("Item")
Result = TypeVar("Result")

BLOCK = 50
"""Sentences that a process does at a time."""


class EditMetric(Metric):
    """What metrics of edits share."""

    def __init__(self, settings: Settings, references: Sequence[Path]) -> None:
        super().__init__(settings, references)
        self.headline = f"F_{settings['beta']:g}"

    def named(self, found: Sequence[float]) -> Values:
        """Return precision, recall and F in percent."""
        names = ("Precision", "Recall", self.headline)
        return {name: 100 * value for name, value in zip(names, found, strict=True)}

    def parameters(self) -> dict[str, Any]:
        """Return which F it is."""
        return {"beta": self.settings["beta"]}

    def spread(
        self, work: Callable[[list[Item]], list[Result]], items: Sequence[Item], name: str
    ) -> list[Result]:
        """Work on blocks of sentences in so many processes."""
        engine = LocalExecutor(self.settings["jobs"])
        found = chain.from_iterable(engine.ordered(work, _blocks(items)))
        return list(watched(found, name, "sentences"))


class MaxMatchMetric(EditMetric):
    """MaxMatch."""

    def __init__(self, settings: Settings, references: Sequence[Path]) -> None:
        super().__init__(settings, references)
        self._gold = list(read_m2(settings["gold"]))

    def count(self, name: str, lines: list[str]) -> Output:
        """Find the edits of each sentence that agree best with an annotator."""
        from fairseq_ssl.metrics.maxmatch.scores import MaxMatch, choose_gold

        check_lengths(self.settings["gold"], len(self._gold), name, len(lines))
        beta = self.settings["beta"]
        work = MaxMatch(self.settings["max_unchanged_words"], beta, self.settings["ignore_case"])
        found = self.spread(work, list(zip(self._gold, lines, strict=True)), name)
        return Output(name, lines, np.array(choose_gold(found, beta), dtype=np.float64))

    def values(self, rows: SentenceStatistics) -> Values:
        """Return the numbers of the authors' script, in percent."""
        from fairseq_ssl.metrics.maxmatch.scores import match_scores

        return self.named(match_scores(rows.sum(0).tolist(), self.settings["beta"]))

    def parameters(self) -> dict[str, Any]:
        """Return how edits were taken."""
        unchanged = self.settings["max_unchanged_words"]
        case = "ignored" if self.settings["ignore_case"] else "compared"
        annotators = max(len(sentence.annotators) for sentence in self._gold)
        return {
            **super().parameters(),
            "annotators": annotators,
            "unchanged": unchanged,
            "case": case,
        }


class ErrantMetric(EditMetric):
    """ERRANT: corrections by their span."""

    def __init__(self, settings: Settings, references: Sequence[Path]) -> None:
        super().__init__(settings, references)
        self.model = None if settings["untyped"] else settings["model"]
        self._finds = False
        if settings["gold"]:
            self.gold = list(read_m2(settings["gold"]))
        else:
            sources = list(read_lines(settings["source"]))
            name = str(settings["source"])
            columns = zip(*self.wanted(sources, name), strict=True)
            self.gold = self._annotated(list(zip(sources, columns, strict=True)), "references")

    def count(self, name: str, lines: list[str]) -> Output:
        """Compare the edits of each sentence with those of its annotators."""
        from fairseq_ssl.metrics.errant import choose_annotator

        edits = self._read(name) if _is_m2(name) else self._find(name, lines)
        pairs = zip(edits, self.gold, strict=True)
        choices = [[compared(ours, of) for of in gold.annotators.values()] for ours, gold in pairs]
        counts = choose_annotator(choices, self.settings["beta"])
        rows = np.array([each.totals() for each in counts], dtype=np.float64)
        return Output(name, lines, rows, counts)

    def values(self, rows: SentenceStatistics) -> Values:
        """Return precision, recall and F in percent."""
        from fairseq_ssl.metrics.errant import errant_scores

        return self.named(errant_scores(rows.sum(0).tolist(), self.settings["beta"]))

    def parameters(self) -> dict[str, Any]:
        """Return what found the edits."""
        annotators = max(len(sentence.annotators) for sentence in self.gold)
        found = {**super().parameters(), "annotators": annotators}
        if not self._finds:
            return {**found, "edits": "from m2"}
        return {**found, "edits": self.model or "blank pipeline, untyped", "by": packages()}

    def _find(self, name: str, lines: list[str]) -> list[list[M2Edit]]:
        path = self.settings["gold"] or self.settings["source"]
        check_lengths(path, len(self.gold), name, len(lines))
        pairs: list[tuple[str, tuple[str, ...]]] = [
            (" ".join(gold.words), (line,)) for gold, line in zip(self.gold, lines, strict=True)
        ]
        return [sentence.annotators[0] for sentence in self._annotated(pairs, name)]

    def _annotated(self, pairs: list[tuple[str, tuple[str, ...]]], name: str) -> list[M2Sentence]:
        self._finds = True
        annotator(self.model)  # here too: what is wrong with a model is told before there is work
        return self.spread(_Annotating(self.model), pairs, name)

    def _read(self, name: str) -> list[list[M2Edit]]:
        """Read the edits of a system from an m2 file."""
        sentences = list(read_m2(Path(name)))
        path = self.settings["gold"] or self.settings["source"]
        check_lengths(path, len(self.gold), name, len(sentences))
        for ours, gold in zip(sentences, self.gold, strict=True):
            if ours.words != gold.words or len(ours.annotators) > 1:
                raise DataError(
                    f"{name}:{ours.line} is not the sentence of {path}, or has several annotators. "
                    "Expected the same sources, and the edits of one system."
                )
        return [next(iter(sentence.annotators.values())) for sentence in sentences]


@dataclass(frozen=True)
class _Annotating:
    """What a process does with a block of sentences."""

    model: str | None

    def __call__(self, block: list[tuple[str, tuple[str, ...]]]) -> list[M2Sentence]:
        find = annotator(self.model)
        return [find.sentence(source, corrected) for source, corrected in block]


@lru_cache(maxsize=1)
def annotator(model: str | None) -> Annotator:
    """Load a pipeline once in each process."""
    return Annotator(model)


def _is_m2(name: str) -> bool:
    return name.endswith((".m2", ".m2.gz"))


def _blocks(items: Sequence[Item]) -> Iterator[list[Item]]:
    for start in range(0, len(items), BLOCK):
        yield list(items[start : start + BLOCK])


METRICS: dict[str, type[Metric]] = {"m2": MaxMatchMetric, "errant": ErrantMetric}
