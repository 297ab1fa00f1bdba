"""Training of a learned filter, and its application to files of any size."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl._version import __version__
from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.inference.scoring import scorer_loader
from fairseq_ssl.io.atomic import atomic_folder, exclusive
from fairseq_ssl.io.blocks import PairBlock, pair_blocks, row_blocks
from fairseq_ssl.io.executors import Executor, LocalExecutor
from fairseq_ssl.io.jobs import Chunks, JobState, ProgressFactory, run_job, silent_progress
from fairseq_ssl.io.resumable import file_fingerprint
from fairseq_ssl.io.text_files import compress_chunk, open_text, parse_json, read_parallel
from fairseq_ssl.learned_filter.classifier import (
    SVM_FOLDS,
    Phsic,
    PhsicSums,
    kth_largest,
    train_classifier,
)
from fairseq_ssl.learned_filter.features import BlockPhsic, BlockWordCounts, FeatureExtractor
from fairseq_ssl.learned_filter.pair_filter import (
    COUNTS,
    FILTER,
    BlockScorer,
    PairFilter,
    noise_pairs,
)
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.vocabulary import read_counts, write_counts

FilePair = tuple[Path, Path]
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class FeatureSummary:
    """A feature of the training pairs."""

    name: str
    clean_mean: float
    noisy_mean: float
    weight: float
    """Its weight in the classifier."""


@dataclass(frozen=True)
class TrainingSummary:
    """The training of a filter."""

    features: tuple[FeatureSummary, ...]
    clean: int
    """Clean pairs."""
    noisy: int
    """Noisy copies."""
    accuracy: float
    """Accuracy of the classifier in cross-validation."""


@dataclass(frozen=True)
class KeptSummary:
    """The best pairs of a corpus."""

    pairs: int
    kept: int
    threshold: float
    """The lowest score of a kept pair."""


def train_filter(
    bitext: FilePair,
    clean: FilePair,
    output: Path,
    features: FeatureExtractor,
    *,
    copies: int = 1,
    penalty: float = 1.0,
    seed: int = 1,
    overwrite: bool = False,
    executor: Executor | None = None,
    progress: ProgressFactory = silent_progress,
) -> TrainingSummary:
    """Train a linear SVM on clean pairs and their noisy copies (thesis, section 5.5.1).

    Args:
        bitext: sources and targets on which PHSIC is estimated, read twice in blocks
        clean: sources and targets of clean pairs, such as test sets
        output: folder of the filter
        features: resources of the features; word counts are counted in the bitext by default
        copies: noisy copies of each clean pair, 1 or more
        penalty: C of the SVM, above 0
        seed: random seed, 0 or more
        overwrite: replace the folder
        executor: where to work (default: this process)
        progress: called with the number of blocks done
    """
    if output.exists() and not overwrite:
        raise UsageError(f"{output} exists. Set `overwrite` to replace it, or choose another.")
    if not features.names:
        raise UsageError("A filter needs `vectors`, `masked_models` or a `translation` model.")
    for config in (*(features.masked or ()), features.translation):
        if config is not None:
            scorer_loader(config)  # checks the models
    pairs = [(source, target) for source, target in read_parallel(clean)]
    if len(pairs) < SVM_FOLDS:  # before hours of counting
        raise DataError(f"{clean[0]} has {len(pairs)} lines. Training needs {SVM_FOLDS} or more.")
    work = executor or LocalExecutor(1)
    with exclusive(output), atomic_folder(output) as folder:
        counts = _word_counts(features, bitext, work, progress)
        for one, name in zip(counts, COUNTS, strict=True):
            write_counts(one, folder / name)
        paths = folder / COUNTS[0], folder / COUNTS[1]
        extractor = FeatureExtractor(**{**vars(features), "counts": paths})
        phsic = _estimate_phsic(extractor, bitext, work, progress)
        noisy = noise_pairs(pairs, extractor, counts, seed, copies)
        values, others = (extractor.features(some, phsic) for some in (pairs, noisy))
        classifier, accuracy = train_classifier(values, others, extractor.names, penalty, seed)
        signature = {
            **{"method": "filter-learned-fit", "version": __version__},
            **{"bitext": list(map(str, bitext)), "clean": list(map(str, clean))},
            **{"clean_pairs": len(pairs), "copies": copies, "penalty": penalty, "seed": seed},
            "right": round(accuracy, 4),
        }
        PairFilter(extractor, phsic, classifier).write(folder, signature)
    means = zip(values.mean(0).tolist(), others.mean(0).tolist(), strict=True)
    columns = zip(extractor.names, means, classifier.weights.tolist(), strict=True)
    summaries = tuple(FeatureSummary(name, *mean, weight) for name, mean, weight in columns)
    return TrainingSummary(summaries, len(pairs), len(noisy), accuracy)


def _word_counts(
    features: FeatureExtractor, bitext: FilePair, executor: Executor, progress: ProgressFactory
) -> list[Counter[str]]:
    """Return the word counts of both sides, as given or counted in the bitext."""
    if features.counts is not None:
        return [read_counts(path) for path in features.counts]
    totals: list[Counter[str]] = [Counter(), Counter()]
    report = progress("filter learned fit: counting", "blocks")
    for found in executor.imap(BlockWordCounts(features), pair_blocks(*bitext)):
        for total, one in zip(totals, found, strict=True):
            total.update(one)
        report(1)
    if not all(totals):
        raise DataError(f"{bitext[0]} or {bitext[1]} has no words.")
    return totals


def _estimate_phsic(
    features: FeatureExtractor, bitext: FilePair, executor: Executor, progress: ProgressFactory
) -> dict[str, Phsic]:
    """Return PHSIC by feature, estimated on the bitext."""
    totals: dict[str, PhsicSums] = {}
    if not features.embedded:
        return {}
    report = progress("filter learned fit: PHSIC", "blocks")
    for found in executor.imap(BlockPhsic(features), pair_blocks(*bitext)):
        for name, sums in found.items():
            if name in totals:
                totals[name].add(sums)
            else:
                totals[name] = sums
        report(1)
    if not totals:
        raise DataError(f"{bitext[0]} is empty. Expected a bitext.")
    return {name: sums.phsic() for name, sums in totals.items()}


def score_pairs(
    folder: Path,
    pairs: FilePair,
    output: Path,
    *,
    computing: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    executor: Executor | None = None,
    progress: ProgressFactory = silent_progress,
) -> bool:
    """Write a score of each pair, above 0 for clean pairs. Return False if they are there.

    An interrupted run resumes.

    Args:
        folder: a filter of `train_filter`
        pairs: sources and targets, ``.gz`` by suffix
        output: the scores, one a line
        computing: how models compute: fields of `ScoringConfig` such as device and max_tokens
        overwrite: replace the output
        executor: where to work (default: this process)
        progress: called with the number of pairs done
    """
    options = dict(computing or {})
    filter_json = folder / FILTER
    params = {
        "filter": str(folder),
        "filter_is": file_fingerprint(filter_json) if filter_json.exists() else None,
        "inputs": list(map(str, pairs)),
        "inputs_are": [file_fingerprint(path) for path in pairs],
        "half": options.get("fp16", False),
        "version": __version__,
    }
    done = 0

    def chunks(state: JobState) -> Iterator[tuple[Chunks, JobState]]:
        nonlocal done
        positions, done = state.get("positions", [0, 0]), state.get("done", 0)
        if state:
            logger.warning("resuming after line %s", done)
        work = BlockScorer(PairFilter.read(folder, options))
        report = progress("filter learned apply", "pairs")
        blocks = _pair_blocks(pairs, positions, done + 1)
        for scored in (executor or LocalExecutor(1)).imap(work, blocks):
            done += scored.count
            report(scored.count, scored.share or None)
            yield scored.outputs, {"positions": list(scored.ends), "done": done}

    def signature() -> Signature:
        return Signature("filter-learned-scores", {**_without_version(params), "pairs": done})

    return run_job([output], params, chunks, signature, overwrite=overwrite)


def _pair_blocks(paths: FilePair, positions: Sequence[int], first: int) -> Iterator[PairBlock]:
    with ExitStack() as stack:
        files = [stack.enter_context(open_text(path)) for path in paths]
        for block in row_blocks(files, list(map(str, paths)), positions, first):
            yield PairBlock(**vars(block))


def keep_best(
    pairs: FilePair,
    scores: Path,
    outputs: FilePair,
    keep: float,
    *,
    overwrite: bool = False,
) -> KeptSummary | None:
    """Write the pairs with the best scores, in order. Return None if they are there.

    Of pairs with equal scores, the first are kept. An interrupted run resumes.

    Args:
        pairs: sources and targets, ``.gz`` by suffix
        scores: a file of `score_pairs`
        outputs: the kept sources and targets, ``.gz`` by suffix
        keep: percentage of the pairs to keep, above 0, to 100
        overwrite: replace the outputs
    """
    if not 0 < keep <= 100:
        raise UsageError(f"`keep` is {keep}. Expected a percentage above 0, to 100.")
    count = sum(map(len, _read_scores(scores)))
    if not count:
        raise DataError(f"{pairs[0]} is empty. Expected a pair or more.")
    kept = max(1, round(count * keep / 100))
    threshold, equal = kth_largest(lambda: _read_scores(scores), kept)
    params = {
        **_scores_params(scores),
        "inputs": list(map(str, pairs)),
        "inputs_are": [file_fingerprint(path) for path in pairs],
        **{"version": __version__, "scores": str(scores)},
        **{"keep": keep, "threshold": threshold},
    }
    job = _KeepJob((*pairs, scores), outputs, threshold, equal)

    def signature() -> Signature:
        counts = {"pairs": job.lines, "kept": job.kept}
        return Signature("filter-learned-apply", {**_without_version(params), **counts})

    if not run_job(outputs, params, job.chunks, signature, overwrite=overwrite):
        return None
    return KeptSummary(count, kept, threshold)


def _read_scores(path: Path) -> Iterator[NDArray[np.float64]]:
    with open_text(path) as file:
        for block in row_blocks([file], [str(path)]):
            yield np.array(block.data[0].split(), np.float64)


def _scores_params(scores: Path) -> dict[str, Any]:
    """Return the parameters in the signature beside the scores, if there is one."""
    beside = scores.with_name(f"{scores.name}.json")
    if not beside.exists():
        return {}
    content = parse_json(beside.read_bytes())
    return {key: content[key] for key in ("filter", "filter_is", "inputs", "inputs_are", "half")}


def _without_version(params: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in params.items() if key != "version"}


@dataclass
class _KeepJob:
    """Selects the pairs with a score above a threshold."""

    inputs: tuple[Path, Path, Path]
    """Sources, targets and scores."""
    outputs: FilePair
    threshold: float
    equal: int
    """Pairs with just this score to keep, the first ones."""
    lines: int = 0
    kept: int = 0

    def chunks(self, state: JobState) -> Iterator[tuple[Chunks, JobState]]:
        """Select from the rest of the pairs block by block."""
        positions = [0, 0, 0]
        if state:
            positions, self.lines, self.kept, self.equal = state["at"]
            logger.warning("resuming after line %s", self.lines)
        with ExitStack() as stack:
            files = [stack.enter_context(open_text(path)) for path in self.inputs]
            names = list(map(str, self.inputs))
            for block in row_blocks(files, names, positions, self.lines + 1):
                scores = np.array(block.raw_lines(2), np.float64)
                level = scores == self.threshold
                kept = (scores > self.threshold) | (level & (np.cumsum(level) <= self.equal))
                self.equal -= int(kept[level].sum())
                rows = np.flatnonzero(kept).tolist()
                sides = [block.raw_lines(side) for side in (0, 1)]
                made = [b"".join(lines[row] + b"\n" for row in rows) for lines in sides]
                self.lines += block.count
                self.kept += len(rows)
                yield (
                    [
                        compress_chunk(data, path.suffix == ".gz")
                        for data, path in zip(made, self.outputs, strict=True)
                    ],
                    {"at": (list(block.ends), self.lines, self.kept, self.equal)},
                )
