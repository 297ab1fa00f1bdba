"""Speed of edit labeling relative to a full table in Python, or of 2 processes relative to 1.

With --peer, the pairs of --source and --target are labeled here and by functions of another
project's --checkout, in pairs per second of CPU time. PIE's function only aligns the pairs, with
the same edits.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path

import harness
import numpy as np

from fairseq_ssl.edits.alignment import Change, align_tokens
from fairseq_ssl.edits.dictionary import EditDictionary
from fairseq_ssl.edits.extraction import LabelExtractor
from fairseq_ssl.edits.labels import Gram
from fairseq_ssl.edits.transforms import GROUPS, Transforms, english_suffixes
from fairseq_ssl.noise.batch import Random
from fairseq_ssl.noise.default_learner_errors import DEFAULT_ERRORS
from fairseq_ssl.noise.learner import LearnerNoise

GOAL = 10.0
PROCESSES_GOAL = 1.8
PEER_GOALS = {"pie": 25.0, "gector": 3.0}
VOCABULARY = 20_000
VERBS = "go take make know see think look want give use find tell ask work call try need feel"
COPIES = 100
"""Copies of the pairs with --processes: a run should last much longer than starting processes."""

Pairs = list[tuple[str, str]]


def corpus(sentences: int, length: int) -> Pairs:
    """Return noisy and clean lines. Noisy lines have 0 to 4 learner errors."""
    frequent = [*DEFAULT_ERRORS.deleted, *VERBS.split()]
    words = np.array([*frequent, *map("word{}".format, range(VOCABULARY))], dtype=object)
    drawn = np.random.default_rng(1).zipf(1.2, size=(sentences, length)) % len(words)
    clean = list(map(" ".join, words[drawn].tolist()))
    noise = LearnerNoise()
    noisy = noise(noise.table.start_lines(clean), Random.of((1, 0), len(clean)))
    return list(zip(noise.table.to_lines(noisy.block), clean, strict=True))


def read(source: Path, target: Path, sentences: int) -> Pairs:
    """Return `sentences` pairs at equal distances in two files."""
    sides = (path.read_text(encoding="utf-8").splitlines() for path in (source, target))
    pairs = list(zip(*sides, strict=True))
    return pairs[:: max(1, len(pairs) // sentences)][:sentences]


def build_dictionary(pairs: Pairs, groups: Sequence[str] = ()) -> EditDictionary:
    """Return a dictionary of the 1,000 most frequent q-grams and the paper's suffixes."""
    found = (align_tokens(source.split(), target.split()) or () for source, target in pairs)
    grams = [change.inserted for one in found for change in one]
    counts: Counter[Gram] = Counter(gram for gram in grams if 0 < len(gram) <= 2)
    return EditDictionary.of_counts(counts, 1000, 2, Transforms.of(english_suffixes(), groups))


def plain_steps(source: Sequence[str], target: Sequence[str]) -> list[str]:
    """Fill a table of costs and a table of steps, and trace the steps back from the end."""
    n, m = len(source), len(target)
    costs = [[1.0 * (i + j) for j in range(m + 1)] for i in range(n + 1)]
    steps = [["insert" if i == 0 else "delete"] * (m + 1) for i in range(n + 1)]
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            token, word = source[i - 1], target[j - 1]
            unlike = 0 if token == word else 1 + abs(len(token) - len(word)) / 1000
            pair = costs[i - 1][j - 1] + unlike
            insert = costs[i][j - 1] + 1
            delete = costs[i - 1][j] + 1
            cost = costs[i][j] = min(pair, insert, delete)
            steps[i][j] = "pair" if cost == pair else "insert" if cost == insert else "delete"
    walked = []
    while n or m:
        walked.append(steps[n][m])
        n, m = n - (walked[-1] != "insert"), m - (walked[-1] != "delete")
    return walked[::-1]


def plain_labels(source: list[str], target: list[str], dictionary: EditDictionary) -> list[int]:
    """Label the steps as in figure 1 of PIE."""
    kept, put_in = [True], [[]]  # type: tuple[list[bool], list[list[str]]]
    words = iter(target)
    for step in plain_steps(source, target):
        if step == "insert":
            put_in[-1].append(next(words))
            continue
        token = source[len(kept) - 1]
        word = next(words) if step == "pair" else None
        kept.append(word == token)
        put_in.append([] if word is None or word == token else [word])
    labels = []
    for place, (stays, added) in enumerate(zip(kept, put_in, strict=True)):
        gram = tuple(added)
        if stays:
            labels.append(dictionary.append_ids.get(gram, 0))
        elif not gram:
            labels.append(1)
        else:
            number = dictionary.transforms.match(source[place - 1], " ".join(gram))
            transform = None if number is None else dictionary.first_transform + number
            labels.append(dictionary.replace_ids.get(gram, 0) if transform is None else transform)
    return labels


def ours(pairs: Pairs, dictionary: EditDictionary) -> int:
    """Label the pairs with the package."""
    extraction = LabelExtractor(dictionary)
    for source, target in pairs:
        assert extraction(source.split(), target.split()) is not None
    return len(pairs)


