"""Profile both programs of a benchmark: operators by time, as Markdown.

    program_profile.py classification_training --what 4 --device cuda

The options are those of the benchmark. The time of an operator excludes the operators it calls. On
a GPU it is the time of kernels, and the heading has the share of the run's time in which kernels
run. In the rest the GPU waits for the CPU. The run's time is measured without the profiler, but the
time of kernels with it, which is longer for short kernels. So the share may exceed 100%.
"""

from __future__ import annotations

import runpy
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import harness
import torch
from torch._C._autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

ROWS = 12
"""Number of operators in a table."""


class Profiled(BaseException):
    """The programs of the benchmark have been profiled, so their comparison is skipped."""


def main(words: list[str]) -> None:
    """Run a benchmark up to its comparison, and print a table for each of its two programs."""
    scripts = [
        path
        for path in sorted(Path(__file__).parent.glob("*.py"))
        if "harness.compare(" in path.read_text() and path.stem != Path(__file__).stem
    ]
    chosen = [path for path in scripts if words and path.stem == words[0].removesuffix(".py")]
    if not chosen:
        names = ", ".join(path.stem for path in scripts)
        sys.exit(f"usage: program_profile.py SCRIPT OPTIONS, with one of the scripts {names}")
    sys.argv = [str(chosen[0]), *words[1:]]
    compare, harness.compare = harness.compare, _profile_both
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except Profiled:
        return
    finally:
        harness.compare = compare
    sys.exit(f"{' '.join(words)} compares no functions, so it cannot be profiled.")


def _profile_both(
    comparison: harness.Comparison, first: harness.Run, second: harness.Run, *_: Any, **__: Any
) -> None:
    cuda = comparison.settings.get("device") == "cuda"
    for name, run in ((comparison.first, first), (comparison.second, second)):
        for line in table(name, run, cuda):
            print(line)
    raise Profiled


def table(name: str, run: harness.Run, cuda: bool) -> list[str]:
    """Run a program a few times and return the lines of its table."""
    run()
    seconds = statistics.median(_seconds(run) for _ in range(5))
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if cuda else [])]
    with profile(activities=activities) as found:
        run()
        _wait(cuda)
    device, attribute = (DeviceType.CPU, "self_cpu_time_total")
    if cuda:  # operators repeat the time of the kernels that they launch
        device, attribute = (DeviceType.CUDA, "self_device_time_total")
    events = [one for one in found.key_averages() if one.device_type == device]
    times = {one.key: (getattr(one, attribute) / 1e6, one.count) for one in events}
    whole = sum(spent for spent, _ in times.values())
    heading = f"{name}: {1000 * seconds:.1f} ms per run"
    if cuda:
        kernels = sum(count for _, count in times.values())
        heading += f", kernels run {whole / seconds:.0%} of the time, {kernels} kernels per run"
    ordered = sorted(((f"`{key[:100]}`", *rest) for key, rest in times.items()), key=_by_time)
    others = sum(spent for _, spent, _ in ordered[ROWS:])
    lines = [heading, "", "| operator | time (%) | ms per run | calls per run |"]
    lines.append(f"|{4 * ' --- |'}")
    for key, spent, count in (*ordered[:ROWS], ("others", others, "")):
        lines.append(f"| {key} | {100 * spent / whole:.1f} | {1000 * spent:.2f} | {count} |")
    return [*lines, ""]


def _by_time(row: tuple[str, float, int]) -> float:
    return -row[1]


def _seconds(run: harness.Run) -> float:
    _wait(torch.cuda.is_available())
    begun = time.perf_counter()
    run()
    _wait(torch.cuda.is_available())
    return time.perf_counter() - begun


def _wait(cuda: bool) -> None:
    if cuda:
        torch.cuda.synchronize()


if __name__ == "__main__":
    main(sys.argv[1:])
