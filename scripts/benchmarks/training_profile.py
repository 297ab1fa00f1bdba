"""Profile of a model's training: operators by time, as Markdown.

Weights and sentences are random, as in bytenet_training.py. The time of an operator excludes the
operators it calls. On a GPU it is GPU time. Profiling adds overhead, so compare shares and not
speeds.
"""

from __future__ import annotations

import argparse
from typing import Any

import bytenet_training
import harness
from fairseq.models import ARCH_CONFIG_REGISTRY
from torch.profiler import ProfilerActivity, profile

import fairseq_ssl


def main() -> None:
    """Profile some steps after a warm-up step and print the table."""
    options = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    options.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    options.add_argument(
        "--threads", type=int, help="threads of torch on the CPU (default: all cores)"
    )
    options.add_argument("--arch", default="bytenet")
    options.add_argument("--length", type=int, default=100, help="sentence length in characters")
    options.add_argument("--tokens", type=int, default=800, help="tokens in a batch")
    options.add_argument("--steps", type=int, default=3, help="profiled training steps")
    options.add_argument("--bf16", action="store_true", help="train in bfloat16 autocast")
    options.add_argument("--rows", type=int, default=12, help="rows of the table")
    args = harness.parse(options)
    fairseq_ssl.register()
    if args.arch not in ARCH_CONFIG_REGISTRY:
        options.error(f"fairseq knows no --arch {args.arch}")
    train = bytenet_training.learner(args.arch, args)
    train()
    activities = [ProfilerActivity.CPU]
    if args.device == "cuda":
        activities.append(ProfilerActivity.CUDA)
    with profile(activities=activities) as found:
        train()
    for line in table(found.key_averages(), args):
        print(line)


def table(operators: Any, args: argparse.Namespace) -> list[str]:
    """Return the lines of the table, with a last line for the other operators.

    Args:
        operators: events of torch's profiler, with times in microseconds
        args: parsed command line
    """
    name = f"self_{'device' if args.device == 'cuda' else 'cpu'}_time_total"
    times = {one.key: (getattr(one, name), one.count) for one in operators}
    whole = sum(time for time, _ in times.values())
    ordered = sorted(times.items(), key=lambda one: -one[1][0])
    lines = ["| operator | time (%) | ms per step | calls per step |", f"|{4 * ' --- |'}"]
    for key, (time, count) in ordered[: args.rows]:
        share, milliseconds = 100 * time / whole, time / 1000 / args.steps
        lines.append(f"| `{key}` | {share:.1f} | {milliseconds:.2f} | {count / args.steps:g} |")
    others = 100 * sum(time for _, (time, _) in ordered[args.rows :]) / whole
    threads = harness.machine()["threads"]
    settings = (
        f"{args.tokens} tokens in sentences of {args.length}, {args.device}, {threads} threads"
    )
    return [*lines, "", f"`{args.arch}`, {settings}; other operators {others:.1f} %"]


if __name__ == "__main__":
    main()
