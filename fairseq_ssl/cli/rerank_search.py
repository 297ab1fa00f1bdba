"""``fairseq-ssl rerank tune`` and ``report``: weights from a development set, and their worth."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairseq_ssl._version import __version__
from fairseq_ssl.cli.console import progress
from fairseq_ssl.cli.options import (
    add_jobs,
    add_rewriting,
    check_output,
    check_range,
    input_lines,
    local_executor,
    one_writer,
)
from fairseq_ssl.cli.rerank_lists import add_nbest, groups_of, read_weights
from fairseq_ssl.cli.sub_verbs import Steps
from fairseq_ssl.errors import DataError, UsageError, nearest
from fairseq_ssl.io.atomic import atomic_lines
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.tokenization import moses_detokenizer

if TYPE_CHECKING:
    from fairseq_ssl.rerank.candidates import Candidates, CandidateStatistics, Weights
    from fairseq_ssl.rerank.tuning import WeightSearch, Worth
    from fairseq_ssl.text.nbest import NBest

FIGURES = (".pdf", ".png", ".svg")
FINEST = 1000
"""The most steps that make a weight of 1."""
MOST_RESTARTS = 100_000


def add_tune(steps: Steps) -> None:
    """Declare tune."""
    tune = steps.add(
        "tune",
        "find the weights, in [0, 1], whose choices score highest (eq. 5.2); of weights "
        "proportional to each other, which choose the same, one is tried",
        _tune,
    )
    _add_search(tune)
    tune.add_argument(
        "--folds",
        type=int,
        default=5,
        metavar="K",
        help="also find weights K times without one of K parts of the sentences, which they then "
        "choose for: what of the gain stays on unseen ones; 2 or more, 0 for not (default: "
        "%(default)s)",
    )
    tune.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="where to write JSON (default: stdout)"
    )


def add_report(steps: Steps) -> None:
    """Declare report."""
    report = steps.add(
        "report",
        "what the first, random and the best candidates score (best by sentence: exact; best by "
        "corpus: greedy, so a lower bound), what each feature gives alone, and what is lost when "
        "all others choose, with weights found anew",
        _report,
    )
    _add_search(report)
    report.add_argument(
        "--weights",
        type=Path,
        metavar="FILE",
        help="what tune wrote, to take as the weights of all features (default: find them)",
    )
    report.add_argument(
        "--figure", type=Path, metavar="FILE", help="draw what each feature gives; .pdf, .png, .svg"
    )
    report.add_argument(
        "--format", choices=("text", "json"), default="text", help="(default: text)"
    )


def _add_search(parser: argparse.ArgumentParser) -> None:
    """Declare the list, what it should be, and how weights are found."""
    add_nbest(parser)
    parser.add_argument(
        "--reference",
        type=Path,
        action="append",
        required=True,
        metavar="FILE",
        help="what each sentence should be, line by line; may be repeated; .gz by suffix",
    )
    parser.add_argument(
        "--aim",
        choices=("bleu", "chrf", "chrf++"),
        default="bleu",
        help="the corpus score to raise, as sacreBLEU has it (default: %(default)s)",
    )
    parser.add_argument(
        "--tokenizer",
        default="13a",
        metavar="NAME",
        help="of sacreBLEU's, for bleu, as 13a, ja-mecab, zh, none (default: %(default)s)",
    )
    add_rewriting(parser, "none")
    parser.add_argument(
        "--features",
        metavar="NAME,NAME,...",
        help="the scores to weigh (default: all that every candidate has)",
    )
    parser.add_argument(
        "--method",
        choices=("grid", "mert", "both"),
        default="mert",
        help="grid: every point of a grid, as the thesis; mert: exact search along lines (Och, "
        "2003), in seconds for any number of features; both: lines from the grid's best point too, "
        "so at least as good (default: %(default)s)",
    )
    parser.add_argument(
        "--step",
        type=float,
        default=0.1,
        metavar="S",
        help="of the grid, a whole part of 1, from 0.001 to 1; J features have (1/S + 1)^J points: "
        "1.8 million for 6 by 0.1, ten times as many with one more (default: %(default)s)",
    )
    parser.add_argument(
        "--restarts",
        type=int,
        default=20,
        metavar="N",
        help="random points that lines start from, beside equal weights and each feature alone; 0 "
        f"to {MOST_RESTARTS} (default: %(default)s)",
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="of random points and parts; 0 or more (default: 1)"
    )
    add_jobs(parser)


@one_writer
def _tune(args: argparse.Namespace) -> int:
    check_output(args.output, args.nbest_list, *args.reference)
    if args.folds < 0 or args.folds == 1:
        raise UsageError(f"--folds is {args.folds}; expected 0, or 2 or more.")
    search = _search(args)
    candidates, statistics = _read(args)
    sentences = len(candidates.scores)
    if sentences < args.folds:
        raise DataError(f"{sentences} sentences can not make {args.folds} --folds. Give fewer.")
    found = _found(args, search, candidates, statistics)
    scores = found["scores"]
    content = {"method": "rerank-tune", "version": __version__, **found}
    text = json.dumps(content, indent=2, ensure_ascii=False)
    if args.output is None:
        print(text)
    else:
        with atomic_lines(args.output) as file:
            file.write(f"{text}\n")
    for name, score in scores.items():
        print(f"{name}: {score:.2f}", file=sys.stderr)
    signed = {key: value for key, value in found.items() if key != "scores"}
    print(Signature("rerank-tune", signed), file=sys.stderr)
    return 0


def _found(
    args: argparse.Namespace,
    search: WeightSearch,
    candidates: Candidates,
    statistics: CandidateStatistics,
) -> dict[str, Any]:
    """Find the weights; return them, their scores, and how they were found."""
    import numpy as np

    from fairseq_ssl.rerank.candidates import choices, equal_weights, named_weights
    from fairseq_ssl.rerank.tuning import cross_validated

    tell = progress("rerank tune", "trials")
    weights = search(candidates, statistics, tell)

    def score(by: Weights) -> float:
        return statistics.score(choices(candidates, by))

    first = statistics.score(np.zeros(len(candidates.scores), np.intp))
    scores = {
        "first candidates": first,
        "equal weights": score(equal_weights(candidates)),
        "these weights": score(weights),
        "gain": score(weights) - first,
    }
    if args.folds:
        unseen = cross_validated(search, candidates, statistics, args.folds, tell)
        scores |= {"cross-validated": unseen, "cross-validated gain": unseen - first}
    return {
        "weights": named_weights(candidates.names, weights),
        "scores": {name: round(score, 4) for name, score in scores.items()},
        **_parameters(args, candidates, statistics),
        "folds": args.folds,
    }


def _report(args: argparse.Namespace) -> int:
    from fairseq_ssl.rerank.candidates import choices, equal_weights, named_weights, whole_weights
    from fairseq_ssl.rerank.tuning import score_bounds, worths

    check_output(args.figure, args.nbest_list, args.weights, *args.reference)
    search = _search(args)
    if args.figure and args.figure.suffix not in FIGURES:
        raise UsageError(
            f"--figure is {args.figure}; expected one that ends in .pdf, .png or .svg."
        )
    given = read_weights(args.weights) if args.weights else None
    candidates, statistics = _read(args, given)
    tell = progress("rerank report", "trials")
    if given is None:
        weights = search(candidates, statistics, tell)
    else:
        weights = whole_weights({name: given.get(name, 0.0) for name in candidates.names})
    known = score_bounds(candidates, statistics, args.seed)
    scores = {
        "first candidates": known.first,
        "random candidates": known.random,
        "deviation of random": known.random_deviation,
        "equal weights": statistics.score(choices(candidates, equal_weights(candidates))),
        "these weights": statistics.score(choices(candidates, weights)),
        "best by sentence": known.oracle_sentences,
        "best by corpus": known.oracle_corpus,
    }
    features = worths(search, candidates, statistics, tell)
    if args.figure:
        _draw(args.figure, args.aim, scores, features)
    parameters = _parameters(args, candidates, statistics)
    found = {"scores": scores, "weights": named_weights(candidates.names, weights)}
    _publish(args, found, features, Signature("rerank-report", parameters))
    return 0


def _publish(
    args: argparse.Namespace,
    found: dict[str, Any],
    features: dict[str, Worth],
    signature: Signature,
) -> None:
    """Print the report."""
    if args.format == "json":
        worth = {name: asdict(one) for name, one in features.items()}
        content = {**found, "features": worth, "signature": str(signature)}
        print(json.dumps(content, indent=2, ensure_ascii=False))
        return
    for name, score in found["scores"].items():
        print(f"{name}\t{score:.2f}")
    print("\nfeature\tweight\talone\twithout\tlost")
    full = found["scores"]["these weights"]
    for name, one in features.items():
        numbers = [one.alone, one.without, None if one.without is None else full - one.without]
        cells = ["-" if number is None else f"{number:.2f}" for number in numbers]
        print("\t".join([name, f"{found['weights'][name]:.6g}", *cells]))
    print(signature)


def _draw(path: Path, aim: str, scores: dict[str, float], features: dict[str, Worth]) -> None:
    """Draw each feature alone, and all others, between lines for what bounds them."""
    from fairseq_ssl.analysis.figures import figure, grouped_bars, legend_above

    names = list(features)
    bars: dict[str, Sequence[float | None]] = {
        "alone": [features[name].alone for name in names],
        "all others": [features[name].without for name in names],
    }
    values = [value for row in bars.values() for value in row if value is not None]
    lines = ("first candidates", "these weights")
    shown = [*values, *(scores[name] for name in lines)]
    margin = 0.1 * max(max(shown) - min(shown), 0.1)
    with figure(path, width=max(6.0, 1.2 * len(names))) as (ax,):
        grouped_bars(ax, names, bars)
        for name, style in zip(lines, (":", "--"), strict=True):
            ax.axhline(scores[name], color="black", linestyle=style, linewidth=0.8, label=name)
        ax.set_ylim(min(shown) - margin, max(shown) + margin)
        ax.set_ylabel(aim.upper() if aim == "bleu" else aim.replace("chrf", "chrF"))
        legend_above(ax, columns=4)


def _search(args: argparse.Namespace) -> WeightSearch:
    """Return the search asked for; refuse what is out of range."""
    from fairseq_ssl.rerank.candidates import SCORE_UNITS
    from fairseq_ssl.rerank.tuning import WeightSearch

    check_range("--restarts", args.restarts, 0, MOST_RESTARTS)
    if args.seed < 0:
        raise UsageError(f"--seed is {args.seed}; expected 0 or more.")
    parts = round(1 / args.step) if 1 / FINEST <= args.step <= 1 else 0
    if not parts or abs(parts * args.step - 1) > 1e-9 or SCORE_UNITS % parts:
        raise UsageError(
            f"--step is {args.step}; expected a whole part of 1 from 0.001, as 0.1, 0.05 or 0.25."
        )
    spread = local_executor(args).ordered
    return WeightSearch(args.method, parts, args.restarts, args.seed, spread)


def _read(
    args: argparse.Namespace, weights: dict[str, float] | None = None
) -> tuple[Candidates, CandidateStatistics]:
    """Read the candidates and count what the aim needs."""
    from fairseq_ssl.metrics.bleu import sum_metric
    from fairseq_ssl.rerank.candidates import Candidates, CandidateStatistics

    if args.aim != "bleu" and args.tokenizer != "13a":
        raise UsageError(f"--tokenizer goes with --aim bleu, not with {args.aim}.")
    aim = sum_metric(args.aim, args.tokenizer)
    groups = list(groups_of(args.nbest_list))
    known = groups[0].candidates[0].scores
    names = args.features.split(",") if args.features else _shared(groups)
    for name in names if weights is None else {**dict.fromkeys(names), **weights}:
        if name not in known:
            raise UsageError(
                f"{args.nbest_list}:1 has no score {name!r}.{nearest(name, known)} It has "
                f"{', '.join(known) or 'none'}."
            )
    references = [list(input_lines(path)) for path in args.reference]
    for path, lines in zip(args.reference, references, strict=True):
        if len(lines) != len(groups):
            raise DataError(
                f"{path} has {len(lines)} lines and {args.nbest_list} {len(groups)} sentences. "
                "Expected a reference of each sentence."
            )
    lists = [[one.scores for one in group.candidates] for group in groups]
    candidates = Candidates.of(lists, list(dict.fromkeys(names)), str(args.nbest_list))
    plain = moses_detokenizer(args.subwords, args.moses)
    texts = [[plain(one.text) for one in group.candidates] for group in groups]
    return candidates, CandidateStatistics.of(aim, texts, references)


def _shared(groups: Sequence[NBest]) -> list[str]:
    """Return the scores that every candidate has; say which others there are."""
    scores = [one.scores for group in groups for one in group.candidates]
    every = dict.fromkeys(chain.from_iterable(scores))
    shared = [name for name in every if all(name in one for one in scores)]
    if shared and len(shared) < len(every):
        others = ", ".join(name for name in every if name not in shared)
        print(f"left out, as not every candidate has it: {others}", file=sys.stderr)
    return shared or list(scores[0])


def _parameters(
    args: argparse.Namespace, candidates: Candidates, statistics: CandidateStatistics
) -> dict[str, Any]:
    """Return what the numbers were made of."""
    by_grid = {"step": args.step} if args.method != "mert" else {}
    by_lines = {"restarts": args.restarts, "seed": args.seed} if args.method != "grid" else {}
    return {
        "list": str(args.nbest_list),
        "references": [str(path) for path in args.reference],
        "sentences": len(candidates.scores),
        "candidates": int(candidates.sizes.sum()),
        "features": len(candidates.names),
        "search": args.method,
        **by_grid,
        **by_lines,
        "aim": args.aim,
        "sacrebleu": statistics.aim.signature(),
    }
