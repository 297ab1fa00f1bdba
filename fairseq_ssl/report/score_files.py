"""Collect outputs, scores and figures from folders, and parse the score files in them."""

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
from fairseq_ssl.io.text_files import path_list, read_json
from fairseq_ssl.metrics.gleu import OF_SINGLE
from fairseq_ssl.metrics.metric import BootstrapResult, SeedRange

LOWER = re.compile(r"error|wrong|loss|perplexity|misclassif|\b[twc]er\b|seconds", re.IGNORECASE)
"""Pattern for the names of lower-is-better metrics."""
COUNTS = re.compile(r"deviation|^(lines|sentences|samples|seeds|effective order)$", re.IGNORECASE)
"""Pattern for the names of values for which neither higher nor lower is better, such as counts."""
DIGITS = re.compile(r"\d+")
BOOTSTRAP = ("resamples:", "seed:")
"""Prefixes of signature parameters for baseline comparisons, which do not change the scores."""
AGAINST = "against the baseline"
"""Key of baseline comparisons in score files."""
LARGEST = 1e100
"""Upper limit for absolute values in score files. It keeps standard deviations finite."""
BREAKDOWNS = {
    "operations": "operation",
    "types": "type",
    "full types": "full type",
    "levels": "level",
    "shares": "share",
}
"""Labels of breakdowns on the page, by their keys in score files."""


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
    """Seed in the folder name of the score file, such as 1 for tagged.1."""


@dataclass(frozen=True)
class ScoreComparison:
    """Differences between the scores of systems and a baseline."""

    title: str
    differences: dict[str, BootstrapResult]
    """Difference from the baseline, by system."""
    lower_is_better: bool = False


Breakdown = dict[str, dict[str, SeedRange]]
"""Scores by row, such as a proficiency level or an error type, then by system."""


def metric_direction(metric: str) -> int:
    """Return 1 if higher is better, -1 if lower is better, 0 if neither."""
    if COUNTS.search(metric):
        return 0
    return -1 if LOWER.search(metric) else 1


def parse_scores(content: Any, test_set: str, system: str) -> Iterator[ReportedScore]:
    """Yield the scores in a score file. Other JSON content yields nothing.

    Args:
        content: JSON from sacreBLEU, `fairseq-ssl score` or `fairseq-ssl classify score`.
        test_set: name of the test set.
        system: system name if the file contains none.
    """
    if isinstance(content, list):
        for part in content:
            yield from parse_scores(part, test_set, system)
    if not isinstance(content, dict) or "signature" not in content:
        return
    parts = str(content["signature"]).split("|")
    signature = "|".join(part for part in parts if not part.startswith(BOOTSTRAP))
    for name, metric, values in _values(content, system):
        metric = metric_name(metric, signature)
        yield ReportedScore(name, test_set, metric, values, signature)


def _values(content: dict[str, Any], system: str) -> Iterator[tuple[str, str, tuple[float, ...]]]:
    """Yield a system, a metric and the values for each seed from the JSON content of a file."""
    if isinstance(content.get("system"), str):
        system = content["system"]
    if isinstance(content.get("systems"), dict):
        for name, metrics in content["systems"].items():
            for metric, scores in _seed_ranges(metrics).items():
                yield name, metric, tuple(scores.values)
    elif _is_number(content.get("score")):
        yield system, str(content.get("name", "score")), (float(content["score"]),)
    else:
        parameters = str(content["signature"]).split("|")
        for metric, value in content.items():
            if _is_number(value) and f"{metric}:{value}" not in parameters:
                yield system, metric, (float(value),)


def parse_comparisons(content: Any, name: str) -> Iterator[ScoreComparison]:
    """Yield the baseline comparisons in a score file named `name`."""
    if not isinstance(content, dict):
        return
    differences = _parse_differences(content.get(AGAINST))
    if differences:
        of = f"{OF_SINGLE} " if content.get("compared") == OF_SINGLE else ""
        yield ScoreComparison(f"{name}: {of}{AGAINST}", differences)
    against = {
        system: scores["against"]
        for system, scores in _items(content.get("systems"))
        if isinstance(scores, dict) and isinstance(scores.get("against"), dict)
    }
    for baseline in dict.fromkeys(str(row.get("baseline")) for row in against.values()):
        compared = {name: row for name, row in against.items() if row.get("baseline") == baseline}
        if differences := _parse_differences(compared):
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
    """Return a metric's display name, with the method in front if the name does not contain it."""
    method = signature.partition("|")[0].removeprefix("classify-score")
    metric = metric.replace("_", " ") if metric.islower() else metric
    if not method or ":" in method or " " in method:
        return metric
    if any(method.lower() in name for name in (metric.lower(), DIGITS.sub("", metric.lower()))):
        return metric  # compared without digits, since the score of the method chrf++ is chrF2++
    return f"{method} {metric}"


