"""Growth of the time of a command with the length of its text, and its memory.

back-translate runs a model with random weights on random sentences with CTranslate2. The ratio is
the speed on a long text over that on a part of it, 1 if the time is linear in the length.

The other commands use lines of words by Zipf's law, with one process. The report has the exponent
of the CPU time in the number of lines instead of a ratio. It is 1 if the time is linear. The time
of a text of 10 lines, which is that of the start, is subtracted. The memory is that of the largest
process.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import back_translation
import edit_round
import edits_extraction
import filter_corpus
import harness
import mixing_memory
import noise_offline
import numpy as np

from fairseq_ssl.generation.tagger_export import write_onnx
from fairseq_ssl.models.edit_tagger import EditTaggerConfig

FEW = 10
"""Lines of a text whose time is that of the start."""
COMMANDS = (
    *("back-translate", "noise", "filter", "edits", "m2", "errant", "gleu"),
    *("rerank", "correct", "mixing"),
)


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
    command = [back_translation.program("fairseq-ssl"), "back-translate", str(text), "--force"]
    command += ["--model", str(folder / "model.pt"), "--data-dir", str(folder)]
    command += ["-s", "source", "-t", "target", "--engine", "ctranslate2", "--device", "cpu"]
    command += ["--beam", "2", "--max-len-b", str(args.length), "-o", str(folder / "made")]
    with text.open("rb") as lines:
        count = sum(1 for _ in lines)

    def run() -> int:
        memory = largest_process(command, folder / "log")
        print(f"  {count} lines: {memory:.0f} MiB", file=sys.stderr)
        return count

    return run


def other_commands(folder: Path) -> dict[str, list[str]]:
    """Return the commands on the files `source` and `target` of a folder, by name."""
    (folder / "dictionary").write_text(
        edits_extraction.build_dictionary([("word1 word2", "word1 word3")]).text()
    )
    chain = "clean:max=40:ratio=2,duplicates"
    return {
        "noise": ["noise", "source", "-o", "made", "--method", "characters"],
        "filter": ["filter", "source", "target", "--filter", chain, "-o", "made", "made.target"],
        "edits": ["edits", "label", "source", "target", "--dictionary", "dictionary", "-o", "made"],
        "m2": ["score", "m2", "target", "--gold", "gold"],
        "errant": ["score", "errant", "target", "--gold", "gold", "--untyped"],
        "gleu": ["score", "gleu", "target", "--source", "source", "--reference", "target"],
        "correct": [
            *("correct", "source", "--model", "../tagger", "--tokenizer", "none"),
            *("--device", "cpu", "-o", "made"),
        ],
        "rerank": [
            *("rerank", "features", "list", "--source", "source", "--translation", "../model.pt"),
            *("--data-dir", "..", "--device", "cpu", "-o", "made"),
        ],
    }


def write_tagger(folder: Path) -> None:
    """Write a small edit tagger with random weights in ONNX format."""
    config = EditTaggerConfig(
        encoder_layers=2,
        encoder_embed_dim=64,
        encoder_ffn_embed_dim=128,
        encoder_attention_heads=4,
        edit_unfactorized=True,
    )
    write_onnx(*edit_round.random_tagger(config), folder, "float32")


def run_command(
    args: argparse.Namespace, folder: Path, lines: int, memory: list[int]
) -> harness.Run:
    """Write texts of `lines` lines to a folder, and return the run of a command on them.

    Each run appends its memory in MiB to `memory`.
    """
    folder.mkdir(exist_ok=True)
    text = noise_offline.text(lines, args.length).decode()
    plain = args.what in ("rerank", "correct")
    source = text.replace("word", "w" if plain else "word").splitlines()[:lines]
    (folder / "source").write_text("".join(f"{line}\n" for line in source))
    (folder / "target").write_text("".join(f"{line} word1\n" for line in source))
    gold = f"A {args.length} {args.length}|||M|||word1|||REQUIRED|||-NONE-|||0"
    with (folder / "gold").open("w") as file:
        file.writelines(f"S {line}\n{gold}\n\n" for line in source)
    if args.what == "rerank":
        with (folder / "list").open("w") as file:
            file.writelines(
                f"{at} ||| {line} ||| l2r= -0.5 ||| -0.5 ||| from= l2r\n"
                for at, line in enumerate(source)
            )
    words = [sys.executable, "-m", "fairseq_ssl", *other_commands(folder)[args.what]]
    resumable = args.what in ("noise", "filter", "rerank", "correct")
    words += [] if args.what == "gleu" else ["--jobs", "1"]
    words += ["--force"] if resumable else []

    def run() -> int:
        filter_corpus.run(words, folder, memory)
        print(f"  {args.what}, {lines} lines: {memory[-1]} MiB", file=sys.stderr)
        return lines

    return run


def mix(args: argparse.Namespace, folder: Path, lines: int, memory: list[int]) -> float:
    """Form the batches of an epoch of `lines` mixed pairs. Return the seconds of the CPU."""
    if not folder.exists():
        folder.mkdir()
        mixing_memory.write_index(folder / "synthetic", lines, args.length)
        mixing_memory.write_index(folder / "genuine", lines, args.length)
    settings = argparse.Namespace(epoch_pairs=lines, epochs=1, tokens=4000)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        rise, seconds = process.submit(mixing_memory.peak, "mixed", folder, settings).result()
    memory.append(int(rise / 2**20))
    return seconds


def exponent(args: argparse.Namespace, folder: Path) -> float:
    """Return the exponent of the CPU time in the number of lines."""
    seconds: dict[int, float] = {}
    for lines in (FEW, *args.sizes):
        memory: list[int] = []
        if args.what == "mixing":
            seconds[lines] = mix(args, folder / str(lines), lines, memory)
        else:
            run = run_command(args, folder / str(lines), lines, memory)
            begun = harness.cpu_seconds()
            run()
            seconds[lines] = harness.cpu_seconds() - begun
        print(f"  {lines} lines: {seconds[lines]:.1f} s, {memory[0]} MiB", file=sys.stderr)
    times = [seconds[lines] - seconds[FEW] for lines in args.sizes]
    return float(np.polyfit(np.log(args.sizes), np.log(times), 1)[0])


def repeated(text: Path, times: int, lines: int) -> Path:
    """Write the first `lines` lines of a text `times` times."""
    with text.open() as file:
        part = "".join(itertools.islice(file, lines))
    made = text.with_name(f"text.{times}x{lines}")
    with made.open("w") as file:
        for _ in range(times):
            file.write(part)
    return made


def compare_lengths(args: argparse.Namespace, folder: Path) -> harness.Comparison:
    """Compare the speed of back-translate on a long text with that on a part of it."""
    comparison = harness.Comparison(
        f"growth-{args.what}",
        f"{args.times * args.sentences} lines",
        f"{args.sentences} lines",
        "lines/s",
        goal=0.95,
        settings=vars(args),
    )
    _, text = back_translation.random_model(folder, args)
    longer, shorter = (
        translate(folder, repeated(text, times, args.sentences), args) for times in (args.times, 1)
    )
    shorter()  # converts the model, the only part of a warm-up that is needed
    harness.compare(comparison, longer, shorter, args.pairs, warm_up=0)
    return comparison


def main() -> None:
    """Run the benchmark and print its report."""
    options = harness.parser((__doc__ or "").splitlines()[0], gpu=False)
    options.add_argument(
        "--what",
        choices=COMMANDS,
        default="back-translate",
        help="command",
    )
    options.add_argument("--arch", default="transformer_tiny")
    options.add_argument("--vocabulary", type=int, default=1000)
    options.add_argument(
        "--sentences", type=int, default=10_000, help="number of lines of the short text"
    )
    options.add_argument(
        "--times", type=int, default=10, help="number of copies of them in the long text"
    )
    options.add_argument("--sizes", type=int, nargs="+", help="numbers of lines for the exponent")
    options.add_argument("--length", type=int, default=8, help="sentence length in tokens")
    args = harness.parse(options)
    if (args.what == "back-translate") == bool(args.sizes):
        options.error("--sizes is for all commands but back-translate, which need it.")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if not args.sizes:
            harness.publish(compare_lengths(args, folder))
            return
        comparison = harness.Comparison(
            *(f"growth-{args.what}", "exponent of the time", "1 for linear time", "exponent"),
            goal=None,
            settings=vars(args),
        )
        if args.what == "rerank":
            back_translation.random_model(folder, args)
        if args.what == "correct":
            write_tagger(folder / "tagger")
        for _ in range(args.pairs):
            found = exponent(args, folder)
            comparison.rates.append((found, 1.0))
            comparison.ratios.append(found)
    harness.publish(comparison)


if __name__ == "__main__":
    main()
