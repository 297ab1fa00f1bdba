"""Speed of our noises relative to a loop over lines, in tokens per second of CPU time.

--processes compares the command with 2 processes to 1 process. --apart compares two parallel
commands, each with half of the text, to one command: the maximum gain of two cores that share the
memory. Both measure wall-clock time.

--peer compares the command with another tool that adds about one typo per sentence of --text, in
lines per second of CPU time, start-up included. --python is the Python of an environment with the
tool.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import harness
import numpy as np

from fairseq_ssl.io.blocks import memory_blocks
from fairseq_ssl.noise import NoiseResources, block_noise
from fairseq_ssl.text.vocabulary import count_line_words, write_counts

GOALS = {"direct": 6.0, "shuffle": 6.0}
PROCESSES_GOAL = 1.8
PEER_GOAL = 10.0
PEERS = {
    "nlpaug": """
import sys
from nlpaug.augmenter.char import KeyboardAug
noise = KeyboardAug(aug_char_max=1, aug_word_p=0.05, min_char=1)
for line in sys.stdin:
    print(noise.augment(line.rstrip("\\n"))[0])
""",
    "opustrainer": """
import sys
from opustrainer.modifiers.typos import TypoModifier
for line in TypoModifier(1.0)(line.rstrip("\\n") for line in sys.stdin):
    print(line)
