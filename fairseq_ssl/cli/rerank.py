"""``fairseq-ssl rerank``: merge n-best lists, tune and apply weights, post-ensembles."""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from fairseq_ssl.cli import options, rerank_features, rerank_tune
from fairseq_ssl.cli.console import print_lines, progress
from fairseq_ssl.cli.main import Steps
from fairseq_ssl.errors import UsageError, nearest
from fairseq_ssl.io.fingerprints import content_digest
from fairseq_ssl.options import add_options, passed
from fairseq_ssl.rerank import VectorTraining, post_ensemble, train_vectors
from fairseq_ssl.rerank.nbest import MergedLines, parse_list
from fairseq_ssl.rerank.weights import apply_to_lines, check_weights
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.tokenization import Detokenization, moses_detokenizer


def add_post_ensemble(steps: Steps) -> None:
    """Add the subcommand ``post-ensemble`` and its arguments."""
    step = steps.add(
        "post-ensemble",
        "select the output of each sentence that is most similar to the outputs of all systems "
        "(Kobayashi, 2018); ties go to the first system",
        _post_ensemble,
    )
    options.add_path(
        step,
        "outputs",
        "outputs of two or more systems, one sentence per line; .gz or .zst by suffix",
        "OUTPUT",
        nargs="+",
    )
    options.add_path(
        step,
        "--vectors",
        "word vectors in fastText's format: .vec or .vec.gz, which ignores unknown words, or "
        ".bin, which composes vectors of unknown words from character n-grams",
        required=True,
    )
    add_options(step, VectorTraining, ["tokenize"])
    options.add_output_or_stdout(step)


@options.one_writer
def _post_ensemble(args: argparse.Namespace) -> None:
    options.check_output(args.output, args.vectors, *args.outputs)
    tokenize = VectorTraining(**passed(args, VectorTraining)).tokenize
    chosen = post_ensemble(args.outputs, args.vectors, tokenize=tokenize, progress=progress)
    parameters = {
        "kernel": "cosine",
        "tokenize": tokenize,
        "vectors_digest": content_digest(args.vectors),
        "systems": len(args.outputs),
    }
    files = {"vectors": str(args.vectors), "outputs": list(map(str, args.outputs))}
    options.write_lines(chosen.lines, args.output, Signature("post-ensemble", parameters, files))
    counts = Counter(chosen.systems)
    taken = ", ".join(f"{path} {counts[index]}" for index, path in enumerate(args.outputs))
    known = "all outputs are equal"
    if chosen.words:
        known = f"{chosen.known / chosen.words:.1%} of the words in differing lines have a vector"
    print_lines(f"selected: {taken}; {known}")


def add_vectors(steps: Steps) -> None:
    """Add the subcommand ``vectors`` and its arguments."""
    step = steps.add(
        "vectors",
        "train skip-gram word vectors as in fastText, and write word counts to OUTPUT.counts",
        _vectors,
    )
    options.add_path(
        step,
        "text",
        "tokenized text, one sentence per line; .gz or .zst by suffix",
        "TEXT",
        nargs="+",
    )
    options.add_output(step, "vectors: .vec or .vec.gz for words, .bin with character n-grams")
    add_options(step, VectorTraining)


@options.one_writer
def _vectors(args: argparse.Namespace) -> None:
    if Path("-") in args.text:
        raise UsageError("The text cannot be stdin, since it is read several times. Name a file.")
    options.check_output(args.output, *args.text)
    training = VectorTraining(**passed(args, VectorTraining))
    signature = train_vectors(args.text, args.output, training, progress)
    words = signature.parameters["words"]
    print_lines(signature, f"wrote {words} vectors to {args.output}")


EXAMPLES = """\
  fairseq-generate data-bin ... --nbest 10 > l2r.txt
  fairseq-ssl rerank merge l2r=l2r.txt r2l=r2l.txt --right-to-left r2l -o dev.nbest
  fairseq-ssl rerank features dev.nbest --translation 1.pt 2.pt 3.pt 4.pt --source dev.en \\
      --data-dir data-bin --subwords bpe.en bpe.de -o dev.s2t.nbest
  fairseq-ssl rerank features dev.nbest --translation de-en.pt --reverse --source dev.en \\
      --data-dir data-bin --subwords bpe.en bpe.de -o dev.t2s.nbest
  fairseq-ssl rerank features dev.nbest --language-model lm.pt --data-dir lm-bin -o dev.lm.nbest
  fairseq-ssl rerank features dev.nbest --masked-model mlm.pt --data-dir lm-bin -o dev.mlm.nbest
  fairseq-ssl rerank merge s2t=dev.s2t.nbest t2s=dev.t2s.nbest lm=dev.lm.nbest \\
      mlm=dev.mlm.nbest -o dev.scored.nbest
  fairseq-ssl rerank tune dev.scored.nbest --reference dev.de -o weights.json --report scores.txt
  fairseq-ssl rerank tune dev.scored.nbest --reference dev.de --method grid --step 0.1 --jobs 2
  fairseq-ssl rerank apply test.scored.nbest --weights weights.json > test.de
  fairseq-ssl rerank apply test.nbest --weight l2r=1 --weight r2l=1 > test.de
  fairseq-ssl rerank vectors news.tok.ja.gz -o news.vec
  fairseq-ssl rerank post-ensemble a.ja b.ja c.ja --vectors news.vec > test.ja"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands of ``rerank`` and their arguments to the parser."""
    steps = Steps(parser)
    _add_merge(steps)
    rerank_features.add_features(steps)
    rerank_tune.add_tune(steps)
    _add_apply(steps)
    add_post_ensemble(steps)
    add_vectors(steps)


