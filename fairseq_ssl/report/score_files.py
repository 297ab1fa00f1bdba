"""Collect and parse score files of recipes and of `fairseq-ssl score`, and build score tables."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from pathlib import Path
from typing import Any

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.io.text_files import parse_json, path_list
from fairseq_ssl.metrics.gleu import OF_SINGLE
from fairseq_ssl.metrics.metric import BootstrapResult, SeedRange

LOWER = re.compile(r"error|wrong|loss|perplexity|misclassif|\b[twc]er\b|seconds", re.IGNORECASE)
"""Pattern of metric names for which lower values are better."""
COUNTS = re.compile(r"deviation|^(lines|sentences|samples|seeds|effective order)$", re.IGNORECASE)
"""Pattern of the names of values for which neither higher nor lower is better."""
DIGITS = re.compile(r"\d+")
BOOTSTRAP = ("resamples:", "seed:")
"""Parameters of a comparison with a baseline in signatures. They do not change the scores."""
LARGEST = 1e100
"""Limit of absolute values in score files, so that standard deviations are finite."""
BREAKDOWNS = {
    "operations": "operation",
    "types": "type",
    "full types": "full type",
    "levels": "level",
    "shares": "share",
}
"""Keys of breakdowns in score files, and their names on the page."""


@dataclass(frozen=True)
class ReportedScore:
    """A score of a system on a test set."""

    system: str
    test_set: str
    metric: str
    values: tuple[float, ...]
    """One value for each seed."""
    signature: str
    seed: str = ""
    """Seed in the name of the score file's folder, such as 1 for tagged.1."""
    has_all_seeds: bool = False
    """True if the score file lists all seeds of each system."""


@dataclass(frozen=True)
class ScoreComparison:
    """Differences between the scores of systems and a baseline."""

    title: str
    differences: dict[str, BootstrapResult]
    """Difference to the baseline, by system."""
    lower_is_better: bool = False


Breakdown = dict[str, dict[str, SeedRange]]
"""Scores by row, such as a proficiency level or an error type, and then by system."""


def metric_direction(metric: str) -> int:
    """Return 1 if higher is better, -1 if lower is better, 0 if neither."""
    if COUNTS.search(metric):
        return 0
    return -1 if LOWER.search(metric) else 1


def parse_scores(content: Any, test_set: str, system: str) -> Iterator[ReportedScore]:
    """Yield the scores of a score file. Other JSON yields nothing.

    Args:
        content: JSON of sacreBLEU, `fairseq-ssl score` or `fairseq-ssl classify score`.
        test_set: name of the test set.
        system: name of the system if the file does not name it.
    """
    if isinstance(content, list):
        for part in content:
            yield from parse_scores(part, test_set, system)
    if not isinstance(content, dict) or "signature" not in content:
        return
    parts = str(content["signature"]).split("|")
    signature = "|".join(part for part in parts if not part.startswith(BOOTSTRAP))
    has_all_seeds = isinstance(content.get("systems"), dict)
    for name, metric, values in _values(content, system):
        metric = metric_name(metric, signature)
        yield ReportedScore(name, test_set, metric, values, signature, has_all_seeds=has_all_seeds)


def _values(content: dict[str, Any], system: str) -> Iterator[tuple[str, str, tuple[float, ...]]]:
    """Yield the system, the metric and the values of all seeds for each score in a file."""
    if isinstance(content.get("system"), str):
        system = content["system"]
    if isinstance(content.get("systems"), dict):
        for name, metrics in content["systems"].items():
            for metric, scores in _seed_ranges(metrics).items():
                yield name, metric, scores.values
    elif _is_number(content.get("score")):
        yield system, str(content.get("name", "score")), (float(content["score"]),)
    else:
        for metric, value in content.items():
            if _is_number(value):
                yield system, metric, (float(value),)


