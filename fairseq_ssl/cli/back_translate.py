"""``fairseq-ssl back-translate``: synthetic pairs from monolingual text of any size."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from fairseq_ssl.cli import options as device_options
from fairseq_ssl.cli import options as work_options
from fairseq_ssl.cli.back_translate_job import BackTranslationJob, Wanted
from fairseq_ssl.cli.options import (
    QUANTIZATIONS,
    add_data,
    add_input,
    check_length_penalty,
    check_range,
    parse_shard,
)
from fairseq_ssl.errors import UsageError, flag
from fairseq_ssl.inference import ctranslate2_decoder, loading
from fairseq_ssl.inference.translation import DecodingConfig
from fairseq_ssl.io.executors import Executor, RayExecutor
from fairseq_ssl.io.jobs import TextInput, check_distinct
from fairseq_ssl.noise.corpus import MAX_TOKENS

SUMMARY = "translate monolingual text into synthetic pairs, on all cores, GPUs or machines"
EXAMPLES = """\
  fairseq-ssl back-translate mono.bpe.de --model de-en.pt --data-dir bin -o bt.en --given bt.de
  fairseq-ssl back-translate mono.bpe.de --model de-en.pt --data-dir bin --engine ctranslate2 \\
      --compute-type int8 -o bt.en --given bt.de
  fairseq-ssl back-translate correct.en --model errors.pt --data-dir bin --noisy-beam-beta 6 \\
      -o wrong.en
  fairseq-ssl back-translate mono.bpe.de --model de-en.pt --data-dir bin --sampling \\
      --sampling-topk 10 -o bt.en
  fairseq-ssl back-translate correct.en --model errors.pt --data-dir bin --beam 10 --nbest 10 \\
      --fluency-boost-lm lm.pt --fluency-boost-data lm-bin -o wrong.en --given right.en
  fairseq-ssl back-translate mono.bpe.de --model de-en.pt --data-dir bin -o bt.en \\
      --shard "$SLURM_ARRAY_TASK_ID/99"
  fairseq-ssl back-translate mono.bpe.en --model en-de.pt --data-dir bin -o ft.de
                                                              (forward-translation)"""

ENGINES = ("fairseq", "ctranslate2", "ray")
GPUS = {"fairseq": loading.gpu_count, "ctranslate2": ctranslate2_decoder.ctranslate2_gpus}
"""How many GPUs each that decodes can use."""
BLOCK = {"cpu": 64, "cuda": 1024}
"""KiB: small ones keep all cores busy on a short text too, large ones fill the batches of a GPU."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare text in and out, the model, the search, and who does the work."""
    add_input(
        parser,
        "text in the model's source language, tokens or subwords between spaces as it was trained "
        "on",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="where to write what the model makes, .gz by suffix (default: stdout); a run that "
        "was killed goes on when the same command is given again",
    )
    parser.add_argument(
        "--given",
        type=Path,
        metavar="FILE",
        help="write the lines of INPUT beside it: as often as there are hypotheses of each",
    )
    _add_model(parser)
    _add_search(parser)
    _add_work(parser)


def run(args: argparse.Namespace) -> int:
    """Translate the text, and say what was done."""
    job = BackTranslationJob.of(_wanted(args), _engine(args), afresh=args.overwrite)
    return job.run(sys.stdout.buffer)


def _add_model(parser: argparse.ArgumentParser) -> None:
    model = parser.add_argument_group("model")
    model.add_argument(
        "--model",
        type=Path,
        nargs="+",
        required=True,
        metavar="CHECKPOINT",
        help="that reads INPUT's language; several are an ensemble; for ctranslate2 a checkpoint, "
        "converted once and kept beside it, or a folder with one of its models",
    )
    add_data(model)
    model.add_argument(
        "--compute-type",
        choices=QUANTIZATIONS,
        default="float32",
        help="of ctranslate2's numbers: int8 for CPUs, float16 or int8_float16 for GPUs; fairseq "
        "knows float32 and float16 (default: %(default)s)",
    )


