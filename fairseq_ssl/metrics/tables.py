"""Scores of systems over seeds, significance tests, and scores by level or error type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.io.text_files import COMPRESSIONS, path_list, read_lines, stdin_lines
from fairseq_ssl.metrics.errant import (
    TIERS,
    UNKNOWN_TYPE,
    Errant,
    TypedCounts,
    TypeTotals,
    count_categories,
    edit_statistics,
    errant_scores,
)
from fairseq_ssl.metrics.metric import (
    SAMPLES,
    SEED,
    BootstrapResult,
    Metric,
    SeedRange,
    SentenceStatistics,
    bootstrap_statistics,
    check_lengths,
)
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.m2 import M2Sentence, main_type

MOST_FREQUENT = 10
"""Maximum number of error types in figures and in the table of gold edit types."""
M2_SUFFIXES = (".m2", *(f".m2{suffix}" for suffix in COMPRESSIONS))
STDIN = Path("-")

Levels = dict[str, list[int]]
"""Sentence indices by level, a named subset of the test set."""


@dataclass
class ScoredOutput:
    """Sentence statistics for a hypothesis file."""

    rows: SentenceStatistics
    typed: list[TypedCounts] | None = None
    """Edit counts of each sentence by type, for ERRANT."""


@dataclass
class ScoreBreakdown:
    """Score table with one row per level (test set subset) or error type."""

    key: str
    """Kind of the rows, such as ``levels``, which is also the table's key in JSON."""
    unit: str
    """Name of the score in the cells."""
    columns: list[str]
    """Column names: systems, or levels if `key` is ``shares``."""
    rows: dict[str, list[SeedRange | None]]
    """Scores by row name, one per column. A score is None if no edit has the error type."""
    counts: dict[str, list[list[TypeTotals]]] = field(default_factory=dict)
    """Edit counts of each row, by column and seed. Empty unless the rows are error types."""

    def figure_rows(self) -> dict[str, list[SeedRange | None]]:
        """Return the rows to plot: all rows, or the most frequent error types in the gold edits."""
        if not self.counts:
            return self.rows
        kinds = [kind for kind in self.rows if _gold_edits(self.counts[kind])]
        return {kind: self.rows[kind] for kind in kinds[:MOST_FREQUENT]}

    def table(self, is_single: bool) -> tuple[list[str], list[list[str]]]:
        """Return header and rows as text. If `is_single`, error type rows include edit counts."""
        if not (self.counts and is_single):
            rows = [
                [name, *(str(scores or "n/a") for scores in row)] for name, row in self.rows.items()
            ]
            return [f"{self.unit} by {self.key}", *self.columns], rows
        rows = []
        for name, ((counts,),) in self.counts.items():
            precision, recall, _ = (f"{100 * score:.2f}" for score in errant_scores(counts))
            rows.append([name, *map(str, counts), precision, recall, str(self.rows[name][0])])
        return [self.key, "TP", "FP", "FN", "Precision", "Recall", self.unit], rows

    def content(self) -> dict[str, Any]:
        """Return the table as a JSON-serializable dict."""
        content: dict[str, Any] = {
            name: {
                column: _range_content(scores)
                for column, scores in zip(self.columns, row, strict=True)
            }
            for name, row in self.rows.items()
        }
        for name, systems in self.counts.items():
            for column, seeds in zip(self.columns, systems, strict=True):
                content[name][column] |= dict(
                    zip(("tp", "fp", "fn"), map(list, zip(*seeds, strict=True)), strict=True)
                )
                for at, score in enumerate(("precision", "recall")):
                    content[name][column][score] = [
                        100 * errant_scores(seed)[at] if any(seed) else None for seed in seeds
                    ]
        return content