def _items(content: Any) -> list[tuple[str, Any]]:
    return list(content.items()) if isinstance(content, Mapping) else []


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and isfinite(value) and abs(value) < LARGEST


def _seed_ranges(columns: Any) -> dict[str, SeedRange]:
    """Parse the seed scores of each column (metric or system). Skip columns without seed scores."""
    ranges = {}
    for name, content in _items(columns):
        seeds = _items(content) and content.get("seeds", content.get("values"))
        if isinstance(seeds, list) and seeds and all(map(_is_number, seeds)):
            ranges[name] = SeedRange(list(map(float, seeds)))
    return ranges


def _parse_differences(content: Any) -> dict[str, BootstrapResult]:
    differences = {}
    for system, row in _items(content):
        if not isinstance(row, dict):
            continue
        interval = row.get("interval", [row.get("low"), row.get("high")])
        if not isinstance(interval, list) or len(interval) != 2:
            continue
        numbers = [row.get("difference"), *interval, row.get("p")]
        if all(map(_is_number, numbers)):
            differences[system] = BootstrapResult(*map(float, numbers))
    return differences


SEED_PATTERN = re.compile(r"(?P<system>.+)(?<!\D0)\.(?P<seed>\d[\d+]*)")
"""Pattern for SYSTEM.SEED. It does not match decimals below 1, as in noise0.1."""
OUTPUT, FIGURES = ".txt", (".png", ".svg", ".jpg", ".jpeg")


@dataclass
class ReportFiles:
    """Outputs, scores, figures and analyses in one or more folders."""

    scores: list[ReportedScore] = field(default_factory=list)
    outputs: dict[tuple[str, str], list[Path]] = field(default_factory=dict)
    """Outputs by system and test set, one file for each seed."""
    analyses: dict[str, Any] = field(default_factory=dict)
    """Contents of JSON files without scores, by name."""
    figures: dict[str, Path] = field(default_factory=dict)
    """Figure files by name."""
    left_out: list[Path] = field(default_factory=list)
    """Figures in formats that an HTML page cannot embed (PDF)."""
    links: list[Path] = field(default_factory=list)
    """Links to files outside the folder. They are skipped, since the page may be published."""
    comparisons: list[ScoreComparison] = field(default_factory=list)
    breakdowns: dict[str, Breakdown] = field(default_factory=dict)
    """Score breakdowns, by name. The rows of a breakdown are, for example, error types."""

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
    """Collect the files in folders, sorted by name.

    | file in a folder | content |
    | --- | --- |
    | `SYSTEM.SEED/SET.txt` | output of a system for a test set |
    | `SYSTEM.SEED/SET.METRIC.json` | scores of this output |
    | `SET.METRIC.json` | scores of several systems, from `fairseq-ssl score` |

    `.SEED` and `.METRIC` are optional. Figures and other JSON files are next to the outputs and
    scores. If several folders contain a system, a comparison or a breakdown with the same name, the
    folder name is prepended.
    """
    folders = path_list(folders)
    by_folder = [_collect_folder(folder) for folder in folders]
    names = Counter(
        name
        for part in by_folder
        for name in {*part.names(), *part.breakdowns, *(row.title for row in part.comparisons)}
    )
    files = ReportFiles()
    for folder, part in zip(_folder_names(folders), by_folder, strict=True):

        def unique_name(system: str, folder: str = folder) -> str:
            return system if names[system] == 1 else f"{folder}/{system}"

        files.scores += [replace(score, system=unique_name(score.system)) for score in part.scores]
        files.outputs |= {
            (unique_name(system), test_set): paths
            for (system, test_set), paths in part.outputs.items()
        }
        files.analyses |= {f"{folder}/{name}": data for name, data in part.analyses.items()}
        files.figures |= {f"{folder}/{name}": path for name, path in part.figures.items()}
        files.breakdowns |= {unique_name(name): table for name, table in part.breakdowns.items()}
        files.comparisons += [
            replace(row, title=unique_name(row.title)) for row in part.comparisons
        ]
        files.left_out += part.left_out
        files.links += part.links
    return files


