"""Speed of back-translate on a long text relative to a part of it, in sentences/s, and its memory.

A model with random weights translates random sentences with CTranslate2. The ratio is 1 if the time
is linear in the length of the text. The reported memory is that of the largest process.
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import back_translation
import harness


def largest_process(words: list[str], log: Path) -> float:
    """Run a command and return the peak memory of its largest process in MiB."""
    with log.open("w") as file:
        process = subprocess.Popen(words, stdout=file, stderr=file)
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = status
    if status:
        sys.exit(f"{log.read_text()[-2000:]}\nThat failed: {' '.join(words)}")
    return used.ru_maxrss / 1024


def translate(folder: Path, text: Path, args: argparse.Namespace) -> harness.Run:
    """Return the command that translates `text`."""
    command = [str(back_translation.BIN / "fairseq-ssl"), "back-translate", str(text), "--force"]
    command += ["--model", str(folder / "model.pt"), "--data-dir", str(folder)]
    command += ["-s", "source", "-t", "target", "--engine", "ctranslate2", "--beam", "2"]
    command += ["--max-len-b", str(args.length), "-o", str(folder / "made")]
    with text.open("rb") as lines:
        count = sum(1 for _ in lines)

    def run() -> int:
        memory = largest_process(command, folder / "log")
        print(f"  {count} lines: {memory:.0f} MiB", file=sys.stderr)
        return count

    return run


def repeated(text: Path, times: int, lines: int) -> Path:
    """Write the first `lines` lines of a text `times` times."""
    with text.open() as file:
        part = "".join(itertools.islice(file, lines))
    made = text.with_name(f"text.{times}x{lines}")
    with made.open("w") as file:
        for _ in range(times):
            file.write(part)
    return made


def main() -> None:
    """Run the benchmark and print its report."""
    options = harness.parser((__doc__ or "").splitlines()[0])
    options.add_argument("--arch", default="transformer_tiny")
    options.add_argument("--vocabulary", type=int, default=1000)
    options.add_argument(
        "--sentences", type=int, default=10_000, help="number of lines of the short text"
    )
    options.add_argument(
        "--times", type=int, default=10, help="number of copies of them in the long text"
    )
    options.add_argument("--length", type=int, default=8, help="sentence length in tokens")
    args = harness.parse(options)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _, text = back_translation.random_model(folder, args)
        longer, shorter = (
            translate(folder, repeated(text, times, args.sentences), args)
            for times in (args.times, 1)
        )
        comparison = harness.Comparison(
            "back_translation_growth",
            f"{args.times * args.sentences} lines",
            f"{args.sentences} lines",
            "sentences/s",
            goal=0.95,
            settings=vars(args),
        )
        shorter()  # converts the model, the only part of a warm-up that is needed
        harness.compare(comparison, longer, shorter, args.pairs, warm_up=0)
    harness.publish(comparison)


if __name__ == "__main__":
    main()
