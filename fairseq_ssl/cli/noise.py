"""``fairseq-ssl noise``: noisy text from clean text, of any size, on all cores or machines."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fairseq_ssl.cli import options
from fairseq_ssl.cli.noise_input import NoiseInput
from fairseq_ssl.cli.noise_job import NoiseJob, Wanted
from fairseq_ssl.cli.options import add_input, outputs_of, shard_of
from fairseq_ssl.errors import UsageError
from fairseq_ssl.io.executors import Executor, RayExecutor
from fairseq_ssl.noise import registry
from fairseq_ssl.noise.corpus import MAX_TOKENS

SUMMARY = "make noisy text from clean text: masks, deletions, misspellings, learners' errors, ..."
EXAMPLES = """\
  fairseq-ssl noise clean.en --noise direct --seed 1 -o noisy.en
  fairseq-ssl noise news.en.gz --noise direct,spelling:rate=0.01 -o noisy.en.gz --clean clean.en.gz
  fairseq-ssl noise clean.bpe --noise denoise -o noisy.bpe --touched touched.txt --jobs 8
  fairseq-ssl noise clean.en --noise direct -o noisy.en --shard "$SLURM_ARRAY_TASK_ID/100"
  head clean.en | fairseq-ssl noise --noise direct --counts dict.en.txt"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare text in and out, the noise, and who does the work."""
    add_input(parser, "clean text, tokens between spaces")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="where to write the noisy lines, .gz by suffix (default: stdout); a run that was "
        "killed goes on when the same command is given again",
    )
    parser.add_argument("--clean", type=Path, metavar="FILE", help="write the clean lines as well")
    parser.add_argument(
        "--touched",
        type=Path,
        metavar="FILE",
        help="write for each line the places, from 0, of the clean tokens that are gone, changed "
        "or moved",
    )
    _add_noise(parser)
    _add_work(parser)


def run(args: argparse.Namespace) -> int:
    """Noise the text, and say what was done."""
    job = NoiseJob.of(_wanted(args), _engine(args), afresh=args.force)
    return job.run(sys.stdout.buffer)


def _add_noise(parser: argparse.ArgumentParser) -> None:
    noise = parser.add_argument_group(
        "noise", f"kinds and their options:\n{registry.describe_noises()}"
    )
    noise.add_argument(
        "--noise",
        required=True,
        metavar="KIND[:OPTION=VALUE...][,KIND...]",
        help="one noise, or several that are put on in this order",
    )
    noise.add_argument(
        "--seed",
        type=int,
        default=1,
        help="0 or more; the same seed gives the same bytes, whoever does the work (default: 1)",
    )
    noise.add_argument(
        "--counts",
        type=Path,
        metavar="FILE",
        help="word counts to draw words by, as in fairseq's dict.txt (default: counted from INPUT, "
        "and kept in OUTPUT.counts)",
    )
    noise.add_argument(
        "--confusion-sets",
        type=Path,
        metavar="FILE",
        help="for spell: what fairseq-ssl confusion-sets made",
    )
    noise.add_argument(
        "--learner-words",
        type=Path,
        metavar="FILE",
        help="for learner: what fairseq-ssl learner-words counted (default: a small list made by "
        "hand)",
    )
    noise.add_argument("--mask-token", default="<mask>", help="for direct (default: %(default)s)")
    noise.add_argument(
        "--skip-bad-lines",
        action="store_true",
        help="leave out, and count, lines that are blank, no UTF-8, hold a NUL or have more than "
        f"{MAX_TOKENS:,} tokens, which are an error otherwise; needs --clean, so that both "
        "sides match",
    )


def _add_work(parser: argparse.ArgumentParser) -> None:
    work = parser.add_argument_group("who does the work")
    options.add_jobs(work)
    options.add_shard(work)
    work.add_argument(
        "--engine",
        choices=("local", "ray"),
        default="local",
        help="ray: all CPUs of a Ray cluster (default: %(default)s)",
    )
    options.add_address(work)
    options.add_overwrite(work)


def _wanted(args: argparse.Namespace) -> Wanted:
    if args.seed < 0:
        raise UsageError(f"--seed is {args.seed}; expected 0 or more.")
    if args.output is None and (args.clean or args.touched):
        raise UsageError("--clean and --touched go with -o, so that all are files.")
    if args.skip_bad_lines and args.clean is None:
        raise UsageError(
            "--skip-bad-lines needs --clean: without it the noisy lines would not match INPUT's."
        )
    shard = shard_of(args)
    paths = {"noisy": args.output, "clean": args.clean, "touched": args.touched}
    return Wanted(
        settings=registry.parse_noise(args.noise),
        seed=args.seed,
        input=NoiseInput(args.input, shard),
        outputs=outputs_of(args, shard, paths),
        skip_bad_lines=args.skip_bad_lines,
        mask_token=args.mask_token,
        counts=args.counts,
        kept_counts=args.output and args.output.with_name(f"{args.output.name}.counts"),
        confusion_sets=args.confusion_sets,
        learner_words=args.learner_words,
    )


def _engine(args: argparse.Namespace) -> Executor:
    if args.engine == "local":
        return options.local_executor(args)
    options.check_no_jobs(args)
    return RayExecutor(args.address)
