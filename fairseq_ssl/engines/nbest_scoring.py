"""A block of an n-best list, scored: each of its lines gets another score or two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from fairseq_ssl.engines.scoring import Loader, Pair, Scored, Scorer, Scoring
from fairseq_ssl.errors import DataError
from fairseq_ssl.io.blocks import RowBlock
from fairseq_ssl.io.executors import worker_number
from fairseq_ssl.io.resumable import file_fingerprint
from fairseq_ssl.io.text_files import compressed, read_lines
from fairseq_ssl.text.nbest import Candidate, candidate_line, read_candidate
from fairseq_ssl.text.subwords.model import cutter


@dataclass(frozen=True)
class ScoredBlock:
    """What became of a block."""

    output: bytes
    ends: tuple[int, ...]
    candidates: int
    tokens: int
    cut: int
    share: float


@dataclass(frozen=True)
class NBestScoring:
    """Scores the candidates of a block, long ones first, and writes them in the order given."""

    load: Loader
    scoring: Scoring
    source: Path | None = None
    """What the candidates are translations of, a sentence a line."""
    source_subwords: Path | None = None
    subwords: Path | None = None
    """Models that cut text into tokens (None: tokens stand between spaces)."""
    compressed: bool = False

    def __call__(self, block: RowBlock) -> ScoredBlock:
        """Score the block."""
        lines = block.lines(0)
        known = [read_candidate(line, block.place(0, place)) for place, line in enumerate(lines)]
        names = self.scoring.names
        for place, (_, candidate) in enumerate(known):
            for name in names:
                if name in candidate.scores:
                    raise DataError(
                        f"{block.place(0, place)} has the score {name!r} already. Choose another "
                        "--name."
                    )
        pairs = self._pairs(block, known)
        scorer = _scorer(self.load, self.scoring, worker_number())
        found = checked(scorer.score(pairs), block.place(0, 0))
        text = "".join(
            candidate_line(
                number,
                replace(
                    candidate, scores={**candidate.scores, **dict(zip(names, row, strict=True))}
                ),
            )
            + "\n"
            for (number, candidate), row in zip(known, found.values, strict=True)
        )
        output = compressed(text.encode("utf-8"), self.compressed)
        return ScoredBlock(output, block.ends, len(lines), found.tokens, found.cut, block.share)

    def _pairs(self, block: RowBlock, known: Sequence[tuple[int, Candidate]]) -> list[Pair]:
        """Return each candidate's source and itself as tokens."""
        cut, cut_source = cutter(self.subwords), cutter(self.source_subwords)
        lines: tuple[str, ...] = ()
        if self.source is not None:
            lines = _lines(self.source, *file_fingerprint(self.source))
        sources: dict[int, list[str]] = {}
        pairs = []
        for place, (number, candidate) in enumerate(known):
            if self.source is not None and number not in sources:
                if number >= len(lines):
                    raise DataError(
                        f"{block.place(0, place)} is of sentence {number}, and {self.source} has "
                        f"{len(lines)} lines. Expected the sentences that the candidates are "
                        "translations of, the first is 0."
                    )
                sources[number] = cut_source(lines[number]).split()
            pairs.append((sources.get(number, []), cut(candidate.text).split()))
        return pairs


def checked(found: Scored, where: str) -> Scored:
    """Refuse text of which the model knows few tokens."""
    if found.unknown > found.tokens / 2:
        raise DataError(
            f"The model does not know {found.unknown} of the {found.tokens} tokens from {where} "
            "on. Cut the text as that of its training was: pass --subwords and "
            "--source-subwords, or other languages."
        )
    return found


@lru_cache(maxsize=4)
def _scorer(load: Loader, scoring: Scoring, worker: int) -> Scorer:
    """Return the scorer of this process, which is loaded once."""
    return load(scoring, worker)


@lru_cache(maxsize=1)
def _lines(path: Path, size: int, written: int) -> tuple[str, ...]:
    """Return the lines of a file as it is now."""
    return tuple(read_lines(path))
