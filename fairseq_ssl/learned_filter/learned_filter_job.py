"""Training of a learned filter, and filtering of parallel corpora with it."""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl._version import __version__
from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.inference.scorers import scorer_loader
from fairseq_ssl.io.blocks import RowBlock, pair_blocks, read_parallel, row_blocks
from fairseq_ssl.io.executors import Executor, LocalExecutor
from fairseq_ssl.io.fingerprints import content_digest, data_params, file_fingerprint
from fairseq_ssl.io.jobs import (
    Chunks,
    JobState,
    ProgressFactory,
    check_distinct,
    check_outside,
    is_complete,
    run_job,
    silent_progress,
)
from fairseq_ssl.io.outputs import atomic_folder, exclusive, signature_path
from fairseq_ssl.io.remote import as_path
from fairseq_ssl.io.text_files import compress_chunk, open_text, path_list, read_json
from fairseq_ssl.learned_filter.classifier import (
    SVM_FOLDS,
    Phsic,
    PhsicSums,
    train_classifier,
)
from fairseq_ssl.learned_filter.features import FeatureExtractor, block_sums, count_block_words
from fairseq_ssl.learned_filter.pair_filter import (
    COUNTS,
    FILTER,
    PairFilter,
    noise_pairs,
    score_block,
)
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.vocabulary import read_counts, write_counts

FilePair = tuple[str | Path, str | Path]
"""Source and target file."""
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class FeatureSummary:
    """Statistics of a feature on the training pairs."""

    name: str
    clean_mean: float
    """Mean over the clean pairs."""
    noisy_mean: float
    """Mean over the noisy pairs."""
    weight: float
    """Weight in the classifier."""


@dataclass(frozen=True)
class TrainingSummary:
    """Result of `train_filter`."""

    features: tuple[FeatureSummary, ...]
    clean: int
    """Number of clean pairs."""
    noisy: int
    """Number of noisy copies."""
    accuracy: float
    """Accuracy in cross-validation, 0 to 1."""


@dataclass(frozen=True)
class KeptSummary:
    """Result of `keep_best`."""

    pairs: int
    """Number of pairs read."""
    kept: int
    threshold: float
    """Lowest score of the kept pairs."""


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
    """Train a linear SVM on clean pairs and their noisy copies (thesis, section 5.5.1).

    Args:
        bitext: source and target files for the estimation of PHSIC, read twice
        clean: source and target files of clean pairs, such as test sets
        output: folder for the filter
        features: resources of the features (default word counts: counts of the bitext)
        seed: random seed, 0 or more
        overwrite: replace an existing folder
        executor: `Executor` for the blocks (default: this process)
        progress: called with the number of blocks done
    """
    bitext, clean, output = _path_pair(bitext), _path_pair(clean), as_path(output)
    if output.exists() and not overwrite:
        raise UsageError(f"{output} exists. Set `overwrite` to replace it.")
    if not features.names:
        raise UsageError("There are no features. Set `vectors`, `masked_models` or `translation`.")
    _check_inputs(features, (*bitext, *clean), output)
    pairs = [(source, target) for source, target in read_parallel(clean)]
    if len(pairs) < SVM_FOLDS:
        raise DataError(f"{clean[0]} has {len(pairs)} lines. Training needs {SVM_FOLDS} or more.")
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
    """Check the models before hours of counting, and that the output does not replace a file."""
    if any(features.subwords) and not features.models:
        raise UsageError("`subwords` needs a translation model or masked models.")
    for config in features.models:
        scorer_loader(config)
    folders = [config.data_dir for config in features.models if config.data_dir is not None]
    check_outside(output, [*texts, *features.files, *folders])