def plain(pairs: Pairs, dictionary: EditDictionary) -> int:
    """Label the pairs with full tables."""
    for source, target in pairs:
        assert plain_labels(source.split(), target.split(), dictionary)
    return len(pairs)


def check(pairs: Pairs, dictionary: EditDictionary) -> None:
    """Assert that both implementations return the same labels."""
    extraction = LabelExtractor(dictionary)
    for source, target in pairs:
        sides = source.split(), target.split()
        found = extraction(*sides)
        assert found is not None
        assert found.ids == plain_labels(*sides, dictionary), (source, target)


def peer(name: str, checkout: Path) -> Callable[[str, str], object]:
    """Return the function of PIE that aligns a pair, or of GECToR that labels a pair."""
    sys.path.insert(0, str(checkout if name == "pie" else checkout / "utils"))
    if name == "gector":
        label: Callable[[str, str], object] = import_module("preprocess_data").align_sequences
        return label
    align = import_module("seq2edits_utils").ndiff
    return lambda source, target: align(source.split(), target.split())


def changes_of(diff: Sequence[str]) -> list[Change]:
    """Convert a diff by PIE. Its lines begin with two spaces, "- " or "+ "."""
    found: list[Change] = []
    position, kept = 0, True
    for line in [*diff, "  "]:
        if line[0] == "+":
            found.append(Change(position, kept, tuple(line[2:].split())))
            kept = True
            continue
        if not kept:
            found.append(Change(position, False, ()))
        position, kept = position + 1, line[0] == " "
    return found


def theirs(pairs: Pairs, label: Callable[[str, str], object]) -> int:
    """Label or align the pairs with the function of a peer."""
    for source, target in pairs:
        assert label(source, target)
    return len(pairs)


def command(jobs: int, folder: Path, pairs: int) -> int:
    """Label two files with the command, in a process that does not import torch."""
    words = ["edits", "label", "source", "target", "--dictionary", "edits", "-o", "labels"]
    call = [sys.executable, "-m", "fairseq_ssl", *words, "--jobs", str(jobs)]
    harness.run_command(call, folder)
    return pairs


def write(pairs: Pairs, dictionary: EditDictionary, folder: Path) -> None:
    """Write the copies of the pairs to two files, and the dictionary."""
    for name, lines in zip(("source", "target"), zip(*pairs, strict=True), strict=True):
        text = "".join(f"{line}\n" for line in lines) * COPIES
        (folder / name).write_text(text, encoding="utf-8")
    dictionary.write(folder / "edits")


def compare_with_peer(comparison: harness.Comparison, args: argparse.Namespace) -> None:
    """Compare with another project. Check that PIE's edits are the same."""
    pairs = read(args.source, args.target, args.sentences)
    label = peer(args.peer, args.checkout)
    if args.peer == "pie":
        for source, target in pairs:
            diff = label(source, target)
            assert isinstance(diff, list)
            assert changes_of(diff) == align_tokens(source.split(), target.split())
    text = build_dictionary(pairs, GROUPS if args.peer == "gector" else ()).text()

    def labeled() -> int:
        # a new dictionary has empty caches
        return ours(pairs, EditDictionary.parse(text.splitlines(), "dictionary"))

    peers = partial(theirs, pairs, label)
    harness.compare(comparison, labeled, peers, args.pairs, clock=time.process_time)


def main() -> None:
    """Run the benchmark and print its report."""
    options = harness.parser((__doc__ or "").splitlines()[0], gpu=False)
    options.add_argument("--processes", action="store_true", help="compare two processes with one")
    options.add_argument("--sentences", type=int, default=5_000)
    options.add_argument("--length", type=int, default=20, help="sentence length in words")
    options.add_argument("--peer", choices=PEER_GOALS, help="project to compare with")
    options.add_argument("--checkout", type=Path, help="with --peer: folder of its code")
    options.add_argument("--source", type=Path, help="with --peer: sentences")
    options.add_argument("--target", type=Path, help="with --peer: corrected sentences")
    args = harness.parse(options)
    if args.peer and None in (args.checkout, args.source, args.target):
        options.error("--peer needs --checkout, --source and --target.")
    comparison = harness.Comparison(
        Path(__file__).stem,
        *(("2 processes", "1 process") if args.processes else ("edits", args.peer or "full table")),
        unit="pairs/s",
        goal=PROCESSES_GOAL if args.processes else PEER_GOALS.get(args.peer, GOAL),
        settings={name: str(value) for name, value in vars(args).items()},
    )
    if args.peer:
        compare_with_peer(comparison, args)
        harness.publish(comparison)
        return
    pairs = corpus(args.sentences, args.length)
    dictionary = build_dictionary(pairs)
    check(pairs, dictionary)
    with tempfile.TemporaryDirectory() as folder:
        if args.processes:
            write(pairs, dictionary, Path(folder))
            total = len(pairs) * COPIES
            first, second = (partial(command, jobs, Path(folder), total) for jobs in (2, 1))
        else:
            first, second = (partial(work, pairs, dictionary) for work in (ours, plain))
        harness.compare(comparison, first, second, args.pairs)
    harness.publish(comparison)


if __name__ == "__main__":
    main()
