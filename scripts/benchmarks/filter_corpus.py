"""Speed of the filter command relative to OpusFilter, in pairs per second of CPU time.

Both filter the same pairs by length and length ratio, and with --what language also by language
(langid) and duplicates. The text is repeated up to --lines pairs, every second time with a number,
so that some pairs are duplicates. --opusfilter is the command of OpusFilter, in an environment of
its own. The time includes loading. Peak memory and kept pairs are printed to stderr.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import harness

GOALS = {"length": 5.0, "language": 2.0}
MAX_TOKENS = 40
CHAINS = {"length": f"clean:max={MAX_TOKENS}:ratio=2"}
CHAINS["language"] = f"{CHAINS['length']},langid:source=SOURCE:target=TARGET,duplicates"
SIDES = ("source", "target")


def write_corpus(folder: Path, files: Sequence[Path], lines: int) -> None:
    """Write `lines` pairs to the folder."""
    for name, path in zip(SIDES, files, strict=True):
        text = path.read_text(encoding="utf-8").splitlines()
        with (folder / name).open("w", encoding="utf-8") as file:
            for line in range(lines):
                copy, row = divmod(line, len(text))
                file.write(f"{text[row]} {copy}\n" if copy % 2 else f"{text[row]}\n")


def opusfilter_config(what: str, languages: Sequence[str], folder: Path) -> str:
    """Return the configuration of OpusFilter as JSON, which is YAML. Its ratio is exclusive."""
    filters: list[dict[str, Any]] = [
        {"LengthFilter": {"unit": "word", "min_length": 1, "max_length": MAX_TOKENS}},
        {"LengthRatioFilter": {"unit": "word", "threshold": 2 + 1e-9}},
    ]
    steps: list[dict[str, Any]] = []
    if what == "language":
        filters.append({"LangidFilter": {"languages": list(languages)}})
        unique = {
            "inputs": ["peer.source", "peer.target"],
            "outputs": ["once.source", "once.target"],
        }
        steps = [{"type": "remove_duplicates", "parameters": unique}]
    files = {"inputs": list(SIDES), "outputs": ["peer.source", "peer.target"]}
    first = {"type": "filter", "parameters": {**files, "filters": filters}}
    return json.dumps({"common": {"output_directory": str(folder)}, "steps": [first, *steps]})


MEASURED = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)
sys.exit(code)
"""
"""Runs a command and prints its peak memory. A fork would also count this process's memory."""


def run(command: Sequence[str | Path], folder: Path, memory: list[int]) -> None:
    """Run a command to its end. Append its peak memory in MiB."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *map(str, command)],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        check=False,
    )
    if done.returncode:
        sys.exit(f"That failed: {' '.join(map(str, command))}")
    memory.append(int(done.stdout))


def main() -> None:
    """Run the benchmark and print its report."""
    options = harness.parser((__doc__ or "").splitlines()[0], gpu=False)
    options.add_argument("--source", type=Path, required=True, help="sentences")
    options.add_argument("--target", type=Path, required=True, help="translations of the sentences")
    options.add_argument("--languages", nargs=2, default=("en", "de"), metavar="LANGUAGE")
    options.add_argument("--opusfilter", type=Path, required=True, help="command of OpusFilter")
    options.add_argument("--what", choices=GOALS, default="length")
    options.add_argument("--lines", type=int, default=1_000_000)
    args = harness.parse(options)
    comparison = harness.Comparison(
        f"filter-{args.what}",
        *("filter", "OpusFilter"),
        unit="pairs/s",
        goal=GOALS[args.what],
        settings={name: str(value) for name, value in vars(args).items()},
    )
    chain = CHAINS[args.what]
    for name, language in zip(SIDES, args.languages, strict=True):
        chain = chain.replace(name.upper(), language)
    outputs = ("ours.source", "ours.target")
    ours = [sys.executable, "-m", "fairseq_ssl", "filter", *SIDES, "--filter", chain, "--force"]
    ours += ["--jobs", "1", "-o", *outputs]
    peer = [args.opusfilter.absolute(), "--overwrite", "peer.yaml"]
    memory: dict[str, list[int]] = {"ours": [], "peer": []}
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_corpus(folder, (args.source, args.target), args.lines)
        (folder / "peer.yaml").write_text(opusfilter_config(args.what, args.languages, folder))

        def filtered() -> int:
            run(ours, folder, memory["ours"])
            return int(args.lines)

        def filtered_by_peer() -> int:
            run(peer, folder, memory["peer"])
            return int(args.lines)

        harness.compare(comparison, filtered, filtered_by_peer, args.pairs, 0, harness.cpu_seconds)
        kept = {
            "ours": outputs[0],
            "peer": "once.source" if args.what == "language" else "peer.source",
        }
        for name, file in kept.items():
            count = (folder / file).read_bytes().count(b"\n")
            print(f"{name}: {count} pairs kept, {max(memory[name])} MiB", file=sys.stderr)
    harness.publish(comparison)


if __name__ == "__main__":
    main()
