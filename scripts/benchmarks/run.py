"""Run benchmarks of suite.py and write the table of all results to README.md.

Each benchmark runs in its own process. Its report is stored in results.json, so single benchmarks
can be repeated. Each table row names the machine of its measurement.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from entry import Entry
from suite import SUITE

HERE = Path(__file__).resolve().parent
RESULTS, TABLE = HERE / "results.json", HERE / "README.md"
PLACE = re.compile(r"(?<!\S)[A-Z]{2,}(?!\S)")
"""A placeholder in the options for a file that the user supplies."""

HEADER = (
    "| benchmark | script and options | ratio | range | reported elsewhere | machine | note |",
    "| --- | --- | --- | --- | --- | --- | --- |",
)

Results = dict[str, dict[str, Any]]
"""Reports by key of the entry, with the suffix @cuda for a GPU, or @second for a second CPU."""


def main() -> None:
    """Run the selected benchmarks and write the table."""
    args = arguments()
    results: Results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for entry in chosen(args.benchmark, args.all, args.device):
        command = filled(entry, dict(one.split("=", 1) for one in args.given))
        if command is None:
            print(f"{entry.key}: skipped. It needs --given for {entry.options}", file=sys.stderr)
            continue
        print(f"==> {entry.key}", file=sys.stderr)
        if args.device != "cpu":
            command += ["--device", args.device]
        done = subprocess.run([sys.executable, *command], stdout=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(f"{entry.key} failed: {shlex.join(command)}")
        suffix = "@cuda" if args.device != "cpu" else "@second" if args.second else ""
        results[entry.key + suffix] = kept(json.loads(done.stdout), args.remark)
        RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    TABLE.write_text(table(results))
    print(f"wrote {TABLE}", file=sys.stderr)


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument(
        "benchmark", nargs="*", help="keys of suite.py (default: none, only write the table)"
    )
    options.add_argument(
        "--all",
        action="store_true",
        help="run all benchmarks, or with --device cuda all that use a GPU",
    )
    options.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    options.add_argument("--second", action="store_true", help="store results of a second CPU")
    options.add_argument(
        "--given",
        nargs="*",
        default=[],
        metavar="WORD=FILE",
        help="files for placeholders, for example MODEL=m.pt DATA=bin",
    )
    options.add_argument("--remark", default="", help="remark on the measurement, for the notes")
    args = options.parse_args()
    unknown = set(args.benchmark) - {entry.key for entry in SUITE}
    if unknown:
        options.error(f"suite.py has no benchmark {', '.join(sorted(unknown))}")
    if args.device != "cpu":
        without = {entry.key for entry in SUITE if not entry.gpu} & set(args.benchmark)
        if without:
            options.error(f"{', '.join(sorted(without))} cannot use a GPU. Omit --device.")
    wrong = [one for one in args.given if "=" not in one]
    if wrong:
        options.error(f"--given is {wrong[0]}. Expected WORD=FILE.")
    return args


def chosen(keys: Sequence[str], every: bool, device: str) -> list[Entry]:
    """Return the selected entries that use the device, in the order of the suite."""
    usable = [entry for entry in SUITE if device == "cpu" or entry.gpu]
    return [entry for entry in usable if every or entry.key in keys]


def filled(entry: Entry, given: Mapping[str, str]) -> list[str] | None:
    """Return the script and its options, or None if a file is missing from `given`."""
    words = shlex.split(entry.options)
    if any(PLACE.fullmatch(word) and word not in given for word in words):
        return None
    return [str(HERE / f"{entry.script}.py"), *(given.get(word, word) for word in words)]


def kept(report: Mapping[str, Any], remark: str) -> dict[str, Any]:
    """Return the parts of a report that are stored: results, machine and remark."""
    names = ("ratio", "spread", "goal", "goal_reached", "machine", "rates")
    return {**{name: report[name] for name in names}, "remark": remark}


def table(results: Results) -> str:
    """Return the content of README.md."""
    lines = [
        "# Benchmarks",
        "",
        "Each benchmark compares two programs in alternating runs on the same machine. The table",
        "has the median of the ratios and their range, some for two CPUs. The ratio of *A over B*",
        "is the value of A, such as its speed or peak memory, divided by that of B. An *exponent*",
        "is that of the CPU time in the number of lines, without the start. It is 1 if the time is",
        "linear. During some measurements on CPUs, other processes ran on the machine. The range",
        "shows their effect.",
        "",
        "- `python scripts/benchmarks/run.py --all` runs all benchmarks and writes this page.",
        "- `python scripts/benchmarks/SCRIPT.py OPTIONS` runs one and prints a report as JSON.",
        "- `python scripts/benchmarks/program_profile.py SCRIPT OPTIONS` profiles both programs.",
        "- `--device cuda` measures on a GPU.",
    ]
    notes: list[str] = []
    machines: list[str] = []
    sections = dict.fromkeys(entry.section for entry in SUITE)
    for title, device in (*((section, "") for section in sections), ("On a GPU", "@cuda")):
        rows = [
            row(entry, reports, device, notes, machines)
            for entry in SUITE
            if device or entry.section == title
            if (reports := [results[key] for key in keys(entry, device) if key in results])
            or (not device and f"{entry.key}@cuda" not in results)
        ]
        lines += ["", f"## {title}", "", *HEADER, *rows] if rows else []
    lines += ["", "## Notes", ""] if notes else []
    lines += [f"{number}. {note}" for number, note in enumerate(notes, 1)]
    lines += ["", "## Machines", ""] if machines else []
    lines += [f"- {letter(number)}: {name}" for number, name in enumerate(machines)]
    return "\n".join(lines) + "\n"


def keys(entry: Entry, device: str) -> list[str]:
    """Return the keys of an entry in the results."""
    return [entry.key + device] if device else [entry.key, f"{entry.key}@second"]


def row(
    entry: Entry,
    reports: Sequence[Mapping[str, Any]],
    device: str,
    notes: list[str],
    machines: list[str],
) -> str:
    """Return a row. Append its notes and machines to `notes` and `machines`."""
    command = f"`{' '.join(filter(None, [entry.script, entry.options]))}`"
    if not reports:
        return f"| {entry.what} | {command} | not measured | | {entry.known} | | |"
    remarks = [*(report["remark"] for report in reports), entry.gpu_note if device else entry.note]
    cells = (
        ", ".join(f"{report['ratio']:.3g}" for report in reports),
        ", ".join(filter(None, map(between, reports))),
        entry.known,
        ", ".join(letter(index_of(named(report), machines)) for report in reports),
        ", ".join(str(index_of(text, notes) + 1) for text in dict.fromkeys(filter(None, remarks))),
    )
    return f"| {entry.what} | {command} | {' | '.join(cells)} |"


def between(report: Mapping[str, Any]) -> str:
    """Return the range of the ratios, or an empty text if there is only one."""
    ends = dict.fromkeys(f"{ratio:.3g}" for ratio in report["spread"])
    return " to ".join(ends) if len(ends) == 2 else ""


def index_of(text: str, texts: list[str]) -> int:
    """Return the index of a text. Append it if it is not in the list."""
    if text not in texts:
        texts.append(text)
    return texts.index(text)


def letter(number: int) -> str:
    """Return a for 0, b for 1, and so on."""
    return chr(ord("a") + number)


def named(found: Mapping[str, Any]) -> str:
    """Return the machine and the versions on one line."""
    machine = found["machine"]
    parts = [
        str(machine["device"]),
        f"{machine['cores']} cores" if machine.get("cores") else "",
        f"Python {machine['python']}",
        f"torch {machine['torch'].removesuffix('+cpu')}",
    ]
    return ", ".join(filter(None, parts))


if __name__ == "__main__":
    main()
