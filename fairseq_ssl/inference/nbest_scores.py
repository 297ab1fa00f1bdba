"""Model scores for n-best candidates, used as re-ranking features."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.inference.loading import model_params
from fairseq_ssl.inference.scorers import ScorerLoader, scorer_loader, with_name
from fairseq_ssl.inference.scoring import (
    CHECKED_TOKENS,
    TRANSLATION,
    Scorer,
    ScoringConfig,
    TokenPair,
    check_known_tokens,
)
from fairseq_ssl.io.blocks import Block
from fairseq_ssl.io.corpus import Corpus
from fairseq_ssl.io.executors import Executor, worker_number
from fairseq_ssl.io.fingerprints import content_digest, file_fingerprint
from fairseq_ssl.io.jobs import Fingerprints, ProgressFactory, fingerprints, silent_progress
from fairseq_ssl.io.parts import BlockResult
from fairseq_ssl.io.text_files import open_text, optional_path, read_lines
from fairseq_ssl.io.text_jobs import Output, Outputs, TextJob
from fairseq_ssl.rerank.nbest import Candidate, format_candidate, parse_candidate
from fairseq_ssl.signature import Signature, changed_options
from fairseq_ssl.text.subwords.model import model_file, subword_segmenter

logger = logging.getLogger(__name__)
BLOCK_KIB = 256
"""Block size in KiB. The candidates of a block are sorted by length and scored together."""
LAST = "last"
"""Key of a count in block results: the number of candidates for the last source sentence."""


@dataclass(frozen=True)
class NBestScoresSummary:
    """Signature, score names and counts for a scored n-best list."""

    signature: Signature
    names: tuple[str, ...]
    """Names of the added scores."""
    candidates: int
    cut: int
    """Number of candidates whose text or source was truncated to the model's maximum length."""
    seconds: float
    """Scoring time in seconds. For output files, it includes interrupted runs."""


def score_nbest_file(
    nbest: str | Path | None,
    output: Output,
    config: ScoringConfig,
    *,
    source: str | Path | None = None,
    source_subwords: str | Path | None = None,
    subwords: str | Path | None = None,
    executor: Executor | None = None,
    overwrite: bool = False,
    progress: ProgressFactory = silent_progress,
) -> NBestScoresSummary | None:
    """Add model scores to an n-best list. Call `fairseq_ssl.register` first.

    Return None if the output was complete or other shards must finish. An interrupted run resumes.

    Args:
        nbest: n-best list, or None for stdin.
        output: destination of the scored list: a file, a folder of parts, or a binary stream.
        config: models and scoring options.
        source: source sentences, for translation models. The list refers to them by index, from 0.
        source_subwords: file or prefix of the source subword model (default: split at spaces).
        subwords: file or prefix of the candidate subword model (default: split at spaces).
        executor: executor that scores the candidates (default: the current process does). Worker
            processes need `fairseq_ssl.register` as initializer.
        overwrite: whether to replace an existing output.
        progress: creates the progress report, which receives the number of scored candidates.
    """
    if config.kind == TRANSLATION and source is None:
        raise UsageError("`source` is not set. Translation models need the source sentences.")
    files = {
        "source": optional_path(source),
        "source_subwords": model_file(source_subwords) if source_subwords else None,
        "subwords": model_file(subwords) if subwords else None,
        "unigrams": optional_path(config.unigrams),
    }
    corpus, outputs = Corpus((optional_path(nbest),), BLOCK_KIB * 1024), Outputs.of(output)
    job = _NBestJob(corpus, outputs, executor, progress, with_name(config), files)
    if not job.run(overwrite):
        return None
    counts = job.totals["lines"], job.totals["cut"]
    return NBestScoresSummary(job.signature(), job.config.names, *counts, job.seconds)


