"""``fairseq-ssl noise``: add noise to clean text, in parallel on cores or machines."""

from __future__ import annotations

import argparse

from fairseq_ssl.cli import options
from fairseq_ssl.cli.console import print_lines, progress
from fairseq_ssl.noise.block_noise import describe_noises
from fairseq_ssl.noise.noise_job import NoiseResources, noise_file
from fairseq_ssl.options import add_options, passed

EXAMPLES = """\
  fairseq-ssl noise clean.en --method direct --seed 1 -o noisy.en
  fairseq-ssl noise news.en.gz --method direct,characters:rate=0.01 -o noisy.en.gz
  fairseq-ssl noise clean.en --method direct -o noisy.en/ --shard "$SLURM_ARRAY_TASK_ID/100"
  head clean.en | fairseq-ssl noise --method direct --counts dict.en.txt"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``noise`` to the parser."""
    options.add_input(parser, "clean text, tokens separated by spaces")
    options.add_job_output(parser, "noisy text, aligned with the input")
    noise = parser.add_argument_group("noise", f"methods and their options:\n{describe_noises()}")
    noise.add_argument(
        "--method",
        required=True,
        metavar="NAME[:OPTION=VALUE...][,NAME...]",
        help="noise methods in the order of application, at least one",
    )
    options.add_seed(noise)
    add_options(noise, NoiseResources)
    options.add_execution(parser.add_argument_group("parallelism"))
    options.add_overwrite(parser)


def run(args: argparse.Namespace) -> None:
    """Add noise to the text and print a summary."""
    summary = noise_file(
        args.input,
        options.job_output(args),
        args.method,
        seed=args.seed,
        resources=NoiseResources(**passed(args, NoiseResources)),
        executor=options.job_executor(args),
        overwrite=args.overwrite,
        progress=progress,
    )
    if summary:
        changed = summary.changed / max(1, summary.tokens)
        print_lines(
            summary.signature,
            f"{summary.lines} lines, {summary.tokens} tokens, {changed:.1%} changed",
            *(f"wrote {path}" for path in summary.outputs),
        )
