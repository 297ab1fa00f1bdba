"""``fairseq-ssl rerank post-ensemble`` and ``vectors``: the majority of systems' outputs."""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from fairseq_ssl.cli.console import watched
from fairseq_ssl.cli.options import add_output, check_output, check_range, one_writer, write_lines
from fairseq_ssl.cli.sub_verbs import Steps
from fairseq_ssl.errors import DataError, UsageError, flag
from fairseq_ssl.io.text_files import read_parallel
from fairseq_ssl.metrics.bleu import bleu_words
from fairseq_ssl.signature import Signature

if TYPE_CHECKING:
    from fairseq_ssl.rerank.post_ensemble import Kernel, SimilarityArray

CONCENTRATION = 1.0
NUMBERS = {
    "dimensions": (300, 10_000, "of a vector, 300 as in the thesis; "),
    "epochs": (5, 10_000, ""),
    "min_count": (5, 10**9, "leave out words that occur less often; "),
    "window": (5, 1000, "words on each side that a word is trained to foretell; "),
    "buckets": (2_000_000, 10**9, "for n-grams of 3 to 6 letters, a vector each; "),
    "jobs": (1, 1024, "threads; with more than one, two runs differ; "),
}
"""Of ``vectors``: the default, the most, and what it is."""


def add_post_ensemble(steps: Steps) -> None:
    """Declare post-ensemble."""
    step = steps.add(
        "post-ensemble",
        "of several systems' outputs for a sentence, write the one most like all (Kobayashi, "
        "2018); of equals the first system's",
        _post_ensemble,
    )
    step.add_argument(
        "outputs",
        type=Path,
        nargs="+",
        metavar="OUTPUT",
        help="what each system wrote, line by line; .gz by suffix; two or more",
    )
    step.add_argument(
        "--vectors",
        type=Path,
        required=True,
        metavar="FILE",
        help="of words, as fastText writes them: .vec (also .vec.gz), where words not there are "
        "left out; or .bin, which makes vectors of unknown words from their letters",
    )
    step.add_argument(
        "--kernel",
        choices=("cosine", "von-mises-fisher"),
        default="cosine",
        help="of the vectors' means: their cosine (PostCosE) or exp(kappa cos) (PostVmfE); an "
        "output without a known word is taken only if there is no other (default: %(default)s)",
    )
    step.add_argument(
        "--concentration",
        type=float,
        metavar="KAPPA",
        help="of the kernel von-mises-fisher, above 0; near 0 it chooses as cosine does, the "
        f"higher it is the more near neighbours alone count (default: {CONCENTRATION})",
    )
    step.add_argument(
        "--weight",
        type=float,
        action="append",
        metavar="W",
        help="how much an output counts for the others, one a system, in their order; 0 or more "
        "(default: all 1)",
    )
    _add_tokenizer(step)
    add_output(step)


def add_vectors(steps: Steps) -> None:
    """Declare vectors."""
    step = steps.add(
        "vectors",
        "train vectors of words by fastText's skip-grams on text, which is read once to count and "
        "once an epoch, never whole; how often each word comes is written beside them, in .counts",
        _vectors,
    )
    step.add_argument(
        "text", type=Path, nargs="+", metavar="TEXT", help="a sentence a line; .gz by suffix"
    )
    step.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="FILE",
        help="where to write: .vec or .vec.gz for the words, .bin to know the letters too",
    )
    for name, (default, most, what) in NUMBERS.items():
        text = f"{what}1 to {most:,} (default: {default:,})"
        step.add_argument(flag(name), type=int, default=default, metavar="N", help=text)
    step.add_argument("--seed", type=int, default=1, help=f"0 to {2**32 - 1:,} (default: 1)")
    _add_tokenizer(step)


def _add_tokenizer(step: argparse.ArgumentParser) -> None:
    step.add_argument(
        "--tokenizer",
        default="none",
        metavar="NAME",
        help="what cuts lines into words, of sacreBLEU's, as ja-mecab, zh, 13a; the same for "
        "vectors and post-ensemble; what is written stays as it was (default: none, words stand "
        "between spaces)",
    )