@dataclass
class _NBestJob(TextJob):
    """Resumable job that `score_nbest_file` runs."""

    config: ScoringConfig
    files: Mapping[str, Path | None]
    name, unit = "rerank features", "candidates"
    part_size = 2**20

    def reads(self) -> Iterable[Path | None]:
        return self.files.values()

    def parameters(self) -> dict[str, Any]:
        read = {"list": self.corpus.texts[0], **self.files}.items()
        return {
            **model_params(self.config, "models"),
            **{name: path and str(path) for name, path in read},
            **{f"{name}_is": path and file_fingerprint(path) for name, path in read},
            "output": str(self.outputs.paths[0] if self.outputs.paths else None),
            "block": self.corpus.block_size,
        }

    def signature(self) -> Signature:
        config = self.config
        left_out = ("kind", "name", "models", "data_dir", "unigrams", "device", "threads")
        parameters = {"kind": config.kind, "models": len(config.models), "name": config.name}
        parameters |= changed_options(config, *left_out)
        parameters |= {
            f"{name}_digest": content_digest(path)
            for name, path in self.files.items()
            if name != "source" and path
        }
        parameters["model_digest"] = content_digest(*config.models)
        parameters["dictionaries"] = self.params["dictionaries"]
        counts = {"candidates": self.totals["lines"]}
        counts |= {name: self.totals[name] for name in ("tokens", "unknown", "cut")}
        return Signature("rerank-features", parameters, self.params | counts)

    def prepare(self) -> NBestScorer:
        _scorer.cache_clear()  # an earlier call could have loaded a file that changed
        if self.files["source"] is not None:
            with open_text(self.files["source"]):
                pass  # workers read the file, but only this process can show notices about it
        return NBestScorer(
            scorer_loader(self.config),
            self.config,
            self.files["source"],
            self.files["source_subwords"],
            self.files["subwords"],
            fingerprints(*self.config.models, self.config.unigrams, self.config.data_dir),
        )

    def check(self) -> None:
        """After `CHECKED_TOKENS` tokens, raise DataError if more than half of them are unknown."""
        if self.totals["tokens"] >= CHECKED_TOKENS:
            self._check_tokens()

    def check_end(self) -> None:
        """Raise DataError if most tokens are unknown. Warn if the last source has no candidates."""
        super().check_end()
        self._check_tokens()
        source = self.files["source"]
        if source and not self.totals[LAST]:
            lines = sum(1 for _ in read_lines(source))
            logger.warning(
                f"{source} has {lines} lines, but the list has no candidates of its last line. "
                "Check that it is the source of this list."
            )

    def _check_tokens(self) -> None:
        where = f"{self.totals['lines']} candidates"
        check_known_tokens(self.totals["unknown"], self.totals["tokens"], where)


@dataclass(frozen=True)
class NBestScorer:
    """Picklable function that adds model scores to the candidates of a block, in input order."""

    load: ScorerLoader
    scoring: ScoringConfig
    source: Path | None = None
    """Source sentences, one per line."""
    source_subwords: Path | None = None
    """Subword model of the source sentences. None splits them at spaces."""
    subwords: Path | None = None
    """Subword model of the candidates. None splits them at spaces."""
    files: Fingerprints = ()
    """Fingerprints of models and resources. If they change, a process loads the models again."""

    def __call__(self, block: Block) -> BlockResult:
        """Return lines with added scores, and counts. Raise DataError if a score name is taken."""
        lines = block.lines()
        candidates = [parse_candidate(line, block.place(i)) for i, line in enumerate(lines)]
        names = self.scoring.names
        for index, (_, candidate) in enumerate(candidates):
            for name in names:
                if name in candidate.scores:
                    raise DataError(
                        f"{block.place(index)} already contains the score {name!r}. Choose a "
                        "different `name`."
                    )
        pairs = self._pairs(block, candidates)
        scorer = _scorer(self.load, self.scoring, worker_number(), self.files)
        scored = scorer.score(pairs)
        text = "".join(
            format_candidate(
                number,
                replace(
                    candidate, scores={**candidate.scores, **dict(zip(names, row, strict=True))}
                ),
            )
            + "\n"
            for (number, candidate), row in zip(candidates, scored.values, strict=True)
        )
        counts = Counter(
            lines=len(lines), tokens=scored.tokens, unknown=scored.unknown, cut=scored.cut
        )
        last = len(self._sources()) - 1
        counts[LAST] = sum(number == last for number, _ in candidates)
        return BlockResult((text.encode("utf-8"),), counts)

    def _sources(self) -> tuple[str, ...]:
        """Return the source sentences, or an empty tuple if there is no source file."""
        return _lines(self.source, *file_fingerprint(self.source)) if self.source else ()

    def _pairs(self, block: Block, candidates: Sequence[tuple[int, Candidate]]) -> list[TokenPair]:
        """Return a pair of source tokens and candidate tokens for each candidate."""
        segment = subword_segmenter(self.subwords)
        segment_source = subword_segmenter(self.source_subwords)
        lines = self._sources()
        sources: dict[int, list[str]] = {}
        pairs = []
        for index, (number, candidate) in enumerate(candidates):
            if self.source is not None and number not in sources:
                if number >= len(lines):
                    raise DataError(
                        f"{block.place(index)} has the sentence index {number}, but {self.source} "
                        f"has {len(lines)} lines. Indices start at 0. Expected the source "
                        "sentences of the n-best list."
                    )
                sources[number] = segment_source(lines[number]).split()
            pairs.append((sources.get(number, []), segment(candidate.text).split()))
        return pairs


@lru_cache(maxsize=4)
def _scorer(load: ScorerLoader, scoring: ScoringConfig, worker: int, files: Fingerprints) -> Scorer:
    """Return the scorer of this process, which is cached for the same arguments."""
    return load(scoring, worker)


@lru_cache(maxsize=1)
def _lines(path: Path, size: int, written: int) -> tuple[str, ...]:
    """Return the lines of a file. Its size and modification time are part of the cache key."""
    return tuple(read_lines(path))
