"""``fairseq-ssl rerank post-ensemble`` and ``vectors``: choose among the outputs of systems."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from fairseq_ssl.cli.console import progress
from fairseq_ssl.cli.options import add_output, check_output, integer, one_writer, write_lines
from fairseq_ssl.cli.sub_verbs import Steps
from fairseq_ssl.errors import UsageError, flag
from fairseq_ssl.signature import Signature

CONCENTRATION = 1.0
NUMBERS = {
    "dimensions": (300, 10_000, "dimensions of a vector, 300 in the thesis"),
    "epochs": (5, 10_000, "epochs"),
    "min_count": (5, 10**9, "minimum number of occurrences of a word"),
    "window": (5, 1000, "context words on each side of a word"),
    "buckets": (2_000_000, 10**9, "vectors that character n-grams of 3 to 6 letters share"),
    "jobs": (1, 1024, "threads; the result with several threads is not reproducible"),
}
"""Options of ``vectors``: default, maximum, and description."""


def add_post_ensemble(steps: Steps) -> None:
    """Declare post-ensemble."""
    step = steps.add(
        "post-ensemble",
        "write the output of each sentence that is most similar to those of all systems "
        "(Kobayashi, 2018); ties go to the first system",
        _post_ensemble,
    )
    step.add_argument(
        "outputs",
        type=Path,
        nargs="+",
        metavar="OUTPUT",
        help="output of each system, one line a sentence, two or more; .gz by suffix",
    )
    step.add_argument(
        "--vectors",
        type=Path,
        required=True,
        metavar="FILE",
        help="word vectors of fastText: .vec or .vec.gz, where unknown words are ignored, or .bin, "
        "which computes vectors of unknown words from their letters",
    )
    step.add_argument(
        "--kernel",
        choices=("cosine", "von-mises-fisher"),
        default="cosine",
        help="similarity of mean vectors: cosine (PostCosE) or exp(kappa cos) (PostVmfE) (default: "
        "cosine)",
    )
    step.add_argument(
        "--concentration",
        type=float,
        metavar="KAPPA",
        help="kappa of von-mises-fisher, above 0; higher values give close neighbors more weight "
        f"(default: {CONCENTRATION})",
    )
    step.add_argument(
        "--weight",
        type=float,
        action="append",
        metavar="W",
        help="weight of a system, 0 or more; repeat for each system, in their order (default: 1)",
    )
    _add_tokenize(step)
    add_output(step)


@one_writer
def _post_ensemble(args: argparse.Namespace) -> int:
    from fairseq_ssl.rerank import post_ensemble

    check_output(args.output, args.vectors, *args.outputs)
    if args.concentration is not None and args.kernel != "von-mises-fisher":
        raise UsageError("--concentration needs --kernel von-mises-fisher.")
    if args.kernel == "von-mises-fisher" and args.concentration is None:
        args.concentration = CONCENTRATION
    chosen = post_ensemble(
        args.outputs,
        args.vectors,
        kernel=args.kernel,
        concentration=CONCENTRATION if args.concentration is None else args.concentration,
        weights=args.weight,
        tokenize=args.tokenize,
        progress=progress,
    )
    parameters = {
        "kernel": args.kernel,
        "concentration": args.concentration,
        "tokenize": args.tokenize,
        "vectors": str(args.vectors),
        "outputs": [str(path) for path in args.outputs],
        "weights": args.weight,
    }
    write_lines(chosen.lines, args.output, Signature("post-ensemble", parameters))
    counts = Counter(chosen.systems)
    taken = ", ".join(f"{path} {counts[index]}" for index, path in enumerate(args.outputs))
    known = "the outputs were equal everywhere"
    if chosen.words:
        share = chosen.known / chosen.words
        known = f"{share:.1%} of the words of lines that differ have a vector"
    print(f"taken: {taken}; {known}", file=sys.stderr)
    return 0


def add_vectors(steps: Steps) -> None:
    """Declare vectors."""
    step = steps.add(
        "vectors",
        "train word vectors by the skip-grams of fastText, and write the word counts beside them, "
        "in .counts; reads the text once to count and once in each epoch",
        _vectors,
    )
    step.add_argument(
        "text", type=Path, nargs="+", metavar="TEXT", help="one sentence a line; .gz by suffix"
    )
    step.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="FILE",
        help="vectors: .vec or .vec.gz for words, .bin for character n-grams too",
    )
    for name, (default, maximum, what) in NUMBERS.items():
        text = f"{what}, 1 to {maximum:,} (default: {default:,})"
        step.add_argument(
            flag(name), type=integer(1, maximum), default=default, metavar="N", help=text
        )
    step.add_argument(
        "--seed",
        type=integer(0, 2**32 - 1),
        default=1,
        metavar="N",
        help=f"random seed, 0 to {2**32 - 1:,} (default: 1)",
    )
    _add_tokenize(step)


@one_writer
def _vectors(args: argparse.Namespace) -> int:
    from fairseq_ssl.rerank import VectorTraining, train_vectors

    if Path("-") in args.text:
        raise UsageError("The text cannot be stdin, since it is read several times. Name a file.")
    check_output(args.output, *args.text)
    training = VectorTraining(
        args.dimensions,
        args.epochs,
        args.min_count,
        args.window,
        args.buckets,
        args.seed,
        args.jobs,
    )
    signature = train_vectors(args.text, args.output, training, args.tokenize, progress)
    words = signature.parameters["words"]
    print(f"{signature}\nwrote {words} vectors to {args.output}", file=sys.stderr)
    return 0


def _add_tokenize(step: argparse.ArgumentParser) -> None:
    step.add_argument(
        "--tokenize",
        default="none",
        metavar="NAME",
        help="tokenizer of sacreBLEU, such as ja-mecab, zh or 13a, the same for vectors and "
        "post-ensemble; does not change what is written (default: none, words are separated by "
        "spaces)",
    )