def _word_counts(
    features: FeatureExtractor, bitext: FilePair, executor: Executor, progress: ProgressFactory
) -> list[Counter[str]]:
    """Return the word counts of both sides, from `features` or counted in the bitext."""
    if features.counts is not None:
        return [read_counts(path) for path in features.counts]
    totals: list[Counter[str]] = [Counter(), Counter()]
    report = progress("learned-filter fit: counting", "blocks")
    for counts in executor.imap(partial(count_block_words, features), pair_blocks(*bitext)):
        for total, side_counts in zip(totals, counts, strict=True):
            total.update(side_counts)
        report(1)
    if not all(totals):
        raise DataError(f"{bitext[0]} or {bitext[1]} has no words.")
    return totals


def _estimate_phsic(
    features: FeatureExtractor, bitext: FilePair, executor: Executor, progress: ProgressFactory
) -> dict[str, Phsic]:
    """Return PHSIC estimated on the bitext, by feature name. Empty without PHSIC features."""
    totals: dict[str, PhsicSums] = {}
    if not features.embedded:
        return {}
    report = progress("learned-filter fit: PHSIC", "blocks")
    for block in executor.imap(partial(block_sums, features), pair_blocks(*bitext)):
        for name, sums in block.items():
            if name in totals:
                totals[name].add(sums)
            else:
                totals[name] = sums
        report(1)
    if not totals:
        raise DataError(f"{bitext[0]} is empty. Expected one line or more.")
    return {name: sums.phsic() for name, sums in totals.items()}