@one_writer
def _post_ensemble(args: argparse.Namespace) -> int:
    from fairseq_ssl.rerank.post_ensemble import Means, majority
    from fairseq_ssl.rerank.word_vectors import read_vectors

    check_output(args.output, args.vectors, *args.outputs)
    kernel, rewrite = _kernel(args), bleu_words(args.tokenizer)
    weights = _weights(args)
    rows = list(read_parallel(args.outputs))
    if not rows:
        raise DataError(f"{args.outputs[0]} is empty. Expected a line or more.")
    words = {word for row in rows for text in row for word in rewrite(text).split()}
    means = Means(read_vectors(args.vectors, words), rewrite)
    taken: Counter[int] = Counter()

    def lines() -> Iterator[str]:
        for row in rows:
            number = majority(row, means, kernel, weights)
            taken[number] += 1
            yield row[number]

    parameters = {
        "kernel": args.kernel,
        "concentration": args.concentration,
        "tokenizer": args.tokenizer,
        "vectors": str(args.vectors),
        "outputs": [str(path) for path in args.outputs],
        "weights": args.weight,
    }
    write_lines(lines(), args.output, Signature("post-ensemble", parameters))
    shares = ", ".join(f"{path} {taken[n]}" for n, path in enumerate(args.outputs))
    print(f"taken: {shares}; {_known(means.known, means.words)}", file=sys.stderr)
    return 0


def _known(known: int, words: int) -> str:
    if not words:
        return "the outputs were equal everywhere"
    return f"{known / words:.1%} of the words of lines that differ have a vector"


def _kernel(args: argparse.Namespace) -> Kernel:
    from fairseq_ssl.rerank.post_ensemble import cosine, von_mises_fisher

    if args.kernel == "cosine":
        if args.concentration is not None:
            raise UsageError("--concentration goes with --kernel von-mises-fisher.")
        return cosine
    if args.concentration is None:
        args.concentration = CONCENTRATION
    if not 0 < args.concentration < math.inf:
        raise UsageError(f"--concentration is {args.concentration}; expected more than 0.")
    return von_mises_fisher(args.concentration)


def _weights(args: argparse.Namespace) -> SimilarityArray | None:
    import numpy as np

    if len(args.outputs) < 2:
        raise UsageError("post-ensemble needs two outputs or more.")
    if args.weight is None:
        return None
    if len(args.weight) != len(args.outputs):
        raise UsageError(
            f"There are {len(args.outputs)} outputs and {len(args.weight)} --weight; expected one "
            "for each."
        )
    if not all(0 <= weight < math.inf for weight in args.weight) or not any(args.weight):
        raise UsageError(f"--weight is {args.weight}; expected 0 or more, and one above 0.")
    return np.array(args.weight)


@one_writer
def _vectors(args: argparse.Namespace) -> int:
    from fairseq_ssl.rerank.word_vectors import Training, train_vectors

    for name, (_, most, _) in NUMBERS.items():
        check_range(flag(name), getattr(args, name), 1, most)
    check_range("--seed", args.seed, 0, 2**32 - 1)
    if Path("-") in args.text:
        raise UsageError("The text is read several times, so it can not be stdin. Name a file.")
    check_output(args.output, *args.text)
    training = Training(
        args.dimensions,
        args.epochs,
        args.min_count,
        args.window,
        args.buckets,
        args.seed,
        args.jobs,
    )

    def watch(lines: Iterable[str]) -> Iterable[str]:
        return watched(lines, "rerank vectors", "lines")

    rewrite = bleu_words(args.tokenizer)
    words = train_vectors(args.text, args.output, training, rewrite, watch)
    parameters = {**vars(training), "tokenizer": args.tokenizer, "text": list(map(str, args.text))}
    signature = Signature("word-vectors", {"words": words, **parameters})
    signature.write_beside(args.output)
    print(f"{signature}\nwrote {words} vectors to {args.output}", file=sys.stderr)
    return 0
