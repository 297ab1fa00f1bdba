"""Train a learned filter, and filter parallel corpora with it."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_ssl._version import __version__
from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.filters.block_filter import BlockRows
from fairseq_ssl.inference.scorers import scorer_loader
from fairseq_ssl.io.blocks import Span, file_blocks, read_parallel, span_blocks, unequal_lines
from fairseq_ssl.io.corpus import Corpus
from fairseq_ssl.io.executors import Executor, LocalExecutor
from fairseq_ssl.io.fingerprints import content_digest, data_params, file_fingerprint
from fairseq_ssl.io.jobs import ProgressFactory, check_new, check_outside, silent_progress
from fairseq_ssl.io.outputs import atomic_folder, exclusive, signature_path
from fairseq_ssl.io.parts import (
    BlockFunction,
    BlockResult,
    JobFolder,
    PartResults,
    Record,
    stage_file,
)
from fairseq_ssl.io.remote import as_path
from fairseq_ssl.io.text_files import MANIFEST, open_bytes, path_list, read_json
from fairseq_ssl.io.text_jobs import Output, Outputs, TextJob
from fairseq_ssl.learned_filter.classifier import SVM_FOLDS, Phsic, PhsicSums, train_classifier
from fairseq_ssl.learned_filter.features import FeatureExtractor, block_sums, count_block_words
from fairseq_ssl.learned_filter.pair_filter import (
    COUNTS,
    FILTER,
    PairFilter,
    noise_pairs,
    score_block,
)
from fairseq_ssl.learned_filter.score_selection import Scores, Selection, read_scores, select_best
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.vocabulary import read_counts, write_counts

FilePair = tuple[str | Path, str | Path]
"""Source file and target file."""
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class FeatureSummary:
    """Statistics of a feature over the training pairs."""

    name: str
    clean_mean: float
    """Mean over the clean pairs."""
    noisy_mean: float
    """Mean over the noisy pairs."""
    weight: float
    """Weight in the classifier."""


@dataclass(frozen=True)
class TrainingSummary:
    """Feature statistics and accuracy of a trained filter."""

    features: tuple[FeatureSummary, ...]
    clean: int
    """Number of clean pairs."""
    noisy: int
    """Number of noisy copies."""
    accuracy: float
    """Accuracy of the classifier in cross-validation, 0 to 1."""


def train_filter(
    bitext: FilePair,
    clean: FilePair,
    output: str | Path,
    features: FeatureExtractor,
    *,
    seed: int = 1,
    overwrite: bool = False,
    executor: Executor | None = None,
    progress: ProgressFactory = silent_progress,
) -> TrainingSummary:
    """Train a linear SVM on clean pairs and their noisy copies (Kiyono, 2022, section 5.5.1).

    Args:
        bitext: source and target files on which PHSIC is estimated
        clean: source and target files of clean pairs, such as test sets
        output: folder for the filter
        features: feature extractor; if its `counts` is None, words are counted in the bitext
        seed: random seed, 0 or more
        overwrite: replace an existing folder
        executor: `Executor` that processes the blocks (default: the current process)
        progress: creates the progress report, which receives the number of processed blocks
    """
    bitext, clean, output = _path_pair(bitext), _path_pair(clean), as_path(output)
    check_new(output, overwrite)
    if not features.names:
        raise UsageError("There are no features. Set `vectors`, `masked_models` or `translation`.")
    _check_inputs(features, (*bitext, *clean), output)
    pairs = [(source, target) for source, target in read_parallel(clean)]
    if len(pairs) < SVM_FOLDS:
        raise DataError(f"{clean[0]} has {len(pairs)} lines. Expected at least {SVM_FOLDS} lines.")
    work = executor or LocalExecutor(1)
    with exclusive(output), atomic_folder(output) as folder:
        counts = _word_counts(features, bitext, work, progress)
        for side_counts, name in zip(counts, COUNTS, strict=True):
            write_counts(side_counts, folder / name)
        paths = folder / COUNTS[0], folder / COUNTS[1]
        extractor = FeatureExtractor(**{**vars(features), "counts": paths})
        phsic = _estimate_phsic(extractor, bitext, work, progress)
        noisy = noise_pairs(pairs, extractor, counts, seed)
        values = extractor.features(pairs, phsic)
        noisy_values = extractor.features(noisy, phsic)
        classifier, accuracy = train_classifier(values, noisy_values, extractor.names, seed)
        signature = {
            **{"method": "filter-learned-fit", "version": __version__},
            **{"bitext": list(map(str, bitext)), "clean": list(map(str, clean))},
            **{"clean_pairs": len(pairs), "seed": seed},
            "right": round(accuracy, 4),
        }
        PairFilter(extractor, phsic, classifier).write(folder, signature)
    means = zip(values.mean(0).tolist(), noisy_values.mean(0).tolist(), strict=True)
    columns = zip(extractor.names, means, classifier.weights.tolist(), strict=True)
    summaries = tuple(FeatureSummary(name, *mean, weight) for name, mean, weight in columns)
    return TrainingSummary(summaries, len(pairs), len(noisy), accuracy)


def _check_inputs(features: FeatureExtractor, texts: Sequence[Path], output: Path) -> None:
    """Check the models and the output path before counting words, which can take hours."""
    if any(features.subwords) and not features.models:
        raise UsageError("`subwords` needs a model. Set `translation` or `masked_models`.")
    for config in features.models:
        scorer_loader(config)
    folders = [config.data_dir for config in features.models if config.data_dir is not None]
    check_outside(output, [*texts, *features.files, *folders])


def _word_counts(
    features: FeatureExtractor,
    bitext: tuple[Path, Path],
    executor: Executor,
    progress: ProgressFactory,
) -> list[Counter[str]]:
    """Return the word counts of both sides, from the `counts` of `features` or from the bitext."""
    if features.counts is not None:
        return [read_counts(path) for path in features.counts]
    totals: list[Counter[str]] = [Counter(), Counter()]
    report = progress("learned-filter fit: counting", "blocks")
    for counts in executor.imap(partial(count_block_words, features), Corpus(bitext).blocks()):
        for total, side_counts in zip(totals, counts, strict=True):
            total.update(side_counts)
        report(1)
    if not all(totals):
        raise DataError(f"{bitext[0]} or {bitext[1]} contains no words. Expected parallel text.")
    return totals


def _estimate_phsic(
    features: FeatureExtractor,
    bitext: tuple[Path, Path],
    executor: Executor,
    progress: ProgressFactory,
) -> dict[str, Phsic]:
    """Estimate PHSIC on the bitext. Return the estimates by feature name."""
    totals: dict[str, PhsicSums] = {}
    if not features.embedded:
        return {}
    report = progress("learned-filter fit: PHSIC", "blocks")
    for block in executor.imap(partial(block_sums, features), Corpus(bitext).blocks()):
        for name, sums in block.items():
            if name in totals:
                totals[name].add(sums)
            else:
                totals[name] = sums
        report(1)
    if not totals:
        raise DataError(f"{bitext[0]} is empty. Expected at least one line.")
    return {name: sums.phsic() for name, sums in totals.items()}


def score_pairs(
    folder: str | Path,
    pairs: FilePair,
    output: Output,
    *,
    computing: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    executor: Executor | None = None,
    progress: ProgressFactory = silent_progress,
) -> bool:
    """Score pairs. Return False if the output was complete or if other shards must finish first.

    A score above 0 means a clean pair. Interrupted runs resume.

    Args:
        folder: filter folder written by `train_filter`
        pairs: source and target files
        output: file, folder of parts, or binary stream for the scores, one per line
        computing: fields of `ScoringConfig` for the models, such as ``device`` and ``max_tokens``
        overwrite: replace the output of different pairs or of a different filter
        executor: `Executor` that processes the blocks or parts (default: the current process)
        progress: creates the progress report, which receives the number of scored pairs
    """
    corpus, outputs = Corpus(_path_pair(pairs)), Outputs.of(output)
    pair_filter = PairFilter.read(folder, options := dict(computing or {}))
    half = options.get("fp16", False)
    job = _ScoreJob(corpus, outputs, executor, progress, Path(folder), pair_filter, half)
    return job.run(overwrite and not (outputs.paths and job.is_complete()))


@dataclass
class _ScoreJob(TextJob):
    """Resumable job that `score_pairs` runs."""

    folder: Path
    pair_filter: PairFilter
    half: bool
    name, unit = "learned-filter apply", "pairs"

    @property
    def part_size(self) -> int:
        """Default input size per part, in bytes. It is smaller for filters that use models."""
        return 2**20 if self.pair_filter.features.models else 2**26

    def reads(self) -> list[str | Path]:
        return [self.folder / FILTER, *self.pair_filter.features.files]

    def parameters(self) -> dict[str, Any]:
        filter_is, *resources_are = map(file_fingerprint, self.reads())
        return {
            "filter": str(self.folder),
            "filter_is": filter_is,
            "resources_are": resources_are,
            "data": [data_params(config.data_dir) for config in self.pair_filter.features.models],
            "inputs": list(self.corpus.names),
            "inputs_are": [file_fingerprint(path) for path in self.corpus.paths],
            "half": self.half,
        }

    def signature(self) -> Signature:
        parameters = {
            "filter_digest": content_digest(*self.reads()),
            "half": self.half,
            "pairs": self.totals["lines"],
        }
        return Signature("filter-learned-scores", parameters, self.params)

    def prepare(self) -> BlockFunction:
        return partial(score_block, self.pair_filter)


def check_keep(keep: float) -> None:
    """Raise UsageError if the percentage of pairs to keep is out of range."""
    if not 0 < keep <= 100:
        raise UsageError(f"`keep` is {keep:g}. Expected a percentage above 0 and up to 100.")


def keep_best(
    pairs: FilePair,
    scores: str | Path,
    outputs: tuple[Output, Output],
    keep: float,
    *,
    overwrite: bool = False,
    executor: Executor | None = None,
    progress: ProgressFactory = silent_progress,
) -> Selection | None:
    """Keep the pairs with the highest scores.

    The order of the pairs does not change. Among pairs with equal scores, the first ones are kept.
    Interrupted runs resume.

    Args:
        pairs: source and target files
        scores: output of `score_pairs`; a folder of parts if the outputs are folders of parts
        outputs: source and target files, or folders with the same part size as `scores`
        keep: percentage of the pairs to keep, above 0 and up to 100
        overwrite: replace existing outputs
        executor: `Executor` that processes the parts (default: the current process)
        progress: creates the progress report, which receives the number of processed pairs

    Returns:
        The selection, or None if the outputs are already complete or if other shards must finish
        first.
    """
    check_keep(keep)
    if keep < 1:
        logger.warning(f"`keep` is a percentage: {keep:g} keeps {keep:g} % of the pairs")
    corpus, targets = Corpus(_path_pair(pairs)), Outputs.of(*outputs)
    workers = executor if targets.folders else None
    job = _KeepJob(corpus, targets, workers, progress, as_path(scores), keep)
    return job.selection if job.run(overwrite) else None


def _path_pair(paths: FilePair) -> tuple[Path, Path]:
    source, target = path_list(paths)
    return source, target


@dataclass
class _KeepJob(TextJob):
    """Resumable job that `keep_best` runs.

    For files, the calling process selects the pairs, with all scores in memory. For folders of
    parts, there are three stages:

    1. ``scores`` parses the scores of each part.
    2. ``selection`` writes a record with the threshold for all parts.
    3. ``part`` writes the kept pairs of a part.
    """

    scores: Path
    keep: float
    name, unit = "keep", "pairs"

    def __post_init__(self, workers: Executor | None) -> None:
        super().__post_init__(workers)
        if self.outputs.folders is None:
            self.in_order = self._kept

    @property
    def part_size(self) -> int:
        """Input size per part, in bytes, from the manifest of the scores."""
        return int(self._manifest["part_size"])

    def reads(self) -> list[Path]:
        return [self.scores]

    def parameters(self) -> dict[str, Any]:
        is_file = self.outputs.folders is None
        parameters = {
            **_scores_params(signature_path(self.scores) if is_file else self.scores / MANIFEST),
            "inputs": list(self.corpus.names),
            "inputs_are": [file_fingerprint(path) for path in self.corpus.paths],
            "outputs": list(map(str, self.outputs.paths)),
            "scores": str(self.scores),
            "keep": self.keep,
        }
        if not is_file:
            return {**parameters, "scores_are": file_fingerprint(self.scores)}
        numbers = np.concatenate([np.empty(0), *read_scores(Corpus((self.scores,)).blocks())])
        if not len(numbers):
            raise DataError(f"{self.scores} is empty. Expected at least one score.")
        self.selection = select_best(lambda: [numbers], self.keep)
        self.is_kept = self.selection.is_kept(numbers)
        found = {"scores_digest": self.selection.digest, "threshold": self.selection.threshold}
        return parameters | found

    @cached_property
    def _manifest(self) -> dict[str, Any]:
        content: dict[str, Any] = read_json(self.scores / MANIFEST)
        return content

    def signature(self) -> Signature:
        parameters = {
            "pairs": self.totals["lines"],
            "kept": self.totals["kept"],
            "keep": self.keep,
            "threshold": self.selection.threshold,
            "scores_digest": self.selection.digest,
        }
        return Signature("filter-learned-apply", parameters, self.params)

    def prepare(self) -> BlockFunction:
        """Return a function that forwards blocks unchanged. `_kept` then selects their pairs."""
        return lambda block: BlockResult((), Counter(lines=block.count), keys=block)

    def _kept(self, result: BlockResult) -> BlockResult:
        start, count = self.totals["lines"], result.counts["lines"]
        is_kept = self.is_kept[start : start + count]
        if len(is_kept) < count:
            raise unequal_lines(self.scores, len(self.is_kept), self.corpus.names[0])
        return BlockRows(result.keys).select(np.flatnonzero(is_kept))

    def check_end(self) -> None:
        """Raise DataError if there are more scores than pairs."""
        super().check_end()
        if self.totals["lines"] < self.selection.pairs:
            raise unequal_lines(self.corpus.names[0], self.totals["lines"], self.scores)

    def part_results(self, folder: JobFolder, spans: Sequence[Span]) -> PartResults | None:
        """Run two stages. Return the ``part`` function, or None if other shards must finish."""
        parts = [self.scores / part["name"] for part in self._manifest["parts"]]
        count = len(parts)
        if len(spans) != count:
            raise UsageError(
                f"{self.scores} has {count} parts, but {self.corpus} has {len(spans)}. Expected "
                "scores of the same pairs, with the same part size."
            )
        if not self.run_stage(folder, "scores", parts, _score_stage):
            return None
        files = [folder.first / stage_file("scores", index) for index in range(count)]
        select = partial(_select, self.keep)
        for _ in folder.run_stage("selection", [files], select, self.executor):
            pass
        records = folder.records("selection", 1)
        if records is None:
            return None
        self.selection = Selection(**next(records)["selection"])
        return partial(_keep_pairs, files, self.selection, self.corpus.block_size)


def _scores_params(path: Path) -> dict[str, Any]:
    """Return the job parameters in a score signature or manifest, or {} for an invalid file."""
    names = ("filter", "filter_is", "resources_are", "data", "inputs", "inputs_are", "half")
    with suppress(DataError, LookupError, TypeError):
        content = read_json(path)
        return {name: content[name] for name in names}
    return {}


def _score_stage(index: int, part: Path) -> Iterator[BlockResult]:
    """Yield the scores of a part as the bytes of little-endian 64-bit floats."""
    for scores in read_scores(file_blocks(part)):
        yield BlockResult((scores.astype("<f8").tobytes(),), Counter(lines=len(scores)))


def _select(keep: float, index: int, files: Sequence[Path]) -> Record:
    """Select the highest `keep` percent of all scores. Return the selection as a job record."""
    selection = select_best(lambda: map(_numbers, files), keep)
    return {"files": [], "selection": asdict(selection)}


def _numbers(path: Path) -> Scores:
    with open_bytes(path, "") as file:
        return np.frombuffer(file.read(), "<f8").astype(np.float64)


def _keep_pairs(
    files: Sequence[Path], selection: Selection, size: int | None, index: int, span: Span
) -> Iterator[BlockResult]:
    """Yield the kept pairs of a part. `files` contain the scores of all parts, one file each."""
    is_kept = selection.is_kept(_numbers(files[index]), index)
    lines = 0
    for block in span_blocks(span, size):
        lines = block.first + block.count
        yield BlockRows(block).select(np.flatnonzero(is_kept[block.first : lines]))
    if lines != len(is_kept):
        raise DataError(
            f"Part {index} has {lines} pairs but {len(is_kept)} scores. Score the pairs again."
        )
