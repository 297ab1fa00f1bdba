"""Plan the machines, disk and memory for a corpus, from the measured cost of each command.

The costs are in scale_costs.json, each with the command that was measured, on 10^6 lines or fewer.
The plan multiplies them by the number of pairs and the length of the lines:

    python examples/common/scale_plan.py filter duplicates noise --pairs 1e9 --line-bytes 120
    python examples/common/scale_plan.py --measure my.en my.de --costs mine.json
    python examples/common/scale_plan.py filter duplicates noise --pairs 1e9 --costs mine.json

--measure runs the commands again, or those of the named steps, on your text and machine. Commands
with models read variables such as TAGGER from the environment, and are skipped without them.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

COSTS = Path(__file__).with_name("scale_costs.json")
FEW = 10
"""Lines of a text whose CPU time is that of the start of a command."""
MIB = 2**20
Cost = dict[str, Any]
"""The command and the result of a step.

- command, setup: arguments of fairseq-ssl, and shell commands that write other files first
- lines, line_bytes: lines of source.txt and target.txt; bytes of a line of source.txt
- part: MiB of a side that is one part, decompressed
- seconds: core-seconds per 10^6 lines, without `start`, the core-seconds of the start
- memory: MiB of the process
- temporary, output: bytes per line in out/_job and of all outputs
"""


def write_text(sample: Path, path: Path, count: int) -> None:
    """Write the first lines of a sample, repeated with running numbers so that lines differ."""
    lines = sample.read_text(encoding="utf-8").splitlines()
    with path.open("w", encoding="utf-8") as file:
        for number, line in enumerate(itertools.islice(itertools.cycle(lines), count)):
            mark = "" if number < len(lines) else f" {number // 10000:04d} {number % 10000:04d}"
            file.write(f"{line}{mark}\n")


def file_sizes(folder: Path, pattern: str) -> int:
    """Return the size of files that are complete, and may be deleted at any time."""
    total = 0
    for path in folder.glob(pattern):
        with contextlib.suppress(FileNotFoundError):
            total += path.stat().st_size if path.suffix not in (".tmp", ".json") else 0
    return total


def peak_memory(process: int) -> float:
    """Return the peak memory of a process in MiB until now. That of `wait4` has its parent's."""
    with contextlib.suppress(OSError):  # the process has ended
        found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{process}/status").read_text("utf-8"))
        return int(found[1]) / 1024 if found else 0.0
    return 0.0