def parse_comparisons(content: Any, name: str) -> Iterator[ScoreComparison]:
    """Yield the comparisons of systems with a baseline in a score file named `name`."""
    if not isinstance(content, dict):
        return
    differences = _parse_differences(content.get("against the baseline"))
    if differences:
        of = f"{OF_SINGLE} " if content.get("compared") == OF_SINGLE else ""
        yield ScoreComparison(f"{name}: {of}against the baseline", differences)
    against = {
        system: scores["against"]
        for system, scores in _items(content.get("systems"))
        if isinstance(scores, dict) and isinstance(scores.get("against"), dict)
    }
    for baseline in dict.fromkeys(str(one.get("baseline")) for one in against.values()):
        others = {name: one for name, one in against.items() if one.get("baseline") == baseline}
        if differences := _parse_differences(others):
            yield ScoreComparison(
                f"{name}: error against {baseline}", differences, lower_is_better=True
            )


def parse_breakdowns(content: Any, name: str) -> Iterator[tuple[str, Breakdown]]:
    """Yield the name and the content of each breakdown in a score file named `name`."""
    for key, part in BREAKDOWNS.items():
        rows = _items(content.get(key)) if isinstance(content, dict) else []
        table = {row: _seed_ranges(columns) for row, columns in rows}
        if any(table.values()):
            yield f"{name}: by {part}", table


def metric_name(metric: str, signature: str) -> str:
    """Return the name of a metric, with its method if needed, such as `errant F_0.5`."""
    method = signature.partition("|")[0].removeprefix("classify-score")
    metric = metric.replace("_", " ") if metric.islower() else metric
    if not method or ":" in method or " " in method:
        return metric
    if any(method.lower() in name for name in (metric.lower(), DIGITS.sub("", metric.lower()))):
        return metric  # compared without digits, since the method chrf++ has the score chrF2++
    return f"{method} {metric}"


def _items(content: Any) -> list[tuple[str, Any]]:
    return list(content.items()) if isinstance(content, Mapping) else []


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and isfinite(value) and abs(value) < LARGEST


def _seed_range(content: Any) -> SeedRange | None:
    """Parse the scores of several seeds, written by `score` or `classify score`.

    Return None for other JSON.
    """
    if not isinstance(content, dict):
        return None
    values = content.get("seeds", content.get("values"))
    if not (isinstance(values, list) and values and all(map(_is_number, values))):
        return None
    return SeedRange.of([float(value) for value in values])


def _seed_ranges(columns: Any) -> dict[str, SeedRange]:
    ranges = {name: _seed_range(content) for name, content in _items(columns)}
    return {name: scores for name, scores in ranges.items() if scores}


def _parse_differences(content: Any) -> dict[str, BootstrapResult]:
    differences = {}
    for system, one in _items(content):
        if not isinstance(one, dict):
            continue
        interval = one.get("interval", [one.get("low"), one.get("high")])
        if not isinstance(interval, list) or len(interval) != 2:
            continue
        numbers = [one.get("difference"), *interval, one.get("p")]
        if all(map(_is_number, numbers)):
            differences[system] = BootstrapResult(*map(float, numbers))
    return differences


SEED_PATTERN = re.compile(r"(?P<system>.+)\.(?P<seed>\d[\d+]*)")
OUTPUT, FIGURES = ".txt", (".png", ".svg", ".jpg", ".jpeg")


@dataclass
class ReportFiles:
    """Outputs, scores, figures and analyses of one or more folders."""

    scores: list[ReportedScore] = field(default_factory=list)
    outputs: dict[tuple[str, str], list[Path]] = field(default_factory=dict)
    """Outputs by system and test set, one file for each seed."""
    analyses: dict[str, Any] = field(default_factory=dict)
    """Content of other JSON files, by name."""
    figures: dict[str, Path] = field(default_factory=dict)
    """Figure files by name."""
    left_out: list[Path] = field(default_factory=list)
    """Figures in a format that a page cannot show."""
    links: list[Path] = field(default_factory=list)
    """Links to files outside the folder. They are skipped, since the page may be published."""
    comparisons: list[ScoreComparison] = field(default_factory=list)
    breakdowns: dict[str, Breakdown] = field(default_factory=dict)
    """Breakdowns of scores, such as by error type or by level, by name."""

    def names(self) -> set[str]:
        """Return the names of all systems."""
        return {score.system for score in self.scores} | {system for system, _ in self.outputs}

    def sets(self) -> list[str]:
        """Return the test sets that have outputs."""
        return sorted({name for _, name in self.outputs})

    def systems(self, test_set: str) -> dict[str, list[Path]]:
        """Return the output files of a test set by system, one file for each seed."""
        outputs = self.outputs.items()
        return {system: paths for (system, name), paths in outputs if name == test_set}

    def is_empty(self) -> bool:
        """Return True if there are no scores, outputs or figures. Analyses do not count."""
        return not (self.scores or self.outputs or self.figures)