def _folder_names(folders: Sequence[Path]) -> list[str]:
    """Return folder names, with as many parent folders as are needed to make them distinct."""
    resolved = [folder.resolve() for folder in folders]
    for folder in (folder for folder in resolved if resolved.count(folder) > 1):
        raise UsageError(f"The folder {folder} is passed twice. Pass each folder once.")
    paths = list(map(_absolute, folders))
    size = 1
    while len({path.parts[-size:] for path in paths}) < len(paths):
        size += 1
    return ["/".join(path.parts[-size:]) for path in paths]


def _absolute(path: Path) -> Path:
    """Return the normalized absolute path, without resolving symbolic links."""
    return Path(os.path.normpath(path.absolute()))


def parse_run_name(folder: Path) -> tuple[str, str]:
    """Split a folder name, such as tagged.1, into system and seed. A missing seed is ""."""
    name = _absolute(folder).name
    parts = SEED_PATTERN.fullmatch(name)
    return (name, "") if parts is None else (parts["system"], parts["seed"])


def _collect_folder(folder: Path) -> ReportFiles:
    files = ReportFiles()
    if not folder.is_dir():
        raise DataError(
            f"{folder} is not a folder. Expected a folder with outputs or scores. To compare an "
            "output file, pass it with the name of its system."
        )
    root = folder.resolve()
    paths: list[Path] = []
    every = (path for pattern in ("*", "*/*") for path in folder.glob(pattern))
    for path in sorted(every, key=lambda path: (*parse_run_name(path.parent), path)):
        if path.is_file() and not path.name.startswith("."):
            is_inside = path.resolve().is_relative_to(root)
            (paths if is_inside else files.links).append(path)
    test_sets = {path.stem for path in paths if path.suffix.lower() == OUTPUT}
    located: list[tuple[ReportedScore, Path]] = []
    for path in paths:
        name, suffix = path.relative_to(folder), path.suffix.lower()
        if suffix == OUTPUT:
            system, _ = parse_run_name(path.parent)
            files.outputs.setdefault((system, path.stem), []).append(path)
        elif suffix == ".json":
            scores = _read_json(files, path, name, _test_set(path.name, test_sets))
            located += [(score, path) for score in scores]
        elif suffix in FIGURES:
            files.figures[str(name.with_suffix(""))] = path
        elif suffix == ".pdf":
            files.left_out.append(path)
    _check_scores(located)
    files.scores = [score for score, _ in located]
    return files


def _test_set(name: str, test_sets: Collection[str]) -> str:
    """Return the longest test set that begins a file name, or the name up to its first dot."""
    parts = name.split(".")
    names = (".".join(parts[:end]) for end in range(len(parts) - 1, 0, -1))
    return next((name for name in names if name in test_sets), parts[0])


def _read_json(files: ReportFiles, path: Path, name: Path, test_set: str) -> list[ReportedScore]:
    """Return a file's scores. Add its comparisons, breakdowns or unknown content to `files`."""
    content = read_json(path)
    system, seed = parse_run_name(path.parent)
    label = str(name.with_suffix(""))
    scores = [replace(score, seed=seed) for score in parse_scores(content, test_set, system)]
    files.comparisons += parse_comparisons(content, label)
    files.breakdowns |= parse_breakdowns(content, label)
    if not scores:
        files.analyses[str(name)] = content
    return scores


def _check_scores(located: Iterable[tuple[ReportedScore, Path]]) -> None:
    """Raise DataError if files have different scores for the same system, seed, set and metric."""
    known: dict[tuple[ReportedScore, int], tuple[tuple[float, ...], Path]] = {}
    for score, path in located:
        key = replace(score, values=()), len(score.values)
        values, other = known.setdefault(key, (score.values, path))
        if values != score.values:
            raise DataError(
                f"{other} and {path} contain different scores of {score.system} on the test set "
                f"{score.test_set}. Expected files named SYSTEM.SEED/SET.METRIC.json that differ "
                "in the system, the seed or the test set."
            )
