"""Memory of an epoch's batches: splits concatenated by fairseq relative to our mixed splits.

The corpora are artificial: an index with the offsets and lengths of sentences, and a sparse file
without content. Each method runs in a separate process, which reports its anonymous memory, without
mapped files. --limit compares only the mixture, with a number of bytes per pair of an epoch. Of
--epochs, each forms its batches while those of the last epoch are held, as in fairseq-train.
"""

from __future__ import annotations

import multiprocessing
import re
import struct
import sys
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import harness
import models
import numpy as np
from fairseq.data import ConcatDataset, LanguagePairDataset, data_utils

from fairseq_ssl.data.mixing import MixedPairs, Mixture, mixture_counts

GENUINE = 10
"""Size of the synthetic corpus divided by the size of the genuine corpus."""
PIECE = 10_000_000


def write_index(prefix: Path, count: int, length: int) -> None:
    """Write a binarized data set of `count` sentences in fairseq's format, with empty content."""
    with prefix.with_suffix(".idx").open("wb") as file:
        file.write(b"MMIDIDX\x00\x00" + struct.pack("<QBQ", 1, 8, count))
        for begin in range(0, count, PIECE):
            file.write(np.full(min(PIECE, count - begin), length, np.int32).tobytes())
        for begin in range(0, count, PIECE):
            numbers = np.arange(begin, min(begin + PIECE, count), dtype=np.int64)
            file.write((numbers * length * 2).tobytes())
    with prefix.with_suffix(".bin").open("wb") as file:
        file.truncate(count * length * 2)


def own_memory() -> float:
    """Return the anonymous memory of this process in bytes."""
    found = re.search(r"RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return 1024.0 * int(found[1]) if found else 0.0


def peak(way: str, folder: Path, args: Any) -> tuple[float, float]:
    """Create an epoch's batches. Return the peak memory increase in bytes and CPU seconds."""
    words = models.words(1000).source_dictionary
    # fairseq reads each file once, in parts of up to 100 MB, to fill the cache of the system.
    sides = [
        [data_utils.load_indexed_dataset(str(folder / name), words, "mmap") for _ in range(2)]
        for name in ("genuine", "synthetic")
    ]
    before = highest = own_memory()
    done = threading.Event()

    def watch() -> None:
        nonlocal highest
        while not done.wait(0.02):
            highest = max(highest, own_memory())

    watcher = threading.Thread(target=watch)
    watcher.start()
    begun = time.process_time()
    pairs = joined(sides, words) if way == "joined" else mixed(sides, words, args.epoch_pairs)
    batches: list[Any] = []
    for epoch in range(1, args.epochs + 1):
        pairs.set_epoch(epoch)
        indices, _ = pairs.filter_indices_by_size(pairs.ordered_indices(), (1024, 1024))
        batches = pairs.batch_by_size(
            indices, max_tokens=args.tokens, required_batch_size_multiple=8
        )
        del indices
    assert batches
    seconds = time.process_time() - begun
    done.set()
    watcher.join()
    return max(highest - before, 1.0), seconds  # a tiny epoch ends before the first look


def joined(sides: Any, words: Any) -> LanguagePairDataset:
    """Return the data set of translation for train and train1 with --upsample-primary."""
    whole = [ConcatDataset([pair[side] for pair in sides], [GENUINE, 1]) for side in range(2)]
    return LanguagePairDataset(whole[0], whole[0].sizes, words, whole[1], whole[1].sizes, words)


def mixed(sides: Any, words: Any, epoch_pairs: int) -> MixedPairs:
    """Return the data set of tagged_translation with --mix-weights train=1,bt=1."""
    counts = mixture_counts([len(pair[0]) for pair in sides], [1, 1], epoch_pairs or None)
    source, target = ([pair[side] for pair in sides] for side in range(2))
    return MixedPairs(
        Mixture(source, counts, [None, 5]), words, Mixture(target, counts, [None, None]), words
    )


def measure(way: str, folder: Path, args: Any) -> float:
    """Return the peak memory of a new process."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context) as process:
        rise, seconds = process.submit(peak, way, folder, args).result()
    print(f"  {way}: {rise / 2**20:.0f} MiB, {seconds:.1f} s", file=sys.stderr)
    return rise


def main() -> None:
    """Run the benchmark and print its report."""
    options = harness.parser((__doc__ or "").splitlines()[0], gpu=False)
    options.add_argument(
        "--sentences", type=int, default=3_000_000, help="number of synthetic pairs"
    )
    options.add_argument(
        "--length", type=int, default=25, help="length of source and target in tokens"
    )
    options.add_argument(
        "--epoch-pairs",
        type=int,
        default=0,
        help="pairs in an epoch, 0 for each split at least once",
    )
    options.add_argument("--tokens", type=int, default=4000, help="max tokens of a batch")
    options.add_argument("--folder", type=Path, help="folder of the artificial corpora")
    options.add_argument("--epochs", type=int, default=1, help="number of epochs")
    options.add_argument(
        "--limit", type=int, default=0, help="bytes per pair to compare with, 0 for fairseq's"
    )
    args = harness.parse(options)
    if args.limit and not args.epoch_pairs:
        options.error("--limit needs --epoch-pairs.")
    comparison = harness.Comparison(
        *("mixing_memory", f"{args.limit} bytes" if args.limit else "fairseq", "mixed", "bytes"),
        goal=1.0,
        settings={**vars(args), "folder": str(args.folder)},
    )
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        folder = Path(name)
        write_index(folder / "synthetic", args.sentences, args.length)
        write_index(folder / "genuine", max(1, args.sentences // GENUINE), args.length)
        limit = float(args.limit * args.epoch_pairs)
        for _ in range(args.pairs):
            pair = limit or measure("joined", folder, args), measure("mixed", folder, args)
            comparison.rates.append(pair)
            comparison.ratios.append(pair[0] / pair[1])
    harness.publish(comparison)


if __name__ == "__main__":
    main()
