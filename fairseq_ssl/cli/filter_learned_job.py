"""What ``fairseq-ssl filter learned`` does once it is clear what is wanted."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl._version import __version__
from fairseq_ssl.cli.console import progress
from fairseq_ssl.cli.growing_job import GrowingJob
from fairseq_ssl.errors import DataError
from fairseq_ssl.inference.scoring import ScoringConfig, scorer_loader
from fairseq_ssl.io.atomic import atomic_folder
from fairseq_ssl.io.blocks import PairBlock, pair_blocks, row_blocks
from fairseq_ssl.io.executors import Executor
from fairseq_ssl.io.resumable import file_fingerprint
from fairseq_ssl.io.text_files import compress_chunk, open_text, read_parallel
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.vocabulary import read_counts, write_counts

if TYPE_CHECKING:
    from fairseq_ssl.learned_filter.classifier import Sums, Values
    from fairseq_ssl.learned_filter.features import Measures

Paths = tuple[Path, Path]


@dataclass(frozen=True)
class Fit:
    """Learns a filter."""

    bitext: Paths
    clean: Paths
    output: Path
    vectors: Paths | None
    counts: Paths | None
    smoothing: float
    tokenizers: tuple[str, str]
    masked: tuple[ScoringConfig, ScoringConfig] | None
    translation: ScoringConfig | None
    subwords: tuple[Path | None, Path | None]
    copies: int
    penalty: float
    seed: int
    engine: Executor

    def run(self) -> int:
        """Count, sum, classify, and write the folder."""
        from fairseq_ssl.learned_filter.classifier import SVM_FOLDS, train_classifier
        from fairseq_ssl.learned_filter.pair_filter import COUNTS, PairFilter, noise_pairs

        for scoring in (*(self.masked or ()), self.translation):
            if scoring is not None:
                scorer_loader(scoring)
        clean = [(source, target) for source, target in read_parallel(self.clean)]
        if len(clean) < SVM_FOLDS:  # told before hours of counting
            raise DataError(
                f"{self.clean[0]} has {len(clean)} lines. Training needs {SVM_FOLDS} or more."
            )
        with atomic_folder(self.output) as folder:
            counts = self._counts()
            for one, name in zip(counts, COUNTS, strict=True):
                write_counts(one, folder / name)
            measures = self._measures((folder / COUNTS[0], folder / COUNTS[1]))
            dependences = {name: one.dependence() for name, one in self._sums(measures).items()}
            noisy = noise_pairs(clean, measures, counts, self.seed, self.copies)
            features, others = (measures.features(pairs, dependences) for pairs in (clean, noisy))
            classifier, right = train_classifier(
                features, others, measures.names, self.penalty, self.seed
            )
            signature = self._signature(len(clean), right)
            PairFilter(measures, dependences, classifier).write(folder, signature)
        self._tell(measures.names, features, others, classifier.weights, right)
        return 0

    def _measures(self, counts: Paths) -> Measures:
        from fairseq_ssl.learned_filter.features import Measures

        return Measures(
            vectors=self.vectors,
            counts=counts,
            smoothing=self.smoothing,
            tokenizers=self.tokenizers,
            masked=self.masked,
            translation=self.translation,
            subwords=self.subwords,
        )

    def _counts(self) -> list[Counter[str]]:
        """Return how often each word of both sides comes."""
        if self.counts is not None:
            return [read_counts(path) for path in self.counts]
        from fairseq_ssl.learned_filter.features import WordCounting

        work = WordCounting(self._measures(self.bitext))
        totals: list[Counter[str]] = [Counter(), Counter()]
        tell = progress("filter learned fit: counting", "blocks")
        for found in self.engine.ordered(work, pair_blocks(*self.bitext)):
            for total, one in zip(totals, found, strict=True):
                total.update(one)
            tell(1)
        if not all(totals):
            raise DataError(f"{self.bitext[0]} or {self.bitext[1]} has no words.")
        return totals

    def _sums(self, measures: Measures) -> dict[str, Sums]:
        """Return what PHSIC learns of the bitext."""
        from fairseq_ssl.learned_filter.features import Learning

        totals: dict[str, Sums] = {}
        if not measures.embedded:
            return totals
        tell = progress("filter learned fit: PHSIC", "blocks")
        for found in self.engine.ordered(Learning(measures), pair_blocks(*self.bitext)):
            for name, sums in found.items():
                if name in totals:
                    totals[name].add(sums)
                else:
                    totals[name] = sums
            tell(1)
        if not totals:
            raise DataError(f"{self.bitext[0]} is empty. Expected a bitext.")
        return totals

    def _signature(self, clean: int, right: float) -> dict[str, Any]:
        return {
            "method": "filter-learned-fit",
            "version": __version__,
            "bitext": list(map(str, self.bitext)),
            "clean": list(map(str, self.clean)),
            "clean_pairs": clean,
            "copies": self.copies,
            "penalty": self.penalty,
            "seed": self.seed,
            "right": round(right, 4),
        }

    def _tell(
        self, names: Sequence[str], clean: Values, noisy: Values, weights: Values, right: float
    ) -> None:
        columns = zip(names, clean.mean(0), noisy.mean(0), weights, strict=True)
        for name, of_clean, of_noisy, weight in columns:
            print(
                f"{name}: {of_clean:.4g} of clean pairs, {of_noisy:.4g} of noisy ones, weight "
                f"{weight:.3f}",
                file=sys.stderr,
            )
        print(
            f"{right:.1%} of {len(clean)} clean and {len(noisy)} noisy pairs are told right by "
            f"what is learned from others\nwrote {self.output}",
            file=sys.stderr,
        )


@dataclass(frozen=True)
class Apply:
    """Scores pairs, and keeps the best."""

    filter: Path
    pairs: Paths
    keep: float
    kept: Paths
    scores: Path
    computing: Mapping[str, Any]
    engine: Executor
    afresh: bool

    def run(self) -> int:
        """Score all, find the threshold, write what is kept."""
        from fairseq_ssl.learned_filter.classifier import kth_largest
        from fairseq_ssl.learned_filter.pair_filter import FILTER

        filter_json = self.filter / FILTER
        task = {
            "filter": str(self.filter),
            "filter_is": file_fingerprint(filter_json) if filter_json.exists() else None,
            "inputs": list(map(str, self.pairs)),
            "inputs_are": [file_fingerprint(path) for path in self.pairs],
            "half": self.computing["fp16"],
            "version": __version__,
        }
        scoring = PairScores([self.scores], task, self.afresh, False, apply=self)
        scoring.make(sys.stdout.buffer)
        count = sum(map(len, self.numbers()))
        if not count:
            raise DataError(f"{self.pairs[0]} is empty. Expected a pair or more.")
        most = max(1, round(count * self.keep / 100))
        least, equals = kth_largest(self.numbers, most)
        chosen = {**task, "scores": str(self.scores), "keep": self.keep, "threshold": least}
        found = KeptPairs(
            self.kept, chosen, self.afresh, False, apply=self, least=least, equals=equals
        )
        if found.make(sys.stdout.buffer):
            print(
                f"kept {most} of {count} pairs, those with a score of {least:.6g} or more",
                file=sys.stderr,
            )
        return 0

    def numbers(self) -> Iterator[NDArray[np.float64]]:
        """Yield the scores."""
        with open_text(self.scores) as file:
            for block in row_blocks([file], [str(self.scores)]):
                yield np.array(block.data[0].split(), np.float64)


@dataclass
class PairScores(GrowingJob):
    """Writes a score of each pair."""

    apply: Apply = field(kw_only=True)
    positions: list[int] = field(default_factory=lambda: [0, 0])
    done: int = 0

    def go_on(self, state: Mapping[str, Any]) -> int:
        """Go to the first pair without a score."""
        self.positions, self.done = list(state["positions"]), state["done"]
        return self.done

    def pieces(self) -> Iterator[tuple[Sequence[bytes], Mapping[str, Any]]]:
        """Score what is left, block after block."""
        from fairseq_ssl.learned_filter.pair_filter import PairFilter, PairScoring

        work = PairScoring(PairFilter.read(self.apply.filter, self.apply.computing))
        tell = progress("filter learned apply", "pairs")
        for done in self.apply.engine.ordered(work, self._blocks()):
            self.positions = list(done.ends)
            self.done += done.count
            tell(done.count, done.share or None)
            yield done.outputs, {"positions": self.positions, "done": self.done}

    def signature(self) -> Signature:
        """Return what was done."""
        return Signature("filter-learned-scores", {**self.told, "pairs": self.done})

    def _blocks(self) -> Iterator[PairBlock]:
        with ExitStack() as stack:
            files = [stack.enter_context(open_text(path)) for path in self.apply.pairs]
            names = [str(path) for path in self.apply.pairs]
            for block in row_blocks(files, names, self.positions, self.done + 1):
                yield PairBlock(**vars(block))


@dataclass
class KeptPairs(GrowingJob):
    """Writes the pairs whose scores are high enough."""

    apply: Apply = field(kw_only=True)
    least: float = field(kw_only=True)
    equals: int = field(kw_only=True)
    """How many with just the least score are kept, the first ones."""
    positions: list[int] = field(default_factory=lambda: [0, 0, 0])
    lines: int = 0
    kept: int = 0

    def go_on(self, state: Mapping[str, Any]) -> int:
        """Go to the first line that is not looked at."""
        self.positions, self.lines, self.kept, self.equals = state["at"]
        return self.lines

    def pieces(self) -> Iterator[tuple[Sequence[bytes], Mapping[str, Any]]]:
        """Look at what is left, block after block."""
        files = (*self.apply.pairs, self.apply.scores)
        compressed = [path.suffix == ".gz" for path in self.outputs]
        with ExitStack() as stack:
            opened = [stack.enter_context(open_text(path)) for path in files]
            names = [str(path) for path in files]
            for block in row_blocks(opened, names, self.positions, self.lines + 1):
                scores = np.array(block.raw_lines(2), np.float64)
                level = scores == self.least
                kept = (scores > self.least) | (level & (np.cumsum(level) <= self.equals))
                self.equals -= int(kept[level].sum())
                places = np.flatnonzero(kept).tolist()
                sides = [block.raw_lines(side) for side in (0, 1)]
                made = [b"".join(lines[place] + b"\n" for place in places) for lines in sides]
                self.positions, self.lines = list(block.ends), self.lines + block.count
                self.kept += len(places)
                at = self.positions, self.lines, self.kept, self.equals
                yield (
                    [compress_chunk(data, gz) for data, gz in zip(made, compressed, strict=True)],
                    {"at": at},
                )

    def signature(self) -> Signature:
        """Return what was done."""
        return Signature(
            "filter-learned-apply", {**self.told, "pairs": self.lines, "kept": self.kept}
        )