def run(command: str, folder: Path) -> tuple[float, float, int]:
    """Run a command. Return core-seconds, memory in MiB and the peak size of `out*/_job`."""
    for path in folder.glob("out*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    words = ["fairseq-ssl", *shlex.split(os.path.expandvars(command)), "--jobs", "1"]
    log, memory, temporary = folder / "log", 0.0, 0
    with log.open("w") as file:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        process = subprocess.Popen(words, cwd=folder, stdout=file, stderr=file, env=environment)
        while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
            memory = max(memory, peak_memory(process.pid))
            temporary = max(temporary, file_sizes(folder, "out*/_job/*"))
            time.sleep(0.02)
    _, status, used = ended
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{log.read_text()[-2000:]}\nThat failed: {shlex.join(words)}")
    return used.ru_utime + used.ru_stime, memory, temporary


def measure(cost: Cost, sample: list[Path], lines: int) -> Cost:
    """Run the command of a cost on a sample. Return the cost with the results."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path, side in zip(sample, ("source.txt", "target.txt"), strict=True):
            write_text(path, folder / side, lines)
        for command in cost.get("setup", ()):
            subprocess.run(command, shell=True, cwd=folder, check=True, stderr=subprocess.DEVNULL)
        size = (folder / "source.txt").stat().st_size
        seconds, memory, temporary = run(cost["command"], folder)
        output = file_sizes(folder, "out*/part-*")
        for path in folder.glob("*.txt"):
            with path.open("rb") as file:
                head = b"".join(itertools.islice(file, FEW))
            path.write_bytes(head)
        start = run(cost["command"], folder)[0]
    return {
        **cost,
        "lines": lines,
        "line_bytes": round(size / lines, 1),
        "seconds": round(max(seconds - start, 0.0) * 1e6 / lines, 2),
        "start": round(start, 2),
        "memory": round(memory),
        "temporary": round(temporary / lines, 1),
        "output": round(output / lines, 1),
    }


def measure_all(costs: dict[str, Cost], args: argparse.Namespace) -> None:
    """Measure the steps of `args`, or all of them, and write each result to the file of costs."""
    for step in args.steps or costs:
        command = costs[step]["command"]
        if "$" in os.path.expandvars(command):
            print(f"{step}: skipped, set the variables of: {command}", file=sys.stderr)
            continue
        lines = min(args.lines or costs[step]["lines"], costs[step]["lines"])
        costs[step] = measure(costs[step], args.measure, lines)
        args.costs.write_text(f"{json.dumps(costs, indent=2)}\n", "utf-8")
        print(f"{step}: {costs[step]['seconds']} core-seconds per 10^6 lines", file=sys.stderr)


HEADS = ("step", "core-s", "MiB", "core-hours", "machines", "GB RAM", "GB temp", "GB out", "parts")


def plan(step: str, cost: Cost, args: argparse.Namespace) -> Iterator[str]:
    """Yield the row of a step. Time and output are proportional to the bytes of a line."""
    longer = args.line_bytes / cost["line_bytes"]
    seconds = cost["seconds"] * longer
    core_hours = args.pairs / 1e6 * seconds / 3600
    yield step
    yield f"{seconds:,.1f}"
    yield f"{cost['memory']:,}"
    yield f"{core_hours:,.1f}"
    yield f"{math.ceil(core_hours / args.cores / args.hours):,}"
    yield f"{cost['memory'] * args.cores / 1024:,.0f}"
    yield f"{args.pairs * cost['temporary'] / 1e9:,.0f}"
    yield f"{args.pairs * cost['output'] * longer / 1e9:,.0f}"
    yield f"{math.ceil(args.pairs * args.line_bytes / MIB / (args.part_size or cost['part'])):,}"


def print_table(rows: list[tuple[str, ...]]) -> None:
    """Print a Markdown table. Its first row has the heads."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rows.insert(1, tuple("-" * width for width in widths))
    for first, *others in rows:
        print("|", " | ".join([first.ljust(widths[0]), *map(str.rjust, others, widths[1:])]), "|")


def main() -> None:
    """Measure the costs, or print the plan."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("steps", nargs="*", metavar="STEP", help="steps in --costs (default: all)")
    parser.add_argument(
        "--pairs", type=float, default=1e8, help="pairs or lines, such as 1e9 (default: 1e8)"
    )
    parser.add_argument(
        "--line-bytes", type=float, default=120, help="bytes per line and side (default: 120)"
    )
    parser.add_argument("--cores", type=int, default=64, help="cores per machine (default: 64)")
    parser.add_argument("--hours", type=float, default=24, help="hours of a step (default: 24)")
    parser.add_argument("--part-size", type=float, help="MiB of a part (default: as in --costs)")
    parser.add_argument("--costs", type=Path, default=COSTS, help=f"(default: {COSTS.name})")
    parser.add_argument(
        "--measure",
        type=Path,
        nargs=2,
        metavar=("SOURCE", "TARGET"),
        help="measure the steps on this parallel text, and write the results to --costs",
    )
    parser.add_argument("--lines", type=int, help="for --measure: max lines of a text")
    args = parser.parse_args()
    stored = json.loads((args.costs if args.costs.exists() else COSTS).read_text("utf-8"))
    if unknown := [step for step in args.steps if step not in stored]:
        parser.error(f"{args.costs} has no step {unknown[0]}. The steps are: {', '.join(stored)}.")
    if args.measure:
        measure_all(stored, args)
        return
    steps = args.steps or stored
    print_table([HEADS, *(tuple(plan(step, stored[step], args)) for step in steps)])


if __name__ == "__main__":
    main()
