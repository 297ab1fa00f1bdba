"""Tune the decoding options of an edit tagger on held-out sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_ssl.analysis.edit_search import GRID, MIN_BIAS, EditSearch, label_pairs
from fairseq_ssl.edits.application import TopEdits
from fairseq_ssl.edits.coverage import METRICS, agreement
from fairseq_ssl.edits.decoding import CorrectionSearch
from fairseq_ssl.edits.extraction import LabelExtractor
from fairseq_ssl.edits.rounds import EditRounds
from fairseq_ssl.errors import DataError, check_choice
from fairseq_ssl.inference.correction import CorrectionConfig, load_rounds
from fairseq_ssl.io.blocks import m2_hint
from fairseq_ssl.io.fingerprints import content_digest
from fairseq_ssl.io.jobs import ProgressFactory, counted, silent_progress
from fairseq_ssl.io.text_files import optional_path, read_lines
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.spans import Spans
from fairseq_ssl.text.spelling import spelling_corrector

DECODINGS = 5
"""Maximum number of option combinations that are decoded, in addition to the default options."""
CHUNK = 4096
"""Number of sentences that are corrected per call."""

DecodingOptions = dict[str, float]


@dataclass(frozen=True)
class Trial:
    """Options of `CorrectionSearch`, and the scores obtained with them, in percent."""

    options: DecodingOptions
    scores: Mapping[str, float]


@dataclass(frozen=True)
class TuningResult:
    """The trials with the default options and with the best options."""

    signature: Signature
    default: Trial
    best: Trial

    @property
    def flags(self) -> DecodingOptions:
        """Best options that differ from the default options."""
        default = self.default.options
        return {name: value for name, value in self.best.options.items() if value != default[name]}

    def lines(self) -> list[str]:
        """Return the scores of both trials as lines of text."""
        return [
            f"{name}: " + ", ".join(f"{key} {value:.2f}" for key, value in trial.scores.items())
            for name, trial in (("default", self.default), ("best", self.best))
        ]


class StoredScores:
    """Wrapper around an edit-scoring engine that caches the scores of each sentence.

    The models score each distinct sentence once. New sentences are batched by length.
    """

    def __init__(self, engine: Callable[[Spans], TopEdits], batch_size: int) -> None:
        """Wrap an engine, which is called with at most `batch_size` sentences."""
        self.engine = engine
        self.batch_size = batch_size
        self.known: dict[bytes, TopEdits] = {}

    def __call__(self, text: Spans, report: Callable[[int], None] | None = None) -> TopEdits:
        """Return the scores at each position.

        Args:
            text: sentences that begin with <s>.
            report: called with the number of sentences finished since the last call.
        """
        keys = [ids.tobytes() for ids in text.split(text.ids)]
        new = {key: index for index, key in enumerate(keys) if key not in self.known}
        order = np.array(list(new.values()), np.int64)
        order = order[np.argsort(-text.lengths[order], kind="stable")]
        if report is not None:
            report(len(text) - len(order))
        for begin in range(0, len(order), self.batch_size):
            which = order[begin : begin + self.batch_size]
            batch = text.select(which)
            fields = zip(*(batch.split(field) for field in self.engine(batch)), strict=True)
            for index, scores in zip(which.tolist(), fields, strict=True):
                self.known[keys[index]] = TopEdits(*scores)
            if report is not None:
                report(len(which))
        fields = zip(*(self.known[key] for key in keys), strict=True)
        return TopEdits(*map(np.concatenate, fields))


def tune_edit_confidence(
    source: str | Path,
    target: str | Path,
    config: CorrectionConfig,
    *,
    metric: str = METRICS[0],
    progress: ProgressFactory = silent_progress,
) -> TuningResult:
    """Tune the options of `CorrectionSearch` for an edit tagger on held-out sentences.

    All combinations of the values in `edit_search.GRID` are compared on the edits of the first
    correction round. For this, the models score each sentence once. The default options and the
    best combinations are then compared by decoding in all rounds.

    Args:
        source: file of held-out sentences to correct.
        target: file of the corrected sentences.
        config: models and search options. Its tokenizer is ignored: both files must be tokenized.
            If `spelling` is set, the source spelling is corrected first and is not scored.
        metric: ``f0.5`` of the edits, or ``exact``, the percentage of correct sentences.
        progress: creates the progress reports, which count sentences and then decodings.
    """
    check_choice("metric", metric, METRICS)
    source, spelling = Path(source), optional_path(config.spelling)
    sources, targets = _read_sides(source, Path(target), spelling)
    rounds = load_rounds(config)
    tuner = _Tuner(rounds, sources, targets, config.batch_size)
    options = tuner.search(metric, progress)
    report = progress("edits tune", "decodings", len(options))
    trials = [Trial(choice, tuner.decode(choice)) for choice in counted(options, report)]
    best = max(trials, key=lambda trial: trial.scores[metric])
    params: dict[str, Any] = {
        **{"metric": metric, "weights": ",".join(map(str, config.weights)) or "equal"},
        **{"iterations": rounds.search.iterations, "batch_size": config.batch_size},
        "model_digest": content_digest(*config.models, *([spelling] if spelling else [])),
    }
    files = {"source": str(source), "models": list(map(str, config.models))}
    files |= {"data_dir": str(config.data_dir or "none"), "spelling": str(spelling or "none")}
    result = TuningResult(Signature("edits-tune", params, files), trials[0], best)
    scores = {name: round(score, 2) for name, score in best.scores.items()}
    params.update(result.flags | scores)
    return result


def _read_sides(source: Path, target: Path, spelling: Path | None) -> tuple[list[str], list[str]]:
    """Return the lines of both files. If `spelling` is set, the source spelling is corrected."""
    sources, targets = list(read_lines(source)), list(read_lines(target))
    if not sources or len(sources) != len(targets):
        raise DataError(
            f"{source} has {len(sources)} lines but {target} has {len(targets)}. Both files must "
            f"have the same number of lines, at least one.{m2_hint(source, target)}"
        )
    correct = spelling_corrector(spelling)
    return [" ".join(correct(line.split())) for line in sources], targets


class _Tuner:
    """Comparison of an edit tagger's decoding options on held-out sentences."""

    def __init__(
        self, rounds: EditRounds, sources: Sequence[str], targets: Sequence[str], batch_size: int
    ) -> None:
        self.rounds = rounds
        self.default = rounds.search
        self.stored = rounds.score = StoredScores(rounds.engine, batch_size)
        self.sources = [line.split() for line in sources]
        self.targets = [line.split() for line in targets]

    def search(self, metric: str, progress: ProgressFactory) -> list[DecodingOptions]:
        """Return the default options, then the best options for the first correction round."""
        text = self.rounds.encode(self.sources)
        scores = self.stored(text, progress("edits tune", "sentences", len(text)))
        candidates = self.rounds.applier.candidates(scores, text, MIN_BIAS)
        gold = label_pairs(
            LabelExtractor(self.rounds.edits), zip(self.sources, self.targets, strict=True)
        )
        best = EditSearch(candidates, text.starts, gold).best(metric, DECODINGS)
        default = {name: float(getattr(self.default, name)) for name in GRID}
        return [default, *(options for options in best if options != default)]

    def decode(self, options: DecodingOptions) -> Mapping[str, float]:
        """Correct the sentences in all rounds with these options. Return the scores."""
        self.rounds.search = CorrectionSearch(**vars(self.default) | options)
        corrected = self.rounds.correct(self.sources, CHUNK)
        texts = (" ".join(sentence.tokens) for sentence in corrected)
        source, target = (map(" ".join, side) for side in (self.sources, self.targets))
        return agreement(zip(source, texts, target, strict=True)).scores
