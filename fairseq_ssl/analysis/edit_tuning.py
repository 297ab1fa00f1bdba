"""Tuning of the decoding options of an edit tagger on held-out sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_ssl.analysis.edit_search import GRID, EditSearch, label_pairs
from fairseq_ssl.data.spans import Spans
from fairseq_ssl.edits.coverage import METRICS, agreement
from fairseq_ssl.edits.extraction import LabelExtractor
from fairseq_ssl.errors import DataError, check_choice
from fairseq_ssl.generation.edit_choice import EditCandidates
from fairseq_ssl.inference.correction import CorrectionConfig, load_tagger
from fairseq_ssl.io.blocks import m2_hint
from fairseq_ssl.io.fingerprints import content_digest
from fairseq_ssl.io.jobs import ProgressFactory, counted, silent_progress
from fairseq_ssl.io.text_files import optional_path, read_lines
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.spelling import spelling_corrector

DECODINGS = 5
"""Number of combinations of options that are compared by decoding."""
CHUNK = 4096
"""Number of sentences that are decoded at once."""

DecodingOptions = dict[str, float]


@dataclass(frozen=True)
class Trial:
    """Options of `CorrectionSearch`, and the scores of the corrections with these options."""

    options: DecodingOptions
    scores: Mapping[str, float]


@dataclass(frozen=True)
class TuningResult:
    """The decodings with default options and with the best options."""

    signature: Signature
    default: Trial
    best: Trial
    decodings: int
    """Number of combinations of options that were decoded, including the default."""

    @property
    def flags(self) -> DecodingOptions:
        """The best options that differ from 0."""
        return {name: value for name, value in self.best.options.items() if value}

    def lines(self) -> list[str]:
        """Return the search and the scores as lines of text."""
        searched = prod(map(len, GRID.values()))
        lines = [
            f"{searched} combinations of {len(GRID)} options compared in the first round, "
            f"{self.decodings} in all rounds"
        ]
        for name, trial in (("without", self.default), ("with", self.best)):
            scores = ", ".join(f"{key} {value:.2f}" for key, value in trial.scores.items())
            lines.append(f"{name}: {scores}")
        return lines


class StoredCandidates:
    """Function that returns the candidate edits of sentences, and stores those of each sentence.

    The models read each sentence once. New sentences are passed in batches of similar length.
    """

    def __init__(self, find: Callable[[Spans, Any], EditCandidates], batch_size: int) -> None:
        """Store the results of `find`, an `EditCandidateFinder`."""
        self.find = find
        self.batch_size = batch_size
        self.known: dict[bytes, EditCandidates] = {}

    def __call__(
        self, text: Spans, device: Any, report: Callable[[int], None] | None = None
    ) -> EditCandidates:
        """Return the candidate edits at each position of sentences that begin with <s>.

        Args:
            text: the sentences.
            device: the device of the models.
            report: called with the number of sentences in each batch.
        """
        keys = [ids.tobytes() for ids in _split(text.ids, text)]
        new = {key: index for index, key in enumerate(keys) if key not in self.known}
        order = np.array(list(new.values()), np.int64)
        order = order[np.argsort(-text.lengths[order], kind="stable")]
        if report is not None:
            report(len(text) - len(order))
        for begin in range(0, len(order), self.batch_size):
            which = order[begin : begin + self.batch_size]
            batch = text.select(which)
            fields = zip(*(_split(field, batch) for field in self.find(batch, device)), strict=True)
            for index, candidates in zip(which.tolist(), fields, strict=True):
                self.known[keys[index]] = EditCandidates(*candidates)
            if report is not None:
                report(len(which))
        fields = zip(*(self.known[key] for key in keys), strict=True)
        return EditCandidates(*map(np.concatenate, fields))


def _split(values: Any, like: Spans) -> list[Any]:
    return np.split(values, like.starts[1:])


def tune_edit_confidence(
    source: str | Path,
    target: str | Path,
    config: CorrectionConfig,
    *,
    metric: str = METRICS[0],
    progress: ProgressFactory = silent_progress,
) -> TuningResult:
    """Tune the options of `CorrectionSearch` for an edit tagger on held-out sentences.

    All combinations of the values in `edit_search.GRID` are compared by the edits of the first
    round, for which the models read each sentence once. The default options and the best
    combinations are then compared by decoding in all rounds.

    Args:
        source: file of held-out sentences to correct.
        target: file of the corrected sentences.
        config: the models. Both files are tokenized, whatever its tokenizer. With its `spelling`,
            the scores are those of the remaining edits.
        metric: ``f0.5`` of the edits, or ``exact``, the percentage of correct sentences.
        progress: called with the number of sentences, then of decodings.
    """
    check_choice("metric", metric, METRICS)
    source, spelling = Path(source), optional_path(config.spelling)
    sources, targets = _read_sides(source, Path(target), spelling)
    tuner = _Tuner(load_tagger(config), sources, targets, config.batch_size)
    options = tuner.search(metric, progress)
    report = progress("edits tune", "decodings", len(options))
    trials = [Trial(choice, tuner.decode(choice)) for choice in counted(options, report)]
    best = max(trials, key=lambda trial: trial.scores[metric])
    params = {
        **{"metric": metric, "weights": ",".join(map(str, config.weights)) or "equal"},
        **{"iterations": config.iterations, "batch_size": config.batch_size},
        "model_digest": content_digest(*config.models, *([spelling] if spelling else [])),
    }
    files = {"source": str(source), "models": list(map(str, config.models))}
    files |= {"data_dir": str(config.data_dir or "none"), "spelling": str(spelling or "none")}
    result = TuningResult(Signature("edits-tune", params, files), trials[0], best, len(trials))
    params.update({**result.flags, **best.scores})
    return result


def _read_sides(source: Path, target: Path, spelling: Path | None) -> tuple[list[str], list[str]]:
    """Return the lines of both files, those of the source with corrected spelling."""
    sources, targets = list(read_lines(source)), list(read_lines(target))
    if not sources or len(sources) != len(targets):
        raise DataError(
            f"{source} has {len(sources)} lines but {target} has {len(targets)}. Both files must "
            f"have the same number of lines, at least one.{m2_hint(source, target)}"
        )
    if spelling is not None:
        correct = spelling_corrector(spelling)
        sources = [" ".join(correct(line.split())) for line in sources]
    return sources, targets


class _Tuner:
    """An edit tagger with held-out sentences."""

    def __init__(
        self, corrector: Any, sources: Sequence[str], targets: Sequence[str], batch_size: int
    ) -> None:
        self.corrector = corrector
        self.sources = sources
        self.targets = targets
        self.batch_size = batch_size

    def search(self, metric: str, progress: ProgressFactory) -> list[DecodingOptions]:
        """Return the default options and the best options for the first round of corrections."""
        corrector, task = self.corrector, self.corrector.task
        stored = self._generator().candidates
        lines = [line.numpy() for line in corrector.encode(self.sources)]
        text = Spans.of(lines).without_last().with_first(task.source_dictionary.bos())
        report = progress("edits tune", "sentences", len(text))
        candidates = stored(text, corrector.device, report)
        sides = (map(corrector.tokenize, side) for side in (self.sources, self.targets))
        gold = label_pairs(LabelExtractor(task.edits), zip(*sides, strict=True))
        best = EditSearch(candidates, text.starts, gold).best(metric, DECODINGS)
        default = dict.fromkeys(GRID, 0.0)
        return [default, *(options for options in best if options != default)]

    def decode(self, options: DecodingOptions) -> Mapping[str, float]:
        """Correct the sentences in all rounds with decoding options, and return the scores."""
        generator = self._generator()
        generator.settings = replace(generator.settings, **options)
        texts = (line.text for line in self.corrector.correct(self.sources, CHUNK))
        return agreement(zip(self.sources, texts, self.targets, strict=True)).scores

    def _generator(self) -> Any:
        """Return the generator with stored candidates.

        The corrector builds a new generator, with new word ids, after many unknown words.
        """
        generator = self.corrector.generator
        if not isinstance(generator.candidates, StoredCandidates):
            generator.candidates = StoredCandidates(generator.candidates, self.batch_size)
        return generator