def _add_merge(steps: Steps) -> None:
    merge = steps.add(
        "merge",
        "merge n-best lists without duplicates, in the format of Moses: "
        "0 ||| text ||| name= score ||| total ||| from= lists",
        _merge,
    )
    merge.add_argument(
        "list",
        nargs="+",
        metavar="NAME=LIST",
        help="n-best list in the format of Moses, or output of fairseq-generate --nbest N; NAME is "
        "the name of its score, a natural logarithm divided by length ** lenpen; .gz or .zst by "
        "suffix; --subwords and --moses apply to output of fairseq-generate",
    )
    merge.add_argument(
        "--right-to-left",
        action="append",
        default=[],
        metavar="NAME",
        help="name of a list of fairseq-generate whose model generates the last token first; "
        "repeat for more lists",
    )
    add_options(merge, Detokenization)
    options.add_output_or_stdout(merge)


@options.one_writer
def _merge(args: argparse.Namespace) -> None:
    paths = _named_lists(args.list)
    options.check_output(args.output, *paths.values())
    for name in args.right_to_left:
        if name not in paths:
            raise UsageError(f"--right-to-left {name} is not a list.{nearest(name, paths)}")
    texts = Detokenization(**passed(args, Detokenization))
    rewrite = moses_detokenizer(texts.subwords, texts.moses)
    merged = MergedLines(
        {
            name: parse_list(
                options.input_lines(path), str(path), name, rewrite, name in args.right_to_left
            )
            for name, path in paths.items()
        }
    )
    files = {"lists": {name: str(path) for name, path in paths.items()}}
    parameters = {"names": list(paths), "right_to_left": args.right_to_left, **asdict(texts)}
    signature = Signature("rerank-merge", parameters, files)
    options.write_lines(merged, args.output, signature)
    print_lines(
        f"merged {len(paths)} lists: {merged.sentences} sentences, {merged.candidates} candidates, "
        f"{merged.candidates / merged.sentences:.1f} each"
    )


def _named_lists(words: Sequence[str]) -> dict[str, Path]:
    """Return the paths of n-best lists by name, by default the file name without suffixes."""
    lists: dict[str, Path] = {}
    for word in words:
        given, path = options.split_name(word)
        name = path.name.partition(".")[0] if given is None else given
        if not name or name != "".join(name.split()) or "=" in name:
            raise UsageError(f"{word!r} is not NAME=LIST. A name has no space and no =.")
        if name in lists:
            raise UsageError(f"Two lists have the name {name!r}. Name them NAME=LIST.")
        lists[name] = path
    return lists


def _add_apply(steps: Steps) -> None:
    apply = steps.add(
        "apply",
        "select the candidate of each sentence with the highest weighted sum (thesis, eq. 5.1)",
        _apply,
    )
    rerank_tune.add_nbest(apply)
    options.add_path(apply, "--weights", "output of rerank tune")
    apply.add_argument(
        "--weight",
        action="append",
        metavar="NAME=W",
        help="score name and weight, w_j in the thesis, 0 or more, in place of --weights; repeat "
        "for more scores; other scores are ignored",
    )
    apply.add_argument(
        "--nbest",
        action="store_true",
        help="write all candidates, best first, with their weighted sums as totals",
    )
    options.add_output_or_stdout(apply)


@options.one_writer
def _apply(args: argparse.Namespace) -> None:
    options.check_output(args.output, args.nbest_list, args.weights)
    if (args.weights is None) == (args.weight is None):
        raise UsageError("Pass either --weights or --weight.")
    if args.weights:
        weights = rerank_tune.weights_of_file(args.weights)
    else:
        weights = check_weights(_parse_weights(args.weight), "--weight")
    name = str(args.nbest_list)
    parameters = {"weights": weights, "nbest": args.nbest}
    signature = Signature("rerank-apply", parameters, {"list": name})
    lines = apply_to_lines(options.input_lines(args.nbest_list), weights, name, args.nbest)
    options.write_lines(lines, args.output, signature)


def _parse_weights(words: Sequence[str]) -> dict[str, float]:
    weights: dict[str, float] = {}
    for word in words:
        name, equals, number = word.rpartition("=")
        try:
            weight = float(number)
        except ValueError:
            weight = math.nan
        if not equals or not name or math.isnan(weight):
            raise UsageError(f"--weight is {word!r}. Expected NAME=W, such as l2r=0.5.")
        if name in weights:
            raise UsageError(f"--weight {name} is given twice.")
        weights[name] = weight
    return weights