def collect_files(folders: Sequence[str | Path]) -> ReportFiles:
    """Collect the files of folders and their subfolders, sorted by name.

    If several folders have a system, a comparison or a breakdown of scores of the same name, it is
    prefixed with the name of the folder. If a folder has the same file of a system and seed in
    several subfolders, the system is prefixed with the subfolder.
    """
    folders = path_list(folders)
    by_folder = [_collect_folder(folder) for folder in folders]
    names = Counter(
        name
        for found in by_folder
        for name in {*found.names(), *found.breakdowns, *(one.title for one in found.comparisons)}
    )
    files = ReportFiles()
    for folder, found in zip(_folder_names(folders), by_folder, strict=True):

        def unique_name(system: str, folder: str = folder) -> str:
            return system if names[system] == 1 else f"{folder}/{system}"

        files.scores += [replace(score, system=unique_name(score.system)) for score in found.scores]
        files.outputs |= {
            (unique_name(system), test_set): paths
            for (system, test_set), paths in found.outputs.items()
        }
        files.analyses |= {f"{folder}/{name}": data for name, data in found.analyses.items()}
        files.figures |= {f"{folder}/{name}": path for name, path in found.figures.items()}
        files.breakdowns |= {unique_name(name): one for name, one in found.breakdowns.items()}
        files.comparisons += [
            replace(one, title=unique_name(one.title)) for one in found.comparisons
        ]
        files.left_out += found.left_out
        files.links += found.links
    return files


def _folder_names(folders: Sequence[Path]) -> list[str]:
    """Return the name of each folder, with as many parents as make the names different."""
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise UsageError("A folder is passed twice. Expected different folders.")
    # The names of links, not of the folders that they lead to.
    paths = [Path(os.path.normpath(folder.absolute())) for folder in folders]
    size = 1
    while len({path.parts[-size:] for path in paths}) < len(paths):
        size += 1
    return ["/".join(path.parts[-size:]) for path in paths]


def _collect_folder(folder: Path) -> ReportFiles:
    files = ReportFiles()
    if not folder.is_dir():
        raise DataError(
            f"{folder} is not a folder. Expected a folder with outputs or scores. Pass the output "
            "file of a system with the name of the system."
        )
    root = folder.resolve()
    paths = sorted(_walk(folder), key=lambda path: (*parse_run_name(path.parent), path))
    repeated = _repeated_systems(paths)
    test_sets = {path.stem for path in paths if path.suffix.lower() == OUTPUT}
    for path in paths:
        name = path.relative_to(folder)
        if not path.resolve().is_relative_to(root):
            files.links.append(path)
            continue
        suffix = path.suffix.lower()
        system, _ = parse_run_name(path.parent)
        if system in repeated and path.parent != folder:
            system = str(name.parent.with_name(system))
        if suffix == OUTPUT:
            files.outputs.setdefault((system, path.stem), []).append(path)
        elif suffix == ".json":
            _add_json(files, path, name, system, test_sets)
        elif suffix in FIGURES:
            files.figures[str(name.with_suffix(""))] = path
        elif suffix == ".pdf":
            files.left_out.append(path)
    return files


def _repeated_systems(paths: Iterable[Path]) -> set[str]:
    """Return the systems of which a file of a seed is in several folders."""
    parents: dict[tuple[str, str, str], set[Path]] = {}
    for path in paths:
        parents.setdefault((*parse_run_name(path.parent), path.name), set()).add(path.parent.parent)
    return {system for (system, *_), folders in parents.items() if len(folders) > 1}


def parse_run_name(folder: Path) -> tuple[str, str]:
    """Split the name of a folder, such as tagged.1, into system and seed."""
    name = folder.resolve().name
    parts = SEED_PATTERN.fullmatch(name)
    return (name, "") if parts is None else (parts["system"], parts["seed"])


def _walk(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))