def _add_search(parser: argparse.ArgumentParser) -> None:
    search = parser.add_argument_group("search")
    search.add_argument("--beam", type=int, default=6, help="its width (default: %(default)s)")
    search.add_argument(
        "--lenpen", type=float, default=1.0, help="length penalty, -20 to 20 (default: %(default)s)"
    )
    search.add_argument(
        "--nbest", type=int, default=1, help="hypotheses written of each line (default: 1)"
    )
    search.add_argument(
        "--sampling", action="store_true", help="sample each token from all, instead of a beam"
    )
    search.add_argument(
        "--sampling-topk",
        type=int,
        default=0,
        metavar="K",
        help="with --sampling: from the K most probable alone (default: from all)",
    )
    search.add_argument(
        "--temperature", type=float, default=1.0, help="with --sampling, 0.01 to 100 (default: 1)"
    )
    _add_noise(search)
    search.add_argument(
        "--max-source-tokens",
        type=int,
        default=250,
        metavar="N",
        help="lines with more are not translated, but counted (default: %(default)s)",
    )
    search.add_argument(
        "--max-len-b",
        type=int,
        default=250,
        metavar="N",
        help="tokens written at most (default: %(default)s)",
    )
    search.add_argument(
        "--seed", type=int, default=1, help="of sampling and noise, 0 or more (default: 1)"
    )
    search.add_argument(
        "--fairseq-options",
        default="",
        metavar="'...'",
        help="more of fairseq-generate's, as --fairseq-options='--unkpen 10 --prefix-size 0'",
    )


def _add_noise(search: argparse._ArgumentGroup) -> None:
    search.add_argument(
        "--noisy-beam-beta",
        type=float,
        default=0.0,
        metavar="BETA",
        help="beam search that noise makes err: beta_random of the thesis, 4.3.1, 6 there "
        "0 to 1000 (default: 0, none); fairseq alone",
    )
    search.add_argument(
        "--noisy-beam-granularity",
        choices=("candidate", "hypothesis"),
        default="candidate",
        help="what gets noise of its own (default: %(default)s)",
    )
    search.add_argument(
        "--fluency-boost-lm",
        type=Path,
        metavar="CHECKPOINT",
        help="keep of the n best those alone that this language model finds less fluent than the "
        "line given; fairseq alone",
    )
    search.add_argument(
        "--fluency-boost-data",
        type=Path,
        metavar="DIR",
        help="folder with the dict.txt of that language model",
    )
    search.add_argument(
        "--fluency-boost-ratio",
        type=float,
        default=1.05,
        help="how many times as fluent the line given must be (default: %(default)s)",
    )


def _add_work(parser: argparse.ArgumentParser) -> None:
    work = parser.add_argument_group("who does the work")
    work.add_argument(
        "--engine",
        default="fairseq",
        metavar="NAME[,ray]",
        help="who decodes: fairseq, all searches; ctranslate2, beam and sampling, many times as "
        "fast; with ray: on all machines of a Ray cluster, where the paths must be the same "
        "(default: %(default)s)",
    )
    device_options.add_device(work)
    work.add_argument(
        "--block",
        type=int,
        metavar="KIB",
        help="how much text is sorted by length and translated at a time, and what a kill may "
        "cost each process (default: {cpu} on a CPU, {cuda} on a GPU)".format(**BLOCK),
    )
    work_options.add_shard(work)
    work_options.add_address(work)
    work_options.add_overwrite(work)


def _wanted(args: argparse.Namespace) -> Wanted:
    _check(args)
    shard = parse_shard(args.shard)
    if args.output is None and shard != (1, 1):
        raise UsageError("--shard needs an -o file.")
    text = TextInput(args.input, shard, size=(args.block or BLOCK[_device(args)]) * 1024)
    paths = {"made": args.output, "given": args.given}
    outputs = {name: text.shard_path(path) for name, path in paths.items() if path}
    check_distinct(text.path, outputs.values())
    return Wanted(
        decoder=_engines(args)[0],
        decoding=_decoding(args),
        seed=args.seed,
        most=args.max_source_tokens,
        input=text,
        outputs=outputs,
    )


