"""Speed of the weight search relative to scoring the selected texts at each point, in points/s."""

from __future__ import annotations

import itertools
from functools import partial
from pathlib import Path

import harness
import numpy as np
import sacrebleu

from fairseq_ssl.io.executors import LocalExecutor
from fairseq_ssl.metrics.bleu import BleuSums
from fairseq_ssl.rerank.candidates import SCORE_UNITS, Candidates, CandidateStatistics, choices
from fairseq_ssl.rerank.grid import grid_search
from fairseq_ssl.rerank.line_search import line_search

GOAL = 100.0
WORDS = 2000
Texts = list[list[str]]


def corpus(
    sentences: int, length: int, each: int, features: int
) -> tuple[Texts, list[str], object]:
    """Return candidates with errors, references, and scores that depend on the errors."""
    draw = np.random.default_rng(1)
    words = np.array([f"word{n}" for n in range(WORDS)], dtype=object)
    texts, references = [], []
    wrong = draw.uniform(0, 0.6, (sentences, each))
    for shares in wrong:
        right = words[draw.integers(0, WORDS, draw.integers(length // 2, length + length // 2) + 1)]
        references.append(" ".join(right))
        noise = words[draw.integers(0, WORDS, (each, len(right)))]
        keep = draw.random((each, len(right))) >= shares[:, None]
        texts.append([" ".join(row) for row in np.where(keep, right, noise)])
    spread = draw.uniform(0.3, 1.5, features)
    scores = -wrong[..., None] * 2 + draw.normal(size=(sentences, each, features)) * spread
    return texts, references, scores


def ours(candidates: Candidates, texts: Texts, references: list[str], parts: int, jobs: int) -> int:
    """Search a grid as in rerank tune, counts included. Return the number of points."""
    statistics = CandidateStatistics.of(BleuSums(), texts, [references])
    grid_search(candidates, statistics, parts, LocalExecutor(jobs))
    return int((parts + 1) ** len(candidates.names)) - 1


def lines(candidates: Candidates, texts: Texts, references: list[str], parts: int) -> int:
    """Search along lines (MERT). Return the number of points of the equally good grid."""
    statistics = CandidateStatistics.of(BleuSums(), texts, [references])
    line_search(candidates, statistics)
    return int((parts + 1) ** len(candidates.names)) - 1


def plain(
    candidates: Candidates, texts: Texts, references: list[str], parts: int, points: int
) -> int:
    """Compute corpus BLEU of the texts selected by some points of the grid."""
    draw = np.random.default_rng(1)
    for _ in range(points):
        weights = draw.integers(1, parts + 1, len(candidates.names))
        chosen = [rows[k] for rows, k in zip(texts, choices(candidates, weights), strict=True)]
        sacrebleu.corpus_bleu(chosen, [references])
    return points


def check(candidates: Candidates, texts: Texts, references: list[str]) -> None:
    """Assert that both find the same optimum on a coarse grid."""
    some = min(50, len(texts))
    few = candidates.subset(np.arange(some)).only(candidates.names[:3])
    statistics = CandidateStatistics.of(BleuSums(), texts[:some], [references[:some]])
    best, _ = grid_search(few, statistics, 4)
    scores = {}
    for point in itertools.product(range(5), repeat=len(few.names)):
        picked = choices(few, np.array(point))
        chosen = [rows[k] for rows, k in zip(texts, picked, strict=False)]
        if any(point):
            scores[point] = sacrebleu.corpus_bleu(chosen, [references[:some]]).score
    found = scores[tuple((best * 4 // SCORE_UNITS).tolist())]
    assert abs(found - max(scores.values())) < 1e-9


def main() -> None:
    """Run the benchmark and print its report."""
    options = harness.parser((__doc__ or "").splitlines()[0], gpu=False)
    options.add_argument(
        "--mert",
        action="store_true",
        help="measure the line search (MERT) instead of the grid search",
    )
    options.add_argument("--sentences", type=int, default=1000)
    options.add_argument("--length", type=int, default=20, help="sentence length in words")
    options.add_argument("--candidates", type=int, default=20, help="candidates for each sentence")
    options.add_argument("--features", type=int, default=6)
    options.add_argument("--parts", type=int, default=10, help="grid steps from weight 0 to 1")
    options.add_argument("--points", type=int, default=20, help="points that are scored from text")
    options.add_argument("--jobs", type=int, default=2)
    args = harness.parse(options)
    comparison = harness.Comparison(
        Path(__file__).stem,
        "lines" if args.mert else "boxes",
        "corpus_bleu",
        unit="points/s",
        goal=GOAL,
        settings=vars(args),
    )
    texts, references, scores = corpus(args.sentences, args.length, args.candidates, args.features)
    names = [f"f{n}" for n in range(args.features)]
    rows = [[dict(zip(names, row, strict=True)) for row in one] for one in np.asarray(scores)]
    candidates = Candidates.of(rows)
    check(candidates, texts, references)
    fast = partial(lines) if args.mert else partial(ours, jobs=args.jobs)
    first = partial(fast, candidates, texts, references, args.parts)
    second = partial(plain, candidates, texts, references, args.parts, args.points)
    harness.compare(comparison, first, second, args.pairs, warm_up=0)
    harness.publish(comparison)


if __name__ == "__main__":
    main()