def _test_set(name: str, test_sets: Collection[str]) -> str:
    """Return the longest test set at the start of a file name, by default the first part."""
    parts = name.split(".")
    names = (".".join(parts[:end]) for end in range(len(parts) - 1, 0, -1))
    return next((name for name in names if name in test_sets), parts[0])


def _add_json(
    files: ReportFiles, path: Path, name: Path, system: str, test_sets: Collection[str]
) -> None:
    try:
        content = parse_json(path.read_bytes())
    except (OSError, ValueError):
        raise DataError(f"{path} is not JSON. Remove it or write it again.") from None
    run, seed = parse_run_name(path.parent)
    label = str(name.with_suffix(""))
    parsed = parse_scores(content, _test_set(path.name, test_sets), run)
    scores = [
        replace(score, system=system if score.system == run else score.system, seed=seed)
        for score in parsed
    ]
    files.scores += scores
    files.comparisons += parse_comparisons(content, label)
    files.breakdowns |= parse_breakdowns(content, label)
    if not scores:
        files.analyses[str(name)] = content


Column = tuple[str, str, str]
"""Test set, metric and signature. Scores with different signatures are in different columns."""


@dataclass(frozen=True)
class ScoreTable:
    """Table of scores with one row for each system."""

    columns: list[Column]
    rows: dict[str, list[SeedRange | None]]
    """Scores of each system by column, None for missing scores."""

    def signatures(self) -> list[str]:
        """Return the distinct signatures of the columns."""
        return list(dict.fromkeys(signature for *_, signature in self.columns))

    def headings(self) -> list[tuple[str, str]]:
        """Return the test set and the metric of each column.

        If columns differ only in the signature, its number is added, such as `BLEU [2]`.
        """
        counts = Counter(column[:2] for column in self.columns)
        numbers = {signature: number for number, signature in enumerate(self.signatures(), 1)}
        return [
            (
                test_set,
                metric if counts[test_set, metric] == 1 else f"{metric} [{numbers[signature]}]",
            )
            for test_set, metric, signature in self.columns
        ]

    def has(self, test_set: str, metric: str, systems: Iterable[str]) -> bool:
        """Return True if all systems have a score for this test set and metric."""
        key = test_set, metric
        columns = [index for index, column in enumerate(self.columns) if column[:2] == key]
        return all(
            any(self.rows[system][index] for index in columns) if system in self.rows else False
            for system in systems
        )


def score_table(scores: Iterable[ReportedScore]) -> ScoreTable:
    """Return a table of scores, with systems in the order of the scores.

    Several scores with one value each are the seeds of a system, unless their files list all seeds
    of each system. A score with several values has all seeds. A seed can be both in the score file
    of its run and in a file of all systems. The scores of runs, other scores with one value and a
    score with all seeds are therefore not added up: those with the most seeds are used.
    """
    rows: dict[str, dict[Column, tuple[dict[str, float], list[float], list[float]]]] = {}
    for score in scores:
        column = (score.test_set, score.metric, score.signature)
        row = rows.setdefault(score.system, {})
        runs, others, together = row.setdefault(column, ({}, [], []))
        if score.seed and len(score.values) == 1:
            runs.setdefault(score.seed, score.values[0])  # a run can have two files of a score
        elif len(score.values) == 1 and not score.has_all_seeds:
            others.extend(score.values)
        elif len(score.values) > len(together):
            together[:] = score.values
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    columns.sort(key=lambda column: column[0])
    return ScoreTable(
        columns,
        {
            system: [
                SeedRange.of(_most_seeds(*row[column])) if column in row else None
                for column in columns
            ]
            for system, row in rows.items()
        },
    )


def _most_seeds(runs: dict[str, float], *others: list[float]) -> list[float]:
    return max(list(runs.values()), *others, key=len)


def best_scores(table: ScoreTable) -> list[float | None]:
    """Return the best mean of each column, or None if neither higher nor lower is better."""
    columns: Iterable[Sequence[SeedRange | None]] = zip(*table.rows.values(), strict=True)
    best: list[float | None] = []
    for (_, metric, _), column in zip(table.columns, columns, strict=True):
        means = [scores.mean for scores in column if scores]
        sign = metric_direction(metric)
        best.append(sign * max(sign * mean for mean in means) if sign and means else None)
    return best
