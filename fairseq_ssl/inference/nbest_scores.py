"""Model scores of the candidates of n-best lists, as features for re-ranking."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

from fairseq_ssl._version import __version__
from fairseq_ssl.errors import DataError, UsageError, check_positive
from fairseq_ssl.inference.scorers import ScorerLoader, scorer_loader, with_name
from fairseq_ssl.inference.scoring import (
    CHECKED_TOKENS,
    TRANSLATION,
    Scorer,
    ScoringConfig,
    TokenPair,
    check_known_tokens,
)
from fairseq_ssl.io.blocks import BLOCK_SIZE, RowBlock, row_blocks
from fairseq_ssl.io.executors import Executor, LocalExecutor, worker_number
from fairseq_ssl.io.fingerprints import content_digest, data_params, file_fingerprint
from fairseq_ssl.io.jobs import (
    Chunks,
    Fingerprints,
    JobState,
    ProgressFactory,
    file_or_stream,
    fingerprints,
    run_job,
    silent_progress,
)
from fairseq_ssl.io.text_files import (
    compress_chunk,
    open_text,
    optional_path,
    read_lines,
    stdin_text,
)
from fairseq_ssl.rerank.nbest import Candidate, format_candidate, parse_candidate
from fairseq_ssl.signature import Signature, changed_options
from fairseq_ssl.text.subwords.model import model_file, subword_segmenter

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class NBestScoresSummary:
    """Score names and counts of a scored n-best list."""

    signature: Signature
    names: tuple[str, ...]
    """Names of the scores that were added."""
    candidates: int
    cut: int
    """Number of candidates that were truncated to the model's maximum length."""
    seconds: float
    """Time of the scoring, including interrupted runs."""


def score_nbest_file(
    nbest: str | Path | None,
    output: str | Path | IO[bytes],
    config: ScoringConfig,
    *,
    source: str | Path | None = None,
    source_subwords: str | Path | None = None,
    subwords: str | Path | None = None,
    block: int = BLOCK_SIZE // 1024,
    executor: Executor | None = None,
    overwrite: bool = False,
    progress: ProgressFactory = silent_progress,
) -> NBestScoresSummary | None:
    """Add a model's scores to an n-best list. Return None if an earlier run has completed it.

    An interrupted run resumes. Call `fairseq_ssl.register` first.

    Args:
        nbest: n-best list, compressed if it ends with ``.gz``. None: stdin.
        output: file for the list with the scores, compressed if it ends with ``.gz``, or a binary
            stream.
        config: models and scoring options.
        source: for translation models, the source sentences, numbered from 0 in the list.
        source_subwords: file or prefix of the subword model of the sources (default: tokens
            separated by spaces).
        subwords: the same for the candidates.
        block: size in KiB of the blocks of the list that are sorted and scored one at a time.
        executor: executor of the scoring (default: this process).
        overwrite: whether to replace an existing output.
        progress: called with the number of candidates scored.
    """
    if config.kind == TRANSLATION and source is None:
        raise UsageError("`translation` needs `source`, the file of source sentences.")
    check_positive("block", block)
    path, stream = file_or_stream(output)
    files = {
        "list": nbest,
        "source": source,
        "source_subwords": source_subwords and model_file(source_subwords),
        "subwords": subwords and model_file(subwords),
        "unigrams": config.unigrams,
    }
    job = _NBestJob(
        with_name(config),
        path,
        {name: optional_path(file) for name, file in files.items()},
        block * 1024,
        executor or LocalExecutor(1),
        progress,
    )
    written = run_job(
        [path] if path else [],
        job.params,
        job.chunks,
        job.signature,
        overwrite=overwrite,
        from_stdin=nbest is None,
        stdout=stream,
    )
    return job.summary() if written else None


