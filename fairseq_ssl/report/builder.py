"""Collect outputs, scores and figures, score the outputs, and write an HTML page."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairseq_ssl.errors import DataError, UsageError, check_choice
from fairseq_ssl.io.jobs import check_beside
from fairseq_ssl.io.outputs import atomic_lines
from fairseq_ssl.io.remote import as_path
from fairseq_ssl.io.text_files import convert_fields, optional_path, read_lines
from fairseq_ssl.metrics import Accuracy, Bleu, Chrf, Gleu, MaxMatch
from fairseq_ssl.metrics.metric import Metric, SentenceStatistics, bootstrap_statistics
from fairseq_ssl.metrics.tables import system_files
from fairseq_ssl.report.page import page_html, report_sections, score_table
from fairseq_ssl.report.score_files import (
    ReportedScore,
    ReportFiles,
    ScoreComparison,
    collect_files,
    metric_direction,
    metric_name,
)
from fairseq_ssl.report.sentences import (
    SOURCE,
    Sentences,
    annotator_texts,
    corrected_by_type,
    gold_errors,
)
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.m2 import read_m2

TITLE = "Systems side by side"
TEST_SET = "test"
"""Name of the default test set."""
MAX_NAMES = 10
"""Maximum number of names to list in an error message."""
METRICS: dict[str, Callable[[Sentences, Comparison], Metric]] = {
    "bleu": lambda texts, comparison: Bleu(texts.references, comparison.tokenize or "13a"),
    "chrf": lambda texts, _: Chrf(texts.references),
    "chrf++": lambda texts, _: Chrf(texts.references, word_order=2),
    "gleu": lambda texts, _: Gleu(texts.references, texts.source),
    "m2": lambda _, comparison: MaxMatch(comparison.gold or []),
    "accuracy": lambda texts, _: Accuracy(texts.references),
}
"""Functions that create the metric of a report, by the name that users choose."""
logger = logging.getLogger(__name__)

Statistics = Mapping[str, list[SentenceStatistics]]
"""Metric statistics of the sentences for each seed, by system."""


@dataclass(frozen=True)
class Comparison:
    """Settings for scoring: source, references, metric and baseline.

    Args:
        source: source file.
        references: reference files.
        gold: M2 file. It provides `source` and `references` unless they are set. The page then
            also shows error types and the errors that each system corrected.
        metric: one of `METRICS` (default: m2 if `gold` is set, gleu if `source` is similar to the
            outputs, otherwise bleu; without references, no metric).
        tokenize: sacreBLEU tokenizer, for bleu.
        baseline: system with which the other systems are compared (default: the best system).
    """

    source: str | Path | None = None
    references: Sequence[str | Path] = ()
    gold: str | Path | None = None
    metric: str | None = None
    tokenize: str | None = None
    baseline: str | None = None

    def __post_init__(self) -> None:
        convert_fields(self, ["source", "gold"], ["references"])
        if self.metric is not None:
            check_choice("metric", self.metric, tuple(METRICS))


def write_report(
    output: str | Path,
    folders: Sequence[str | Path] = (),
    systems: Mapping[str, Sequence[str | Path]] | None = None,
    *,
    test_set: str | None = None,
    comparison: Comparison | None = None,
    languages: tuple[str, str] = ("", ""),
) -> Signature:
    """Write an HTML page with scores, figures and sentences. Return its signature.

    Args:
        output: HTML file to write.
        folders: folders with outputs, scores, figures and analyses, as in `collect_files`.
        systems: output files of each system, one for each seed.
        test_set: test set whose sentences are shown, to which the files in `systems` belong
            (default: ``test`` if a folder contains it, otherwise the only test set).
        comparison: source, references, metric and baseline.
        languages: language codes of the source and of the outputs, for fonts and screen readers.
    """
    comparison = comparison or Comparison()
    files = collect_files(folders)
    outputs = system_files(systems or {})
    name_of_set = test_set or _default_set(
        [*files.sets(), *(score.test_set for score in files.scores)]
    )
    for name, paths in outputs.items():
        files.outputs.setdefault((name, name_of_set or ""), []).extend(paths)
    if files.is_empty():
        where = f" in {', '.join(map(str, folders))}" if folders else ""
        raise DataError(
            f"There are no outputs, scores or figures{where}. Expected folders with outputs named "
            "SYSTEM.SEED/SET.txt, or the name and the output files of each system."
        )
    texts = [comparison.source, comparison.gold, *comparison.references]
    texts += [path for paths in files.outputs.values() for path in paths]
    check_beside(as_path(output), map(optional_path, texts))
    chosen = _choose_set(files, test_set, comparison)
    parameters: dict[str, Any] = {"systems": len(files.names())}
    sentences = None
    if chosen is not None:
        sentences = _read_sentences(files.systems(chosen), comparison)
        sentences.languages = languages
        _add_scores(files, sentences, chosen, comparison)
        parameters |= {"set": chosen, "sentences": len(sentences.outputs[0])}
        parameters |= {"metric": sentences.metric, "tokenize": comparison.tokenize}
        parameters["baseline"] = comparison.baseline
    for path in files.left_out:
        logger.warning(
            "%s is skipped: browsers cannot embed PDF figures in a page. Save it as SVG.", path
        )
    for path in files.links:
        logger.warning("%s is skipped: it links to a file outside the folder. Copy the file.", path)
    signature = Signature("report", parameters)
    sections = report_sections(files, sentences)
    with atomic_lines(output) as file:
        file.write(page_html(TITLE, sections, str(signature), sentences))
    return signature


def _default_set(names: Sequence[str]) -> str | None:
    """Return `TEST_SET` if it is in `names`, or the only name. In all other cases, return None."""
    return TEST_SET if TEST_SET in names else names[0] if len(set(names)) == 1 else None


def _choose_set(files: ReportFiles, test_set: str | None, comparison: Comparison) -> str | None:
    """Return the test set whose sentences are shown, or None to show only scores."""
    names = files.sets()
    chosen = test_set or _default_set(names)
    if chosen is None and names:
        several = f"There are outputs for the test sets {_shorten(names)}"
        needs = comparison.source, comparison.references, comparison.gold, comparison.baseline
        if any(needs):
            raise UsageError(f"{several}. Set `test_set` to one of them.")
        logger.warning("%s. Set `test_set` to one of them to show its sentences.", several)
    if chosen is not None and chosen not in names:
        raise UsageError(
            f"`test_set` is {chosen}, for which there is no output. Test sets with outputs: "
            f"{_shorten(names) or 'none'}."
        )
    baseline = comparison.baseline
    if baseline and (chosen is None or baseline not in files.systems(chosen)):
        systems = "none" if chosen is None else _shorten(list(files.systems(chosen)))
        raise UsageError(f"`baseline` is {baseline}. Expected one of the shown systems: {systems}.")
    return chosen


def _shorten(names: Sequence[str]) -> str:
    return ", ".join(names if len(names) <= MAX_NAMES else [*names[:MAX_NAMES], "..."])


def _read_sentences(systems: Mapping[str, Sequence[Path]], comparison: Comparison) -> Sentences:
    """Read the output of each system's first seed, the source and the references.

    Choose the metric of the sentences.
    """
    firsts = [paths[0] for paths in systems.values()]
    sentences = Sentences(list(systems), [list(read_lines(path)) for path in firsts])
    sentences.has_seeds = any(len(paths) > 1 for paths in systems.values())
    sentences.references = [list(read_lines(path)) for path in comparison.references]
    if comparison.source is not None:
        sentences.source = list(read_lines(comparison.source))
    if comparison.gold is not None:
        _add_gold(sentences, comparison.gold, firsts)
    sentences.check(firsts)
    sentences.metric = comparison.metric or _default_metric(sentences, comparison)
    if comparison.tokenize and sentences.metric != "bleu":
        raise UsageError(
            f"`tokenize` needs the metric bleu, but the metric is {sentences.metric or 'not set'}. "
            "Remove `tokenize`, or set `metric` to bleu."
        )
    return sentences


def _add_gold(sentences: Sentences, path: str | Path, outputs: Sequence[Path]) -> None:
    """Add the errors in an M2 file, and its sources and references unless they are set."""
    gold = list(read_m2(path))
    sentences.source = sentences.source or [" ".join(sentence.words) for sentence in gold]
    sentences.references = sentences.references or annotator_texts(gold, str(path))
    count = len(sentences.outputs[0])
    if len(gold) != count:
        raise DataError(
            f"{path} has {len(gold)} sentences but {outputs[0]} has {count}. Both files must "
            "contain the same sentences."
        )
    sentences.check(outputs)
    sentences.errors = gold_errors(gold, sentences.outputs)


def _default_metric(sentences: Sentences, comparison: Comparison) -> str:
    if comparison.gold is not None:
        return "m2"
    if not sentences.references:
        return ""
    return "gleu" if sentences.against() == SOURCE else "bleu"


def _add_scores(
    files: ReportFiles, sentences: Sentences, test_set: str, comparison: Comparison
) -> None:
    """Score each seed, and each sentence of the first seed. Compare the systems.

    Seed scores are not added if the score files already contain this metric for all systems.
    """
    prefix = f"{test_set}: " if test_set else ""
    if sentences.metric:
        metric = build_metric(sentences, comparison)
        statistics = {
            name: [metric.statistics(list(read_lines(path)), str(path)) for path in paths]
            for name, paths in files.systems(test_set).items()
        }
        sentences.scores = [
            [round(metric.sentence_values(row)[metric.name], 2) for row in seeds[0]]
            for seeds in statistics.values()
        ]
        parameters = {"lines": len(sentences.outputs[0]), **metric.parameters()}
        signature = str(Signature(metric.method, parameters))
        sentences.metric = metric_name(metric.name, signature)
        if not score_table(files.scores).has(test_set, sentences.metric, statistics):
            files.scores += _scores(metric, statistics, test_set, signature)
        if len(statistics) > 1:
            title = f"{prefix}{sentences.metric}"
            files.comparisons.insert(0, _compare(metric, statistics, title, comparison.baseline))
    if sentences.errors is not None and any(sentences.errors):
        seed = " (first seed)" if sentences.has_seeds else ""
        name = f"{prefix}gold errors corrected, % by type{seed}"
        files.breakdowns[name] = corrected_by_type(sentences.errors, sentences.systems)


def build_metric(sentences: Sentences, comparison: Comparison) -> Metric:
    """Return the metric. Raise UsageError if its references, source or M2 file are not set."""
    name = sentences.metric
    if name == "m2" and comparison.gold is None:
        raise UsageError("The metric m2 needs gold edits. Set `gold` to an M2 file.")
    if name == "gleu" and sentences.source is None:
        raise UsageError("The metric gleu needs source sentences. Set `source` to a file.")
    if name != "m2" and not sentences.references:
        raise UsageError(f"The metric {name} needs references. Set `references` to files.")
    return METRICS[name](sentences, comparison)


def _scores(
    metric: Metric, statistics: Statistics, test_set: str, signature: str
) -> Iterator[ReportedScore]:
    for system, seeds in statistics.items():
        values = [metric.values(rows) for rows in seeds]
        for name in values[0]:
            by_seed = tuple(scores[name] for scores in values)
            yield ReportedScore(system, test_set, metric_name(name, signature), by_seed, signature)


def _compare(
    metric: Metric, statistics: Statistics, title: str, baseline: str | None
) -> ScoreComparison:
    """Compare the systems with the baseline, by default the system with the best mean."""
    direction = metric_direction(metric.compared)

    def mean(name: str) -> float:
        values = [metric.values(rows)[metric.compared] for rows in statistics[name]]
        return direction * sum(values) / len(values)

    reference = baseline or max(statistics, key=mean)
    differences = {
        name: bootstrap_statistics(seeds, statistics[reference], metric.total_score)
        for name, seeds in statistics.items()
        if name != reference
    }
    of = "" if metric.compared == metric.name else f", {metric.compared},"
    best = "" if baseline else " (best system)"
    return ScoreComparison(f"{title}{of} against {reference}{best}", differences, direction < 0)