def _check(args: argparse.Namespace) -> None:
    """Refuse numbers out of their range, and what does not go together."""
    above_0 = ("beam", "nbest", "max_source_tokens", "max_len_b", "threads")
    for name in above_0:
        given = getattr(args, name)
        if given is not None and given <= 0:
            raise UsageError(f"{flag(name)} is {given}; expected above 0.")
    check_range("--temperature", args.temperature, 0.01, 100)
    check_length_penalty(args.lenpen)
    check_range("--noisy-beam-beta", args.noisy_beam_beta, 0, 1000)
    work_options.check_block(args.block)
    if args.max_source_tokens > MAX_TOKENS:
        raise UsageError(f"--max-source-tokens is at most {MAX_TOKENS}.")
    if min(args.seed, args.sampling_topk) < 0:
        raise UsageError("--seed and --sampling-topk are 0 or more.")
    if args.nbest > args.beam and not args.sampling:
        raise UsageError(f"--nbest is {args.nbest}, more than --beam, which is {args.beam}.")
    if args.sampling_topk and not args.sampling:
        raise UsageError("--sampling-topk goes with --sampling.")
    if args.output is None and args.given:
        raise UsageError("--given goes with -o, so that both are files.")
    _check_engine(args)


def _check_engine(args: argparse.Namespace) -> None:
    """Refuse what only fairseq can, or can not."""
    decoder = _engines(args)[0]
    own = {
        "--noisy-beam-beta": args.noisy_beam_beta,
        "--fluency-boost-lm": args.fluency_boost_lm,
        "--fairseq-options": args.fairseq_options,
    }
    for option, given in own.items():
        if given and decoder != "fairseq":
            raise UsageError(f"{option} goes with --engine fairseq.")
    if decoder == "fairseq" and args.compute_type not in ("float32", "float16"):
        raise UsageError("--engine fairseq computes in float32 or float16.")


def _engines(args: argparse.Namespace) -> tuple[str, bool]:
    """Return who decodes, and whether it is spread over a Ray cluster."""
    names = args.engine.split(",")
    unknown = [name for name in names if name not in ENGINES]
    decoders = [name for name in names if name != "ray"]
    if unknown or len(decoders) > 1 or len(set(names)) < len(names):
        raise UsageError(
            f"--engine is {args.engine!r}; expected fairseq or ctranslate2, with ,ray for a "
            "cluster."
        )
    return (decoders or ["fairseq"])[0], "ray" in names


def _decoding(args: argparse.Namespace) -> DecodingConfig:
    options = shlex.split(args.fairseq_options)
    if args.noisy_beam_beta:
        options += ["--noisy-beam-beta", str(args.noisy_beam_beta)]
        options += [
            "--noisy-beam-granularity",
            args.noisy_beam_granularity,
            "--noisy-beam-seed",
            str(args.seed),
        ]
    if args.fluency_boost_lm:
        options += ["--fluency-boost-lm", str(args.fluency_boost_lm)]
        options += ["--fluency-boost-ratio", str(args.fluency_boost_ratio)]
        if args.fluency_boost_data:
            options += ["--fluency-boost-data", str(args.fluency_boost_data)]
    if _engines(args)[0] == "fairseq" and args.compute_type == "float16":
        options += ["--fp16"]
    return DecodingConfig(
        models=tuple(args.model),
        data_dir=args.data_dir,
        languages=(args.source_lang, args.target_lang),
        beam=args.beam,
        length_penalty=args.lenpen,
        nbest=args.nbest,
        sampling=args.sampling,
        top_k=args.sampling_topk,
        temperature=args.temperature,
        longest=args.max_len_b,
        batch_tokens=device_options.check_batch_tokens(args, GPUS[_engines(args)[0]]),
        compute_type=args.compute_type,
        device=_device(args),
        threads=args.threads,
        options=tuple(options),
    )


def _device(args: argparse.Namespace) -> str:
    return device_options.chosen_device(args, GPUS[_engines(args)[0]])


def _engine(args: argparse.Namespace) -> Executor:
    decoder, is_cluster = _engines(args)
    if is_cluster:
        work_options.check_no_jobs(args)
        gpus = float(_device(args) == "cuda")
        return RayExecutor(args.address, cpus=args.threads, gpus=gpus)
    return device_options.model_executor(args, GPUS[decoder])