""",
}
"""Programs that add typos to the lines of stdin."""
TYPOS = "characters:rate=0.01"
"""Our noise with as many typos: one in 100 characters."""
VOCABULARY = 30_000
DISTINCT = 50_000
"""Number of different sentences. Longer texts repeat them."""


def text(sentences: int, length: int) -> bytes:
    """Return lines of words whose frequencies follow Zipf's law."""
    size = (min(sentences, DISTINCT), length)
    drawn = np.random.default_rng(1).zipf(1.2, size=size) % VOCABULARY
    lines = (" ".join(map("word{}".format, line)) for line in drawn.tolist())
    return ("\n".join(lines).encode() + b"\n") * -(-sentences // DISTINCT)


def command(kind: str, folder: Path, jobs: int, tokens: int) -> harness.Run:
    """Return a run of the command from file to file."""
    words = [sys.executable, "-m", "fairseq_ssl", "noise", "clean", "-o", "noisy", "--method", kind]
    words += ["--jobs", str(jobs), "--force"]
    words += ["--counts", "counts"] if kind in GOALS else []

    def run() -> int:
        harness.run_command(words, folder)
        return tokens

    return run


def apart(kind: str, folder: Path, tokens: int) -> harness.Run:
    """Return a run of two parallel commands, each with half of the text."""
    words = [sys.executable, "-m", "fairseq_ssl", "noise", "--method", kind, "--counts", "counts"]
    words += ["--jobs", "1", "--force"]

    def run() -> int:
        halves = [
            subprocess.Popen(
                [*words, f"half{half}", "-o", f"noisy{half}"], cwd=folder, stderr=subprocess.DEVNULL
            )
            for half in (1, 2)
        ]
        assert [half.wait() for half in halves] == [0, 0]
        return tokens

    return run


def ours(kind: str, clean: bytes) -> harness.Run:
    """Return a run of the package's noise from bytes to bytes."""
    counts = count_line_words(clean.decode().splitlines()[:DISTINCT])
    method = block_noise.parse_noise(kind)
    resources = NoiseResources().load(method, counts)
    noise = block_noise.build_noise(method, resources)
    work = block_noise.CorpusNoise(noise, resources["table"], seed=1)

    def run() -> int:
        return sum(work(block).counts["tokens"] for block in memory_blocks(clean))

    return run


def plain(line: Callable[[list[str]], list[str]], clean: bytes, tokens: int) -> harness.Run:
    """Return a run of a noise in a loop over lines, from bytes to bytes."""

    def run() -> int:
        noisy = (" ".join(line(words.split())) for words in clean.decode().splitlines())
        assert "\n".join(noisy).encode()
        return tokens

    return run


def plain_direct(words: list[str], drawn: list[str]) -> list[str]:
    """Noise a line in a loop over its tokens."""
    noisy = []
    for word in words:
        chance = random.random()
        if chance < 0.2:
            noisy.append(word)
        elif chance < 0.5:
            noisy.append("<mask>")
        elif random.random() < 0.5:
            noisy += [word, random.choice(drawn)]
    return noisy


def plain_denoise(words: list[str], drawn: list[str], draw: np.random.Generator) -> list[str]:
    """Noise a line with one numpy call for each operation."""
    for operation in draw.permutation(3):
        if operation == 0:
            order = np.argsort(np.arange(len(words)) + draw.normal(0, 0.5, len(words)))
            words = [words[place] for place in order]
        else:
            hits = draw.random(len(words)) < draw.beta(21.1, 119.57)
            if operation == 1:
                words = [word for word, hit in zip(words, hits, strict=True) if not hit] or words
            else:
                words = [
                    drawn[draw.integers(len(drawn))] if hit else word
                    for word, hit in zip(words, hits, strict=True)
                ]
    return words


def commands(
    kind: str, folder: Path, clean: bytes, tokens: int, are_apart: bool
) -> tuple[harness.Run, harness.Run]:
    """Return runs with two processes and with one."""
    (folder / "clean").write_bytes(clean)
    middle = clean.index(b"\n", len(clean) // 2) + 1
    for number, half in enumerate((clean[:middle], clean[middle:]), 1):
        (folder / f"half{number}").write_bytes(half)
    write_counts(Counter(clean.decode().split()), folder / "counts")
    two = apart(kind, folder, tokens) if are_apart else command(kind, folder, 2, tokens)
    return two, command(kind, folder, 1, tokens)


def peers(folder: Path, args: argparse.Namespace) -> tuple[harness.Run, harness.Run]:
    """Return runs of our command and of a peer, from file to file."""
    lines = args.text.read_text(encoding="utf-8").splitlines()
    copies = -(-args.sentences // len(lines))
    text = "".join(f"{line}\n" for line in (lines * copies)[: args.sentences])
    (folder / "clean").write_text(text, encoding="utf-8")

    def noise_by_peer() -> int:
        with (folder / "clean").open() as clean, (folder / "peer").open("w") as noisy:
            harness.run_command([args.python, "-c", PEERS[args.peer]], None, clean, noisy)
        return int(args.sentences)

    return command(TYPOS, folder, 1, args.sentences), noise_by_peer


def noises(kind: str, clean: bytes, tokens: int) -> tuple[harness.Run, harness.Run]:
    """Return runs of our noise and of the loop over lines."""
    drawn = clean.decode().split()
    line = partial(plain_direct, drawn=drawn)
    if kind == "shuffle":
        line = partial(plain_denoise, drawn=drawn, draw=np.random.default_rng(1))
    return ours(kind, clean), plain(line, clean, tokens)


def compare_with_peer(args: argparse.Namespace) -> None:
    """Compare with another tool and print the report."""
    settings: dict[str, object] = {name: str(value) for name, value in vars(args).items()}
    comparison = harness.Comparison(
        "noise_offline", "characters", args.peer, "lines/s", PEER_GOAL, settings
    )
    with tempfile.TemporaryDirectory() as folder:
        runs = peers(Path(folder), args)
        harness.compare(comparison, *runs, args.pairs, 0, harness.cpu_seconds)
    harness.publish(comparison)


def main() -> None:
    """Run the benchmark and print its report."""
    options = harness.parser((__doc__ or "").splitlines()[0], gpu=False)
    options.add_argument("--noise", choices=GOALS, default="direct")
    options.add_argument("--processes", action="store_true", help="compare two processes with one")
    options.add_argument(
        "--apart", action="store_true", help="compare two parallel commands with one"
    )
    options.add_argument("--sentences", type=int, default=50_000)
    options.add_argument("--length", type=int, default=27, help="sentence length in words")
    options.add_argument("--peer", choices=PEERS, help="tool to compare with")
    options.add_argument("--python", help="with --peer: Python of its environment")
    options.add_argument("--text", type=Path, help="with --peer: clean sentences")
    args = harness.parse(options)
    if args.peer and None in (args.python, args.text):
        options.error("--peer needs --python and --text.")
    if args.peer:
        compare_with_peer(args)
        return
    two = "2 commands" if args.apart else "2 processes"
    is_command = args.processes or args.apart
    comparison = harness.Comparison(
        name="noise_offline",
        first=two if is_command else args.noise,
        second="1 process" if is_command else f"plain {args.noise}",
        unit="tokens/s",
        goal=PROCESSES_GOAL if is_command else GOALS[args.noise],
        settings=vars(args),
    )
    clean = text(args.sentences, args.length)
    tokens = clean.count(b"\n") * args.length
    with tempfile.TemporaryDirectory() as folder:
        measured = (
            commands(args.noise, Path(folder), clean, tokens, args.apart)
            if is_command
            else noises(args.noise, clean, tokens)
        )
        clock = time.perf_counter if is_command else time.process_time
        harness.compare(comparison, *measured, args.pairs, clock=clock)
    harness.publish(comparison)


if __name__ == "__main__":
    main()
