"""Memory of the batches of an epoch: splits joined by fairseq, over splits mixed by arithmetic.

The corpora are made up: an index that says of each sentence where it begins and how long it is, and
a file of no content. Each way runs in a process of its own, which reports the memory that is its
own, without pages of files. With --mixed-alone, only the mixture is measured, which is how to see
what a corpus of 300 million pairs costs.
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
"""How many times as small the genuine corpus is."""
PIECE = 10_000_000


def write_index(prefix: Path, count: int, length: int) -> None:
    """Write what fairseq-preprocess writes of so many sentences, but for their tokens."""
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
    """Return the bytes of this process that are no file's."""
    found = re.search(r"RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return 1024.0 * int(found[1]) if found else 0.0


def peak(way: str, folder: Path, args: Any) -> tuple[float, float]:
    """Make an epoch's batches; return the highest rise of memory, in bytes, and the seconds."""
    words = models.words(1000).source_dictionary
    before, highest, done = own_memory(), 0.0, threading.Event()

    def watch() -> None:
        nonlocal highest
        while not done.wait(0.02):
            highest = max(highest, own_memory())

    watcher = threading.Thread(target=watch)
    watcher.start()
    begun = time.perf_counter()
    sides = [
        [data_utils.load_indexed_dataset(str(folder / name), words, "mmap") for _ in range(2)]
        for name in ("genuine", "synthetic")
    ]
    pairs = joined(sides, words) if way == "joined" else mixed(sides, words, args.epoch_pairs)
    indices, _ = pairs.filter_indices_by_size(pairs.ordered_indices(), (1024, 1024))
    pairs.batch_by_size(indices, max_tokens=args.tokens, required_batch_size_multiple=8)
    seconds = time.perf_counter() - begun
    done.set()
    watcher.join()
    return highest - before, seconds


def joined(sides: Any, words: Any) -> LanguagePairDataset:
    """Return what translation makes of train and train1 with --upsample-primary."""
    whole = [ConcatDataset([pair[side] for pair in sides], [GENUINE, 1]) for side in range(2)]
    return LanguagePairDataset(whole[0], whole[0].sizes, words, whole[1], whole[1].sizes, words)


def mixed(sides: Any, words: Any, epoch_pairs: int) -> MixedPairs:
    """Return what tagged_translation makes of --mix-weights train=1,bt=1."""
    counts = mixture_counts([len(pair[0]) for pair in sides], [1, 1], epoch_pairs or None)
    source, target = ([pair[side] for pair in sides] for side in range(2))
    return MixedPairs(
        Mixture(source, counts, [None, 5]), words, Mixture(target, counts, [None, None]), words
    )


def measure(way: str, folder: Path, args: Any) -> float:
    """Return the peak of a fresh process."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context) as process:
        rise, seconds = process.submit(peak, way, folder, args).result()
    print(f"  {way}: {rise / 2**20:.0f} MiB, {seconds:.1f} s", file=sys.stderr)
    return rise


def main() -> None:
    """Measure and publish."""
    options = harness.parser((__doc__ or "").splitlines()[0])
    options.add_argument("--sentences", type=int, default=3_000_000, help="synthetic pairs")
    options.add_argument("--length", type=int, default=25, help="in tokens, on both sides")
    options.add_argument("--epoch-pairs", type=int, default=0, help="(0: each set once or more)")
    options.add_argument("--tokens", type=int, default=4000, help="of a batch")
    options.add_argument("--folder", type=Path, help="where the made-up corpora are written")
    options.add_argument("--mixed-alone", action="store_true", help="measure no other way")
    args = harness.parse(options)
    comparison = harness.Comparison(
        *("mixing_memory", "joined by fairseq", "mixed", "bytes"),
        goal=1.0,
        settings={**vars(args), "folder": str(args.folder)},
    )
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        folder = Path(name)
        write_index(folder / "synthetic", args.sentences, args.length)
        write_index(folder / "genuine", max(1, args.sentences // GENUINE), args.length)
        if args.mixed_alone:
            measure("mixed", folder, args)
            return
        for _ in range(args.pairs):
            pair = measure("joined", folder, args), measure("mixed", folder, args)
            comparison.rates.append(pair)
            comparison.ratios.append(pair[0] / pair[1])
    harness.publish(comparison)


if __name__ == "__main__":
    main()