@dataclass
class _NBestJob:
    """Arguments and counts of one call of `score_nbest_file`."""

    config: ScoringConfig
    output: Path | None
    files: dict[str, Path | None]
    size: int
    executor: Executor
    progress: ProgressFactory
    totals: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    def __post_init__(self) -> None:
        config = asdict(self.config)
        del config["threads"]
        config["models"] = [[str(path), *file_fingerprint(path)] for path in self.config.models]
        config |= data_params(self.config.data_dir)
        files = self.files.items()
        names = {name: path and str(path) for name, path in files}
        prints = {f"{name}_is": path and file_fingerprint(path) for name, path in files}
        self.params: dict[str, Any] = {
            **config,
            **names,
            **prints,
            "output": str(self.output),
            "block": self.size,
            "version": __version__,
        }
        """Parameters that determine the content of the output."""

    def signature(self) -> Signature:
        """Return a signature with the parameters of the output and the counts of all candidates."""
        config = self.config
        left_out = ("kind", "name", "models", "data_dir", "unigrams", "device", "threads")
        parameters = {"kind": config.kind, "models": len(config.models), "name": config.name}
        parameters |= changed_options(config, *left_out)
        parameters |= {
            f"{name}_digest": content_digest(path)
            for name, path in self.files.items()
            if name not in ("list", "source") and path
        }
        parameters["model_digest"] = content_digest(*config.models)
        parameters["dictionaries"] = self.params["dictionaries"]
        return Signature("rerank-features", parameters, self.params | self.totals)

    def summary(self) -> NBestScoresSummary:
        """Return the counts of the output, including the candidates of interrupted runs."""
        return NBestScoresSummary(
            self.signature(),
            self.config.names,
            self.totals["candidates"],
            self.totals["cut"],
            self.seconds,
        )

    def chunks(self, state: JobState) -> Iterator[tuple[Chunks, JobState]]:
        """Score the list from the position in `state`, or from the start if it is empty.

        Yield the output bytes of each block, and the state after the block.
        """
        position = 0
        if state:
            position = state["position"]
            self.totals.update(state["totals"])
            logger.warning("resuming after line %s", self.totals["candidates"])
        _scorer.cache_clear()  # an earlier call could have loaded a file that changed
        scorer = NBestScorer(
            scorer_loader(self.config),
            self.config,
            self.files["source"],
            self.files["source_subwords"],
            self.files["subwords"],
            self.output is not None and self.output.suffix == ".gz",
            fingerprints(*self.config.models, self.config.unigrams, self.config.data_dir),
        )
        if self.files["source"] is not None:
            with open_text(self.files["source"]):
                pass  # workers read the file, but only this process can show notices about it
        report = self.progress("rerank features", "candidates")
        last = state.get("last", 0)
        self.seconds = state.get("time", 0.0)
        begin = time.monotonic() - self.seconds
        for result in self.executor.imap(scorer, self._blocks(position)):
            names = ("candidates", "tokens", "unknown", "cut")
            self.totals.update({name: getattr(result, name) for name in names})
            if self.totals["tokens"] >= CHECKED_TOKENS:
                self._check_tokens()
            self.seconds = time.monotonic() - begin
            report(result.candidates, result.share or None)
            last = max(last, result.last)
            now = {"position": result.ends[0], "totals": self.totals, "time": self.seconds}
            yield [result.output], {**now, "last": last}
        if not self.totals["candidates"]:
            raise DataError(f"{self.files['list'] or 'stdin'} is empty. Expected an n-best list.")
        self._check_tokens()
        self._compare_source(last)

    def _check_tokens(self) -> None:
        first = f"the first {self.totals['candidates']} candidates"
        check_known_tokens(self.totals["unknown"], self.totals["tokens"], first)

    def _compare_source(self, last: int) -> None:
        """Log a warning if the source has lines after the sentence `last`, as for a wrong file.

        This is not an error, since the list can be a part of a longer one.
        """
        if (source := self.files["source"]) is None:
            return
        lines = sum(1 for _ in read_lines(source))
        if lines > last + 1:
            logger.warning(
                f"{source} has {lines} lines, but the last sentence of the list has the index "
                f"{last}. Check that it is the source of this list."
            )

    def _blocks(self, position: int) -> Iterator[RowBlock]:
        path = self.files["list"]
        with ExitStack() as stack:
            file = stack.enter_context(open_text(path)) if path else stdin_text()
            names, first = [str(path or "stdin")], self.totals["candidates"] + 1
            yield from row_blocks([file], names, [position], first, self.size)


@dataclass(frozen=True)
class ScoredBlock:
    """The lines of a block with added scores, and its counts."""

    output: bytes
    ends: tuple[int, ...]
    """Offset after the block in the list, in bytes."""
    candidates: int
    tokens: int
    unknown: int
    cut: int
    share: float
    last: int
    """Highest index of a sentence."""


@dataclass(frozen=True)
class NBestScorer:
    """Function that adds scores to the lines of a block. Output lines match the input order."""

    load: ScorerLoader
    scoring: ScoringConfig
    source: Path | None = None
    """Source sentences, one per line."""
    source_subwords: Path | None = None
    """Subword model of the sources (None: tokens are separated by spaces)."""
    subwords: Path | None = None
    """Subword model of the candidates (None: tokens are separated by spaces)."""
    compressed: bool = False
    files: Fingerprints = ()
    """Fingerprints of the models. If they change, a process loads the models again."""

    def __call__(self, block: RowBlock) -> ScoredBlock:
        """Return the lines of a block with the scores of this process's scorer."""
        lines = block.lines(0)
        candidates = [parse_candidate(line, block.place(0, i)) for i, line in enumerate(lines)]
        names = self.scoring.names
        for index, (_, candidate) in enumerate(candidates):
            for name in names:
                if name in candidate.scores:
                    raise DataError(
                        f"{block.place(0, index)} has the score {name!r} already. Choose a "
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
        output = compress_chunk(text.encode("utf-8"), self.compressed)
        last = max(number for number, _ in candidates)
        counts = len(lines), scored.tokens, scored.unknown, scored.cut
        return ScoredBlock(output, block.ends, *counts, block.share, last)

    def _pairs(
        self, block: RowBlock, candidates: Sequence[tuple[int, Candidate]]
    ) -> list[TokenPair]:
        """Return the source tokens and the tokens of each candidate."""
        segment = subword_segmenter(self.subwords)
        segment_source = subword_segmenter(self.source_subwords)
        lines: tuple[str, ...] = ()
        if self.source is not None:
            lines = _lines(self.source, *file_fingerprint(self.source))
        sources: dict[int, list[str]] = {}
        pairs = []
        for index, (number, candidate) in enumerate(candidates):
            if self.source is not None and number not in sources:
                if number >= len(lines):
                    raise DataError(
                        f"{block.place(0, index)} has the sentence index {number} but "
                        f"{self.source} has {len(lines)} lines. Expected the source sentences of "
                        "the list, counted from 0."
                    )
                sources[number] = segment_source(lines[number]).split()
            pairs.append((sources.get(number, []), segment(candidate.text).split()))
        return pairs


@lru_cache(maxsize=4)
def _scorer(load: ScorerLoader, scoring: ScoringConfig, worker: int, files: Fingerprints) -> Scorer:
    """Return the scorer of this process. It is loaded only once."""
    return load(scoring, worker)


@lru_cache(maxsize=1)
def _lines(path: Path, size: int, written: int) -> tuple[str, ...]:
    """Return the lines of a file. Its size and modification time are part of the cache key."""
    return tuple(read_lines(path))