def score_pairs(
    folder: str | Path,
    pairs: FilePair,
    output: str | Path,
    *,
    computing: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    executor: Executor | None = None,
    progress: ProgressFactory = silent_progress,
) -> bool:
    """Score the pairs of a corpus. Return False if the output is already complete.

    Scores above 0 mean clean pairs. Interrupted runs resume.

    Args:
        folder: filter of `train_filter`
        pairs: source and target files, compressed by suffix
        output: file of scores, one per line
        computing: fields of `ScoringConfig` for the models, such as ``device`` and ``max_tokens``
        overwrite: replace an output of other pairs or of another filter
        executor: `Executor` for the blocks (default: this process)
        progress: called with the number of pairs done
    """
    folder, pairs, output = Path(folder), _path_pair(pairs), as_path(output)
    options = dict(computing or {})
    check_distinct(pairs, [output])
    pair_filter = PairFilter.read(folder, options)
    params = {
        "filter": str(folder),
        "filter_is": file_fingerprint(folder / FILTER),
        "resources_are": [file_fingerprint(path) for path in pair_filter.features.files],
        "data": [data_params(config.data_dir) for config in pair_filter.features.models],
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
        work = partial(score_block, pair_filter)
        report = progress("learned-filter apply", "pairs")
        blocks = _pair_blocks(pairs, positions, done + 1)
        for scored in (executor or LocalExecutor(1)).imap(work, blocks):
            done += scored.count
            report(scored.count, scored.fraction or None)
            yield scored.outputs, {"positions": list(scored.ends), "done": done}

    def signature() -> Signature:
        digest = content_digest(folder / FILTER, *pair_filter.features.files)
        parameters = {"filter_digest": digest, "half": params["half"], "pairs": done}
        return Signature("filter-learned-scores", parameters, params)

    afresh = overwrite and not is_complete([output], params)
    return run_job([output], params, chunks, signature, overwrite=afresh)


def _pair_blocks(paths: FilePair, positions: Sequence[int], first: int) -> Iterator[RowBlock]:
    with ExitStack() as stack:
        files = [stack.enter_context(open_text(path)) for path in paths]
        yield from row_blocks(files, list(map(str, paths)), positions, first)


def check_keep(keep: float) -> None:
    """Raise UsageError if the percentage of pairs to keep is out of range."""
    if not 0 < keep <= 100:
        raise UsageError(f"`keep` is {keep:g}. Expected a percentage above 0 and up to 100.")


def keep_best(
    pairs: FilePair,
    scores: str | Path,
    outputs: FilePair,
    keep: float,
    *,
    overwrite: bool = False,
) -> KeptSummary | None:
    """Keep the pairs with the highest scores. Return None if the outputs are already complete.

    The order of the pairs does not change. Of pairs with equal scores, the first are kept.
    Interrupted runs resume.

    Args:
        pairs: source and target files, compressed by suffix
        scores: file of `score_pairs`
        outputs: files for the kept pairs, compressed by suffix
        keep: percentage of the pairs to keep, above 0 and up to 100
        overwrite: replace existing outputs
    """
    check_keep(keep)
    if keep < 1:
        logger.warning(f"`keep` is a percentage: {keep:g} keeps {keep:g} % of the pairs")
    pairs, scores, outputs = _path_pair(pairs), as_path(scores), _path_pair(outputs)
    check_distinct([*pairs, scores], outputs)
    numbers = np.concatenate([np.empty(0), *_read_scores(scores)])
    count, digest = len(numbers), hashlib.sha256(numbers.data)
    if not count:
        raise DataError(f"{pairs[0]} is empty. Expected one line or more.")
    kept = max(1, round(count * keep / 100))
    threshold = float(np.partition(numbers, -kept)[-kept]) + 0.0  # 0.0 instead of -0.0
    equal = kept - int((numbers > threshold).sum())
    params = {
        **_scores_params(scores),
        "inputs": list(map(str, pairs)),
        "inputs_are": [file_fingerprint(path) for path in pairs],
        "outputs": list(map(str, outputs)),
        **{"version": __version__, "scores": str(scores)},
        "scores_digest": digest.hexdigest()[:16],
        **{"keep": keep, "threshold": threshold},
    }
    job = _KeepJob((*pairs, scores), outputs, threshold, equal)

    def signature() -> Signature:
        names = ("keep", "threshold", "scores_digest")
        counts = {"pairs": job.lines, "kept": job.kept}
        parameters = {**counts, **{name: params[name] for name in names}}
        return Signature("filter-learned-apply", parameters, params)

    if not run_job(outputs, params, job.chunks, signature, overwrite=overwrite):
        return None
    return KeptSummary(count, kept, threshold)


def _path_pair(paths: FilePair) -> tuple[Path, Path]:
    source, target = path_list(paths)
    return source, target


def _read_scores(path: Path) -> Iterator[NDArray[np.float64]]:
    with open_text(path) as file:
        for block in row_blocks([file], [str(path)]):
            try:
                scores = np.array(block.raw_lines(0), np.float64)
                if np.isnan(scores).any():
                    raise ValueError
            except ValueError:
                last = block.first + block.count - 1
                raise DataError(
                    f"{path} has a line that is not a number, in lines {block.first} to {last}. "
                    "Score the pairs again."
                ) from None
            yield scores


def _scores_params(scores: Path) -> dict[str, Any]:
    """Return the parameters from the signature of `score_pairs`, or {} if there is none."""
    try:
        content = read_json(signature_path(scores))
        names = ("filter", "filter_is", "resources_are", "data", "inputs", "inputs_are", "half")
        return {name: content[name] for name in names}
    except (DataError, LookupError, TypeError):
        return {}


@dataclass
class _KeepJob:
    """Arguments and counts of a call of `keep_best`."""

    inputs: tuple[Path, Path, Path]
    """Source, target and score files."""
    outputs: tuple[Path, Path]
    threshold: float
    equal: int
    """Number of pairs to keep whose score equals the threshold."""
    lines: int = 0
    kept: int = 0

    def chunks(self, state: JobState) -> Iterator[tuple[Chunks, JobState]]:
        """Yield the kept pairs of each block and the job state after it. Resume from `state`."""
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
                kept_sides = [b"".join(lines[row] + b"\n" for row in rows) for lines in sides]
                self.lines += block.count
                self.kept += len(rows)
                yield (
                    [
                        compress_chunk(data, path.suffix)
                        for data, path in zip(kept_sides, self.outputs, strict=True)
                    ],
                    {"at": (list(block.ends), self.lines, self.kept, self.equal)},
                )
