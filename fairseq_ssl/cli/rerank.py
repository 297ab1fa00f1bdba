"""``fairseq-ssl rerank``: merge, score and rerank n-best lists, tune weights, combine systems."""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from fairseq_ssl.cli import options
from fairseq_ssl.cli.console import print_lines, progress
from fairseq_ssl.cli.main import Subcommands
from fairseq_ssl.errors import UsageError, nearest
from fairseq_ssl.inference.nbest_scores import score_nbest_file
from fairseq_ssl.inference.scoring import LANGUAGE_MODEL, MASKED_MODEL, TRANSLATION, ScoringConfig
from fairseq_ssl.io.fingerprints import content_digest
from fairseq_ssl.io.outputs import atomic_lines
from fairseq_ssl.options import add_options, passed
from fairseq_ssl.rerank import (
    NBest,
    TuningConfig,
    VectorTraining,
    WeightSearch,
    analyze,
    post_ensemble,
    train_vectors,
    tune,
)
from fairseq_ssl.rerank.nbest import MergedLines, parse_list
from fairseq_ssl.rerank.weights import apply_to_lines, check_weights, parse_weights
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.tokenization import Detokenization, moses_detokenizer

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
KINDS = {
    TRANSLATION: "translation model; adds the natural log P(candidate | source) with </s>, divided "
    "by length ** lenpen as in fairseq-generate",
    LANGUAGE_MODEL: "language model (fairseq checkpoint); adds NAME (log P / length with </s>) and "
    "NAME-slor (SLOR without </s>)",
    MASKED_MODEL: "masked language model (fairseq checkpoint, or Hugging Face folder of a BERT or "
    "RoBERTa model, whose tokenizer is used); adds NAME (mean pseudo-log-likelihood of the tokens) "
    "and NAME-penlp (PenLP)",
}
"""Help text for each kind of model."""
FIGURES = (".pdf", ".png", ".svg")
SCORED = "n-best list from rerank merge, with all scores of all candidates"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands of ``rerank`` and their arguments to the parser."""
    subcommands = Subcommands(parser)
    _add_merge(subcommands)
    _add_features(subcommands)
    _add_tune(subcommands)
    _add_apply(subcommands)
    _add_post_ensemble(subcommands)
    _add_vectors(subcommands)


def _add_merge(subcommands: Subcommands) -> None:
    merge = subcommands.add(
        "merge",
        "merge n-best lists and remove duplicates; the result is in Moses format: "
        "0 ||| text ||| name= score ||| total ||| from= lists",
        _merge,
    )
    merge.add_argument(
        "list",
        nargs="+",
        metavar="[NAME=]LIST",
        help="name and path of an n-best list in Moses format, or of fairseq-generate --nbest N "
        f"output {options.FORMATS}; for fairseq-generate output, NAME becomes the name of its "
        "score (natural log P / length ** lenpen), and --subwords and --moses are applied; "
        "without NAME, the name is the file name up to the first dot",
    )
    merge.add_argument(
        "--right-to-left",
        action="append",
        default=[],
        metavar="NAME",
        help="name of a fairseq-generate list whose model generates the last token first; repeat "
        "for more lists",
    )
    add_options(merge, Detokenization)
    options.add_output_or_stdout(merge)


@options.one_writer
def _merge(args: argparse.Namespace) -> None:
    paths = _named_lists(args.list)
    options.check_output(args.output, *paths.values())
    for name in args.right_to_left:
        if name not in paths:
            raise UsageError(
                f"--right-to-left is {name!r}, not the name of a list.{nearest(name, paths)} "
                f"Expected one of {', '.join(paths)}."
            )
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
    """Return n-best list paths by name. The default name is the file name up to the first dot."""
    lists: dict[str, Path] = {}
    for word in words:
        given, path = options.split_name(word)
        name = path.name.partition(".")[0] if given is None else given
        if not name or name != "".join(name.split()) or "=" in name:
            raise UsageError(f"{word!r} has no valid NAME. Pass NAME=LIST, no spaces or = in NAME.")
        if name in lists:
            raise UsageError(
                f"Two lists have the name {name!r}. Pass NAME=LIST with different names."
            )
        lists[name] = path
    return lists


def _add_features(subcommands: Subcommands) -> None:
    """Add the subcommand ``features`` of ``rerank`` and its arguments."""
    parser = subcommands.add(
        "features",
        "add the scores of a model to an n-best list; commands for different models can run in "
        "parallel, and rerank merge joins their outputs",
        _features,
    )
    _add_nbest(parser, "n-best list from rerank merge")
    options.add_job_output(parser, "n-best list with the scores")
    _add_models(parser)
    names = ("name", "reverse", "right_to_left", "lenpen", "unigrams")
    add_options(parser.add_argument_group("scores"), ScoringConfig, names)
    work = parser.add_argument_group("parallelism")
    options.add_device(work)
    add_options(work, ScoringConfig, ["fp16"])
    options.add_overwrite(parser)


def _add_models(parser: argparse.ArgumentParser) -> None:
    models = parser.add_argument_group("model (several checkpoints form an ensemble)")
    kinds = models.add_mutually_exclusive_group(required=True)
    for kind, what in KINDS.items():
        options.add_path(kinds, f"--{kind}", what, "CHECKPOINT", nargs="+")
    options.add_data(models)
    text = parser.add_argument_group("text")
    options.add_path(
        text,
        "--source",
        "source sentences for --translation; the first sentence has index 0 in LIST",
    )
    options.add_path(
        text,
        "--subwords",
        "subword model of the text, from fairseq-ssl subwords, or two models, for sources and "
        "candidates (default: tokens separated by spaces)",
        "MODEL",
        nargs="+",
    )


def _features(args: argparse.Namespace) -> None:
    path = None if str(args.nbest_list) == options.STDIN else args.nbest_list
    config = _config(args)
    subwords = args.subwords or [None]
    if len(subwords) > 1 + (config.kind == TRANSLATION):
        raise UsageError(f"--subwords has {len(subwords)} models. Pass 1, or 2 with --translation.")
    summary = score_nbest_file(
        path,
        options.job_output(args),
        config,
        source=args.source,
        source_subwords=subwords[0] if args.source else None,
        subwords=subwords[-1],
        executor=options.model_executor(args),
        overwrite=args.overwrite,
        progress=progress,
    )
    if summary:
        speed = summary.candidates / max(summary.seconds, 1e-9)
        print_lines(
            f"{' and '.join(summary.names)}: {summary.candidates} candidates, {speed:.1f}/s"
        )
        if summary.cut:
            print_lines(f"{summary.cut} were truncated to the maximum length of the model")
        print_lines(summary.signature)


def _config(args: argparse.Namespace) -> ScoringConfig:
    models = {kind: getattr(args, kind.replace("-", "_")) for kind in KINDS}
    kind = next(kind for kind in KINDS if models[kind])
    if args.source and kind != TRANSLATION:
        raise UsageError("--source needs --translation.")
    return ScoringConfig(
        kind=kind,
        models=tuple(path.resolve() for path in models[kind]),
        data_dir=args.data_dir,
        languages=(args.source_lang, args.target_lang),
        max_tokens=options.batch_tokens(args),
        device=options.chosen_device(args),
        threads=1,
        **passed(args, ScoringConfig),
    )


def _add_nbest(parser: argparse.ArgumentParser, what: str = SCORED) -> None:
    """Add the positional argument ``nbest_list`` for the path of an n-best list."""
    help_text = f"{what} {options.FORMATS}; - for stdin"
    options.add_path(parser, "nbest_list", help_text, "LIST")


def _add_tune(subcommands: Subcommands) -> None:
    """Add the subcommand ``tune`` and its arguments."""
    tune = subcommands.add(
        "tune",
        "tune weights between 0 and 1 on a development set (Kiyono, 2022, eq. 5.2)",
        _tune,
    )
    _add_nbest(tune)
    options.add_references(tune)
    add_options(tune, TuningConfig, ["metric", "tokenize", "subwords", "moses", "features"])
    add_options(tune, WeightSearch, ["method", "step"])
    options.add_jobs(tune)
    add_options(tune, TuningConfig, ["folds"])
    options.add_output_or_stdout(tune, "weights as JSON")
    options.add_path(
        tune,
        "--report",
        "table with the scores of the first, random and oracle candidates (the corpus oracle is a "
        "lower bound on the best score), of each feature alone, and of all other features",
    )
    options.add_path(
        tune, "--figure", "figure of the feature scores in --report (.pdf, .png or .svg)"
    )


@options.one_writer
def _tune(args: argparse.Namespace) -> None:
    for output in (args.output, args.report, args.figure):
        options.check_output(output, args.nbest_list, *args.reference)
    if args.figure and args.figure.suffix not in FIGURES:
        raise UsageError(f"--figure is {args.figure}. Expected a .pdf, .png or .svg file.")
    config = TuningConfig(**passed(args, TuningConfig))
    search = WeightSearch(**passed(args, WeightSearch), executor=options.local_executor(args))
    if "step" in args and search.method == "mert":
        raise UsageError("--step needs --method grid.")
    nbest = NBest.parse(options.input_lines(args.nbest_list), str(args.nbest_list))
    tuned = tune(nbest, args.reference, config, search=search, progress=progress)
    text = json.dumps(tuned.content(), indent=2, ensure_ascii=False)
    if args.output is None:
        print(text)
    else:
        with atomic_lines(args.output) as file:
            file.write(f"{text}\n")
    print_lines(*(f"{name}: {score:.2f}" for name, score in tuned.scores.items()), tuned)
    if not (args.report or args.figure):
        return
    analysis = analyze(
        *(nbest, args.reference, tuned.weights, config), search=search, progress=progress
    )
    if args.report:
        with atomic_lines(args.report) as file:
            file.writelines(f"{line}\n" for line in analysis.table())
    if args.figure:
        from fairseq_ssl.analysis.figures import draw_features

        draw_features(analysis, config.metric, args.figure)


def _add_apply(subcommands: Subcommands) -> None:
    apply = subcommands.add(
        "apply",
        "select, for each sentence, the candidate with the highest weighted sum of scores (Kiyono, "
        "2022, eq. 5.1)",
        _apply,
    )
    _add_nbest(apply)
    options.add_path(apply, "--weights", "output file of rerank tune")
    apply.add_argument(
        "--weight",
        action="append",
        metavar="NAME=W",
        help="name of a score and its weight, 0 or more; replaces --weights; repeat "
        "for more scores; scores without a weight are ignored",
    )
    apply.add_argument(
        "--nbest",
        action="store_true",
        help="write all candidates, best first, with the weighted sum of scores as the total",
    )
    options.add_output_or_stdout(apply)


@options.one_writer
def _apply(args: argparse.Namespace) -> None:
    options.check_output(args.output, args.nbest_list, args.weights)
    if (args.weights is None) == (args.weight is None):
        raise UsageError("--weights and --weight are both set, or both missing. Set one of them.")
    if args.weights:
        text = "\n".join(options.input_lines(args.weights))
        weights = parse_weights(text, str(args.weights))
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
            raise UsageError(f"--weight is {word!r}. Expected NAME=W, where W is a number.")
        if name in weights:
            raise UsageError(f"--weight {name} is passed twice. Pass each name once.")
        weights[name] = weight
    return weights


def _add_post_ensemble(subcommands: Subcommands) -> None:
    """Add the subcommand ``post-ensemble`` and its arguments."""
    parser = subcommands.add(
        "post-ensemble",
        "select, for each sentence, the output that is most similar to the outputs of all systems "
        "(Kobayashi, 2018); ties go to the first system",
        _post_ensemble,
    )
    options.add_texts(parser, "outputs", "outputs of at least two systems, one sentence per line")
    options.add_path(
        parser,
        "--vectors",
        "word vectors in fastText format: .vec or .vec.gz (unknown words are ignored), or .bin "
        "(unknown words get vectors from character n-grams)",
        required=True,
    )
    add_options(parser, VectorTraining, ["tokenize"])
    options.add_output_or_stdout(parser)


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


def _add_vectors(subcommands: Subcommands) -> None:
    """Add the subcommand ``vectors`` and its arguments."""
    parser = subcommands.add(
        "vectors",
        "train skip-gram word vectors as in fastText, and write word counts to OUTPUT.counts",
        _vectors,
    )
    options.add_texts(parser, "text", "tokenized text, one sentence per line")
    options.add_output(parser, "vectors: .vec or .vec.gz for words, .bin with character n-grams")
    add_options(parser, VectorTraining)


@options.one_writer
def _vectors(args: argparse.Namespace) -> None:
    if Path("-") in args.text:
        raise UsageError("The text cannot be stdin, because it is read several times. Pass a file.")
    options.check_output(args.output, *args.text)
    training = VectorTraining(**passed(args, VectorTraining))
    signature = train_vectors(args.text, args.output, training, progress)
    words = signature.parameters["words"]
    print_lines(signature, f"wrote {words} vectors to {args.output}")
