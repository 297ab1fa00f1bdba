"""Resources of finding duplicates in a corpus of many parts, as JSON.

Parts of random keys, a tenth of them duplicates, go through the three steps of
`fairseq_ssl.filters.key_files`, each call in a new process. The report has the CPU time of each
step, the peak memory of its largest process, and the size of its files. The dropped rows are
compared with those expected. With --text, the keys of lines are measured instead: lines per second
of CPU time for equal lines and for near-duplicates, the fraction of the distinct lines that are
dropped, and the fraction of changed copies that are dropped because of their original. Precision is
the fraction of copies among the dropped lines if a tenth of the lines has a copy with another word
or other punctuation.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import resource
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.filters.deduplication import DuplicateFilter, HashSet
from fairseq_ssl.filters.key_files import pack_dropped, pack_keys, plan_ranges, read_dropped

COPIES = 10
"""Each tenth row is a copy of an earlier row."""
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
CHANGES = ("word", "punctuation", "case")


def random_keys(part: int, rows: int) -> NDArray[np.uint64]:
    """Return the keys of a part: SplitMix64 of the index of the row, or of that of its original."""
    index = np.arange(part * rows, (part + 1) * rows, dtype=np.uint64)
    copies = np.arange(COPIES - 1, rows, COPIES)
    drawn = np.random.default_rng(part).integers(0, index[copies] // COPIES + 1, dtype=np.uint64)
    index[copies] = drawn * np.uint64(COPIES)
    states = np.stack([index, index + np.uint64(2**40)], axis=1) * GOLDEN
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        states ^= states >> np.uint64(shift)
        states *= np.uint64(factor)
    return states[:, None]


def write_part(path: Path, part: int, rows: int) -> None:
    """Write the keys of a part."""
    with path.open("wb") as file:
        file.writelines(pack_keys(random_keys(part, rows), np.arange(rows)))


def write_dropped(path: Path, key_files: list[Path], buckets: range) -> None:
    """Write the rows that have a key of an earlier part."""
    with path.open("wb") as file:
        file.writelines(pack_dropped(key_files, buckets))


def check_part(part: int, key_file: Path, dropped_files: list[Path], rows: int) -> None:
    """Read the dropped rows of a part, and compare them with the copies."""
    dropped = read_dropped(part, key_file, dropped_files)
    assert np.array_equal(dropped, np.arange(COPIES - 1, rows, COPIES))


def measured(function: Callable[..., None], *values: Any) -> tuple[float, float]:
    """Call a function. Return the CPU seconds, and the peak memory of this process in MiB."""
    start = time.process_time()
    function(*values)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return time.process_time() - start, peak


def run_step(calls: list[tuple[Any, ...]], jobs: int) -> dict[str, float]:
    """Run each call in a new process. Return CPU seconds and the largest peak memory."""
    with get_context("spawn").Pool(jobs, maxtasksperchild=1) as processes:
        seconds, peaks = zip(*processes.starmap(measured, calls, chunksize=1), strict=True)
    return {"calls": len(calls), "core-seconds": sum(seconds), "peak MiB": max(peaks)}


def measure_steps(folder: Path, args: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Return the resources of the steps."""
    parts = range(args.parts)
    keys = [folder / f"keys-{part}" for part in parts]
    steps = {"random keys": run_step([(random_keys, part, args.rows) for part in parts], args.jobs)}
    steps["keys"] = run_step(
        [(write_part, keys[part], part, args.rows) for part in parts], args.jobs
    )
    start = time.process_time()
    ranges = plan_ranges(keys, args.max_keys)
    steps["plan"] = {"core-seconds": time.process_time() - start}
    dropped = [folder / f"dropped-{index}" for index in range(len(ranges))]
    calls = zip(dropped, ranges, strict=True)
    steps["decide"] = run_step(
        [(write_dropped, path, keys, buckets) for path, buckets in calls], args.jobs
    )
    steps["read"] = run_step(
        [(check_part, part, keys[part], dropped, args.rows) for part in parts], args.jobs
    )
    for step, paths in (("keys", keys), ("decide", dropped)):
        steps[step]["disk MiB"] = sum(path.stat().st_size for path in paths) / 2**20
    return steps


def changed(lines: list[str], change: str) -> Iterator[str]:
    """Yield the lines with one word in ten replaced, other punctuation, or in upper case."""
    generator = random.Random(1)
    vocabulary = [word for line in lines for word in line.split()]
    for line in lines:
        words = line.split()
        if change == "word":
            for index in generator.sample(range(len(words)), max(1, round(len(words) / 10))):
                words[index] = generator.choice(vocabulary)
        elif change == "case":
            words = line.upper().split()
        elif generator.random() < 0.5 and re.search("[.,;!?]", line):
            words = re.sub(" ?[.,;!?]", "", line).split()
        else:
            words[generator.randrange(len(words))] += generator.choice([",", "!", " -", "..."])
        yield " ".join(words)


def measure_text(lines: list[str], near: float) -> dict[str, float]:
    """Return speed and quality of the keys of distinct lines. Changed copies are 3,000 lines."""
    duplicates = DuplicateFilter(1, near=near)
    duplicates.keys([(b"a",)])  # imports datasketch
    start = time.process_time()
    blocks = [
        duplicates.keys([(line.encode(),) for line in lines[first : first + 4000]])
        for first in range(0, len(lines), 4000)
    ]
    seconds = time.process_time() - start
    keys = np.concatenate(blocks)
    dropped = ~HashSet().add_rows(keys)
    report = {
        "near": near,
        "keys": keys.shape[1],
        "lines/s": len(lines) / seconds,
        "distinct lines": dropped.mean(),
    }
    some = random.Random(2).sample(range(len(lines)), min(3000, len(lines)))
    for change in CHANGES:
        copies = list(changed([lines[index] for index in some], change))
        equal = duplicates.keys([(copy.encode(),) for copy in copies]) == keys[some]
        report[change] = equal.all(axis=2).any(axis=1).mean()
    found = (report["word"] + report["punctuation"]) / 2 / 10
    return {**report, "precision": found / (found + report["distinct lines"])}


def main() -> None:
    """Measure and print the report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--parts", type=int, default=100, help="number of parts (default: 100)")
    parser.add_argument(
        "--rows",
        type=int,
        default=1_000_000,
        help="rows per part, a multiple of 10 (default: 1,000,000)",
    )
    parser.add_argument(
        "--max-keys", type=int, default=8_000_000, help="max keys per range (default: 8,000,000)"
    )
    parser.add_argument("--jobs", type=int, default=1, help="number of processes (default: 1)")
    parser.add_argument("--folder", type=Path, help="parent of the temporary folder")
    parser.add_argument("--text", type=Path, help="sentences")
    parser.add_argument("--near", type=float, nargs="+", default=(0, 0.6, 0.7, 0.8))
    args = parser.parse_args()
    if args.text:
        lines = dict.fromkeys(args.text.read_text(encoding="utf-8").splitlines())
        text = [line for line in lines if len(line.split()) >= 5]
        reports: Any = [measure_text(text, near) for near in args.near]
    else:
        with TemporaryDirectory(dir=args.folder) as folder:
            reports = measure_steps(Path(folder), args)
    json.dump(reports, sys.stdout, indent=2, default=float)


if __name__ == "__main__":
    main()
