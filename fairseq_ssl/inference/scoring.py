"""Scores of sentences and of n-best candidates by models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from fairseq_ssl.errors import DataError
from fairseq_ssl.io.blocks import RowBlock
from fairseq_ssl.io.executors import worker_number
from fairseq_ssl.io.resumable import file_fingerprint
from fairseq_ssl.io.text_files import compress_chunk, read_lines
from fairseq_ssl.rerank.length_norms import PENALTY
from fairseq_ssl.rerank.nbest import Candidate, format_candidate, parse_candidate
from fairseq_ssl.text.subwords.model import subword_segmenter

TRANSLATION, LANGUAGE_MODEL, MASKED_MODEL = "translation", "language-model", "masked-model"

TokenLists = list[str]
TokenPair = tuple[TokenLists, TokenLists]
"""A source and its translation, in tokens of the model; of those that know one language only
the second counts."""


@dataclass(frozen=True)
class ScoringConfig:
    """Models, and how to score with them."""

    kind: str
    """TRANSLATION, LANGUAGE_MODEL or MASKED_MODEL."""
    models: tuple[Path, ...]
    """Checkpoints, of an ensemble where there are several."""
    name: str
    """What the score is called; a second one has something behind it."""
    data_dir: Path | None = None
    """Folder of the dictionaries (None: the one the model was trained on)."""
    languages: tuple[str | None, str | None] = (None, None)
    """That the model translates between (None: the ones the checkpoint or that folder tells)."""
    reverse: bool = False
    """The model makes sources from translations."""
    right_to_left: bool | None = None
    """It writes the last token first (None: what the checkpoint tells)."""
    length_penalty: float = 1.0
    penalty: float = PENALTY
    """Alpha of PenLP."""
    logits: bool = False
    """Of a masked model, sum its scores before the softmax."""
    unigrams: Path | None = None
    """A file of tokens and counts (None: those of the dictionary)."""
    batch_tokens: int = 4000
    """Tokens of a batch, padding included."""
    half: bool = False
    device: str = "cpu"
    threads: int = 1

    @property
    def names(self) -> tuple[str, ...]:
        """Of the scores, one or two."""
        second = {LANGUAGE_MODEL: ("slor",), MASKED_MODEL: ("penlp",)}.get(self.kind, ())
        return (self.name, *(f"{self.name}-{word}" for word in second))


@dataclass(frozen=True)
class Scored:
    """What is known of some pairs."""

    values: list[tuple[float, ...]]
    """The scores of each, by the names of the scoring."""
    tokens: int
    """Of all sentences that were read."""
    unknown: int
    """Tokens that the model does not know."""
    cut: int
    """Pairs that were longer than the model reads, and were cut."""


class Scorer(Protocol):
    """Scores sentences."""

    def score(self, pairs: Sequence[TokenPair]) -> Scored:
        """Return the scores of each pair."""


ScorerLoader = Callable[[ScoringConfig, int], Scorer]
"""Loads a scorer in the process that uses it, whose number, from 0, chooses its GPU."""


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

    load: ScorerLoader
    scoring: ScoringConfig
    source: Path | None = None
    """What the candidates are translations of, a sentence a line."""
    source_subwords: Path | None = None
    subwords: Path | None = None
    """Models that cut text into tokens (None: tokens stand between spaces)."""
    compressed: bool = False

    def __call__(self, block: RowBlock) -> ScoredBlock:
        """Score the block."""
        lines = block.lines(0)
        known = [parse_candidate(line, block.place(0, place)) for place, line in enumerate(lines)]
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
        found = check_nbest_scoring(scorer.score(pairs), block.place(0, 0))
        text = "".join(
            format_candidate(
                number,
                replace(
                    candidate, scores={**candidate.scores, **dict(zip(names, row, strict=True))}
                ),
            )
            + "\n"
            for (number, candidate), row in zip(known, found.values, strict=True)
        )
        output = compress_chunk(text.encode("utf-8"), self.compressed)
        return ScoredBlock(output, block.ends, len(lines), found.tokens, found.cut, block.share)

    def _pairs(self, block: RowBlock, known: Sequence[tuple[int, Candidate]]) -> list[TokenPair]:
        """Return each candidate's source and itself as tokens."""
        cut, cut_source = subword_segmenter(self.subwords), subword_segmenter(self.source_subwords)
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


def check_nbest_scoring(found: Scored, where: str) -> Scored:
    """Refuse text of which the model knows few tokens."""
    if found.unknown > found.tokens / 2:
        raise DataError(
            f"The model does not know {found.unknown} of the {found.tokens} tokens from {where} "
            "on. Cut the text as that of its training was: pass --subwords and "
            "--source-subwords, or other languages."
        )
    return found


@lru_cache(maxsize=4)
def _scorer(load: ScorerLoader, scoring: ScoringConfig, worker: int) -> Scorer:
    """Return the scorer of this process, which is loaded once."""
    return load(scoring, worker)


@lru_cache(maxsize=1)
def _lines(path: Path, size: int, written: int) -> tuple[str, ...]:
    """Return the lines of a file as it is now."""
    return tuple(read_lines(path))