@dataclass
class SystemScores:
    """Scores of one or more systems with one metric, and optional analyses."""

    metric: Metric
    systems: dict[str, list[ScoredOutput]]
    """Outputs by system, one per seed."""
    breakdown: ScoreBreakdown | None = None
    """Result of `analyze`, or None if it has not been called."""
    comparisons: dict[str, BootstrapResult] = field(default_factory=dict)
    """Results of `compare`: the difference between each system and the baseline."""
    parameters: dict[str, Any] = field(default_factory=dict)
    """Signature parameters added by `compare`."""
    name: str = ""
    """Name of a single system, or "" if there are several or if the name is only its file path."""

    @property
    def is_single(self) -> bool:
        """True if there is one system with one seed."""
        return len(self.systems) == 1 and len(next(iter(self.systems.values()))) == 1

    @property
    def sentences(self) -> int:
        """Number of sentences in the test set."""
        return len(next(iter(self.systems.values()))[0].rows)

    def compare(self, baseline: Sequence[ScoredOutput], resamples: int | None = None) -> None:
        """Compare each system with a baseline in a paired bootstrap.

        Args:
            baseline: outputs of the baseline, one per seed
            resamples: number of bootstrap samples (default: 1000)
        """
        resamples = SAMPLES if resamples is None else resamples
        self.parameters |= {"resamples": resamples, "seed": SEED}
        theirs = [output.rows for output in baseline]
        for name, outputs in self.systems.items():
            ours = [output.rows for output in outputs]
            score = self.metric.total_score
            self.comparisons[name] = bootstrap_statistics(ours, theirs, score, resamples)

    def analyze(self, by: str, levels: Levels | None = None) -> None:
        """Compute scores by level or by error type, and store them in `breakdown`.

        Args:
            by: ``level``, ``share`` (percentages of gold edits by type), or a key of `TIERS`
            levels: sentence indices by level (default: one level with all sentences)
        """
        levels = {"all": list(range(self.sentences))} if levels is None else levels
        if by == "level":
            self._analyze_levels(levels)
            return
        metric = self.metric
        if not isinstance(metric, Errant):
            raise UsageError(
                f"`by` is {by}, which needs the metric errant, but the metric is {metric.method}. "
                "Use errant, or set `by` to level."
            )
        if by in TIERS:
            self._analyze_categories(by, metric.beta)
        else:
            self._analyze_gold_types(metric.gold, levels)

    def _analyze_levels(self, levels: Levels) -> None:
        """Score the sentences of each level."""
        name = self.metric.name
        self.breakdown = ScoreBreakdown("levels", name, list(self.systems), {})
        for level, indices in levels.items():
            self.breakdown.rows[level] = [
                SeedRange([self.metric.values(seed.rows[indices])[name] for seed in seeds])
                for seeds in self.systems.values()
            ]

    def _analyze_categories(self, tier: str, beta: float) -> None:
        """Score each error type. The most frequent types in the gold edits come first."""
        categories = [
            [count_categories(output.typed or (), tier) for output in outputs]
            for outputs in self.systems.values()
        ]
        kinds = {kind for seeds in categories for seed in seeds for kind in seed}
        counts = {
            kind: [[seed.get(kind, (0, 0, 0)) for seed in seeds] for seeds in categories]
            for kind in kinds
        }
        key = f"{tier.replace('-', ' ')}s"
        self.breakdown = ScoreBreakdown(key, self.metric.name, list(self.systems), {})
        for kind in sorted(kinds, key=lambda kind: (-_gold_edits(counts[kind]), kind)):
            self.breakdown.counts[kind] = counts[kind]
            self.breakdown.rows[kind] = [_type_scores(seeds, beta) for seeds in counts[kind]]

    def _analyze_gold_types(self, gold: Sequence[M2Sentence], levels: Levels) -> None:
        """Compute the percentage of each frequent error type among the gold edits of each level."""
        counts = {level: _gold_types(gold[n] for n in indices) for level, indices in levels.items()}
        total = sum(counts.values(), Counter[str]())
        frequent = sorted(total, key=lambda kind: (-total[kind], kind))[:MOST_FREQUENT]
        self.breakdown = ScoreBreakdown("shares", "% of gold edits", list(levels), {})
        for kind in frequent:
            self.breakdown.rows[kind] = [
                SeedRange([100 * count[kind] / max(1, count.total())]) for count in counts.values()
            ]

    def values(self) -> dict[str, list[SeedRange]]:
        """Return the scores of each system over seeds, keyed by the metric's value names."""
        values = [
            [self.metric.values(output.rows) for output in outputs]
            for outputs in self.systems.values()
        ]
        return {
            name: [SeedRange([seed[name] for seed in seeds]) for seeds in values]
            for name in values[0][0]
        }

    def signature(self) -> Signature:
        """Return the metric's signature, with the line count and the parameters of `compare`."""
        parameters = {"lines": self.sentences, **self.metric.parameters(), **self.parameters}
        return Signature(self.metric.method, parameters)

    def content(self) -> dict[str, Any]:
        """Return the scores, analyses and signature as a JSON-serializable dict."""
        values = self.values()
        content: dict[str, Any]
        if self.is_single:
            content = {"system": self.name} if self.name else {}
            content |= {name: scores.mean for name, (scores,) in values.items()}
        else:
            content = {
                "systems": {
                    system: {name: _range_content(scores[at]) for name, scores in values.items()}
                    for at, system in enumerate(self.systems)
                }
            }
        if self.breakdown:
            content[self.breakdown.key] = self.breakdown.content()
        if self.comparisons:
            content["compared"] = self.metric.compared
            content["against the baseline"] = {
                name: asdict(result) for name, result in self.comparisons.items()
            }
        return {**content, "signature": str(self.signature())}


