"""Compare the speed of two functions by the median ratio of alternating runs, as JSON.

The speed of a machine changes from minute to minute, so single times are not reported. Each ratio
comes from two consecutive runs, and the order within a pair alternates.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import resource
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import torch

import fairseq_ssl
from fairseq_ssl.errors import FairseqSslError, one_line

Run = Callable[[], int]
"""Do the work once and return the number of processed units, such as tokens or sentences."""


@dataclass
class Comparison:
    """The speed of `first` divided by the speed of `second`."""

    name: str
    first: str
    second: str
    unit: str
    goal: float | None
    settings: dict[str, object]
    ratios: list[float] = field(default_factory=list)
    rates: list[tuple[float, float]] = field(default_factory=list)

    @property
    def goal_reached(self) -> bool | None:
        """True if the median is at least the goal, None without a goal."""
        return None if self.goal is None else self.median >= self.goal

    @property
    def median(self) -> float:
        """The median of the ratios."""
        return statistics.median(self.ratios)

    def report(self) -> dict[str, object]:
        """Return the ratios with the settings, machine and command that reproduce them."""
        spread = (min(self.ratios), max(self.ratios))
        return {
            **asdict(self),
            "ratio": round(self.median, 3),
            "spread": [round(value, 3) for value in spread],
            "goal_reached": self.goal_reached,
            "machine": machine(self.settings.get("device") == "cuda"),
            "command": " ".join(["python", *sys.argv]),
        }


def machine(cuda: bool) -> dict[str, object]:
    """Return the measured hardware, a GPU if `cuda` is True, and the versions."""
    return {
        "device": torch.cuda.get_device_name() if cuda else _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "fairseq_ssl": fairseq_ssl.__version__,
    }


def _processor() -> str:
    """Return the CPU's name in /proc/cpuinfo, or Python's name for it, and its instruction set."""
    details = Path("/proc/cpuinfo")
    text = details.read_text() if details.exists() else ""
    found = re.search(r"model name\s*: (.*)", text)
    name = found[1] if found else platform.processor() or "CPU"
    vnni = " VNNI" if {"avx512_vnni", "avx_vnni"} & {*text.split()} else ""
    return f"{name}, {torch.backends.cpu.get_cpu_capability()}{vnni}"


def compare(
    comparison: Comparison,
    first: Run,
    second: Run,
    pairs: int,
    warm_up: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> None:
    """Append `pairs` ratios of the units/s of `first` to those of `second` to `comparison`.

    With `time.process_time` as the clock, seconds are those of the CPU, and with `cpu_seconds`
    those of the commands that the functions run.
    """
    for _ in range(warm_up):
        first()
        second()
    for pair in range(pairs):
        order = (first, second) if pair % 2 == 0 else (second, first)
        rates = {run: _rate(run, clock) for run in order}
        comparison.rates.append((rates[first], rates[second]))
        comparison.ratios.append(rates[first] / rates[second])
        print(f"  pair {pair + 1}/{pairs}: {comparison.ratios[-1]:.3f}", file=sys.stderr)


class Worker:
    """A Python script in a process of its own, which answers each line of its input with a line."""

    def __init__(self, script: str, words: Sequence[str], **environment: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, script, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )

    def ask(self) -> str:
        """Send an empty line and return the answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{self._process.args!r} ended early.")
        return answer

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


def _rate(run: Run, clock: Callable[[], float]) -> float:
    _wait_for_device()
    begun = clock()
    units = run()
    _wait_for_device()
    return units / (clock() - begun)


def run_command(
    words: Sequence[object],
    folder: Path | None = None,
    source: IO[Any] | None = None,
    output: IO[Any] | int = subprocess.PIPE,
) -> str:
    """Run a command with one thread. Return its output, or exit with its last line of errors."""
    command = list(map(str, words))
    done = subprocess.run(
        command,
        cwd=folder,
        stdin=source,
        stdout=output,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    if done.returncode:
        reason = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
        sys.exit(f"{shlex.join(command)[:200]} failed: {reason}")
    return done.stdout or ""


def cpu_seconds() -> float:
    """Return the CPU time of all ended commands."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _wait_for_device() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def parser(description: str, gpu: bool = True) -> argparse.ArgumentParser:
    """Return a parser with the options of all benchmarks. Without `gpu`, --device must be cpu."""
    options = argparse.ArgumentParser(
        description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    devices = ("cpu", "cuda") if gpu else ("cpu",)
    options.add_argument("--device", choices=devices, default="cpu")
    options.add_argument("--pairs", type=int, default=5, help="number of ratios")
    options.add_argument(
        "--threads", type=int, help="threads of torch on the CPU (default: all cores)"
    )
    return options


def parse(options: argparse.ArgumentParser, outputs: Sequence[str] = ()) -> argparse.Namespace:
    """Parse the command line and set the number of threads. Report missing files in one line.

    Args:
        options: the parser. Files of its options must exist.
        outputs: names of options whose files need not exist.
    """
    args = options.parse_args()
    for name, value in vars(args).items():
        if name not in outputs and isinstance(value, Path) and not value.exists():
            options.error(f"--{name.replace('_', '-')}: {value} does not exist.")
    sys.excepthook = _report_error
    if args.device == "cuda" and not torch.cuda.is_available():
        options.error("--device is cuda, but no CUDA device is available. Omit --device.")
    if args.threads:
        torch.set_num_threads(args.threads)
    return args


def _report_error(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Print errors of files, which are mistakes of users, without a traceback."""
    if isinstance(error, (FairseqSslError, OSError, UnicodeError)):
        print(f"error: {one_line(str(error))}", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)


def publish(comparison: Comparison) -> None:
    """Print the report as JSON on stdout and one line for people on stderr."""
    print(json.dumps(comparison.report(), indent=2))
    line = f"{comparison.first} / {comparison.second}: {comparison.median:.3f}"
    if comparison.goal is not None:
        verdict = "reached" if comparison.goal_reached else "NOT reached"
        line += f" (goal {comparison.goal}: {verdict})"
    print(line, file=sys.stderr)