def system_files(systems: Mapping[str, Sequence[str | Path]]) -> dict[str, list[Path]]:
    """Return the files of each system as paths. Raise UsageError for a system without files."""
    files = {name: path_list(paths) for name, paths in systems.items()}
    for name, paths in files.items():
        if not paths:
            raise UsageError(f"The system {name} has no files. Expected one file per seed.")
    return files


def score_systems(
    metric: Metric,
    systems: Mapping[str, Sequence[str | Path]],
    baseline: Sequence[str | Path] = (),
    resamples: int | None = None,
) -> SystemScores:
    """Score files of hypotheses, one sentence per line.

    Args:
        metric: metric with its references or gold edits
        systems: files by system name, one per seed; `Errant` also accepts M2 files with a system's
            edits; ``-`` is stdin
        baseline: files of the system to compare with in a paired bootstrap, one per seed
        resamples: number of bootstrap samples (default: 1000)

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from fairseq_ssl.metrics import Accuracy
        >>> with TemporaryDirectory() as folder:
        ...     output = Path(folder, "output")
        ...     _ = output.write_text("a b")
        ...     scores = score_systems(Accuracy([["a b"]]), {"ours": [output]})
        >>> print(scores.values()["accuracy"][0])
        100.00
    """
    files, baseline = system_files(systems), path_list(baseline)
    if not files:
        raise UsageError("`systems` is empty. Expected at least one system.")
    paths = dict.fromkeys(chain(*files.values(), baseline))
    texts = {path: _read_output(path) for path in paths}
    outputs = _score_outputs(metric, texts)
    scores = SystemScores(
        metric, {name: [outputs[path] for path in paths] for name, paths in files.items()}
    )
    if scores.is_single:
        ((name, (path,)),) = files.items()
        scores.name = "" if Path(name) == path else name
    if baseline:
        scores.compare([outputs[path] for path in baseline], resamples)
    return scores


def _score_outputs(metric: Metric, texts: Mapping[Path, list[str]]) -> dict[Path, ScoredOutput]:
    if not isinstance(metric, Errant):
        return {
            path: ScoredOutput(metric.statistics(lines, str(path))) for path, lines in texts.items()
        }
    typed = metric.typed_counts_of_systems(
        {str(path): lines for path, lines in texts.items() if not path.name.endswith(M2_SUFFIXES)}
    )
    for path in texts:
        if path.name.endswith(M2_SUFFIXES):
            typed[str(path)] = metric.typed_counts_of_file(path)
    return {
        path: ScoredOutput(edit_statistics(typed[str(path)]), typed[str(path)]) for path in texts
    }


def _read_output(path: Path) -> list[str]:
    """Read the lines of a file, or of stdin for ``-``. Raise DataError if there are none."""
    lines = list(stdin_lines() if path == STDIN else read_lines(path))
    if not lines:
        raise DataError(f"{path} is empty. Expected at least one line.")
    return lines


def read_levels(path: Path, sentences: int) -> Levels:
    """Read a file with the level of each sentence. Return sentence indices by level."""
    levels: Levels = {}
    labels = [line.strip() for line in read_lines(path)]
    check_lengths(path, len(labels), "the output", sentences)
    for index, label in enumerate(labels):
        if not label:
            raise DataError(f"{path}:{index + 1} is blank. Expected a level on each line.")
        levels.setdefault(label, []).append(index)
    return dict(sorted(levels.items()))


def _gold_types(sentences: Iterable[M2Sentence]) -> Counter[str]:
    """Count the gold edits of all annotators by main type, without edits of the type UNK."""
    return Counter(
        main_type(edit.type)
        for sentence in sentences
        for edits in sentence.annotators.values()
        for edit in edits
        if edit.type != UNKNOWN_TYPE
    )


def _gold_edits(systems: Sequence[Sequence[TypeTotals]]) -> int:
    """Return the number of gold edits of one error type, summed over systems and seeds."""
    return sum(correct + missing for seeds in systems for correct, _, missing in seeds)


def _type_scores(seeds: Sequence[TypeTotals], beta: float) -> SeedRange | None:
    """Return an error type's F scores for seeds with edits of this type, or None if there are none.

    The F score without edits is 100, so seeds without such edits would raise the mean.
    """
    scores = [100 * errant_scores(seed, beta)[2] for seed in seeds if any(seed)]
    return SeedRange(scores) if scores else None


def _range_content(scores: SeedRange | None) -> dict[str, Any]:
    if scores is None:
        return {"mean": None, "std": None, "seeds": []}
    return {"mean": scores.mean, "std": scores.std, "seeds": list(scores.values)}
