"""Options that several verbs share, and checks of their values."""

from __future__ import annotations

import argparse
import functools
import logging
import math
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import fairseq_ssl
from fairseq_ssl.cli.console import watched
from fairseq_ssl.errors import UsageError, flag
from fairseq_ssl.io.atomic import atomic_lines, exclusive
from fairseq_ssl.io.executors import Executor, Initializer, LocalExecutor, cpu_count
from fairseq_ssl.io.text_files import read_lines, stdin_lines
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.specs import parse_integer
from fairseq_ssl.text.tokenization import SUBWORDS


def integer(minimum: int, maximum: int | None = None) -> Callable[[str], int]:
    """Return an argparse type: an integer of this range."""
    expected = f"{minimum} or more" if maximum is None else f"{minimum} to {maximum}"

    def parse(word: str) -> int:
        value = parse_integer(word)
        if value is None or value < minimum or (maximum is not None and value > maximum):
            raise argparse.ArgumentTypeError(f"{word} is out of range. Expected {expected}.")
        return value

    return parse


def number(minimum: float, maximum: float, exclusive: bool = False) -> Callable[[str], float]:
    """Return an argparse type: a number of this range, with `exclusive` above the minimum."""
    expected = f"above {minimum}, up to {maximum}" if exclusive else f"{minimum} to {maximum}"

    def parse(word: str) -> float:
        try:
            value = float(word)
        except ValueError:
            value = math.nan
        if not minimum <= value <= maximum or (exclusive and value == minimum):
            raise argparse.ArgumentTypeError(f"{word} is out of range. Expected {expected}.")
        return value

    return parse


def check_range(option: str, value: float, least: float, most: float) -> None:
    """Refuse a number outside of [least, most], and what is none."""
    if not least <= value <= most:
        raise UsageError(f"{option} is {value}; expected {least} to {most}.")


def check_output(output: Path | None, *read: Path | None, option: str = "output") -> None:
    """Refuse to write where something is read from; stdout (None) is never read."""
    if output and output.resolve() in {path.resolve() for path in read if path}:
        raise UsageError(f"{output} is read from. Name another {flag(option)}.")


def add_replace(parser: argparse._ActionsContainer, what: str = "the output") -> None:
    """Declare --force, for what `check_new` rejects."""
    parser.add_argument(
        "--force", action="store_true", dest="overwrite", help=f"replace {what} if it exists"
    )


def check_new(output: Path, overwrite: bool) -> None:
    """Reject an output that exists, unless it may be replaced."""
    if output.exists() and not overwrite:
        raise UsageError(f"{output} exists. Pass --force to replace it, or choose another output.")


def one_writer(run: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """Reject a run of a verb while another run writes the same --output."""

    @functools.wraps(run)
    def alone(args: argparse.Namespace) -> int:
        if args.output is None:
            return run(args)
        with exclusive(args.output):
            return run(args)

    return alone


def add_shard(work: argparse._ActionsContainer) -> None:
    """Declare which part of the input is worked on."""
    work.add_argument(
        "--shard",
        metavar="I/N",
        help="do the I-th of N parts of INPUT, from 1, and write OUTPUT.I-of-N; all of them, "
        "joined with cat in their order, are what one run writes",
    )


def add_jobs(work: argparse._ActionsContainer, default: str = "one for each core") -> None:
    """Declare how many processes there are."""
    work.add_argument(
        "--jobs",
        type=int,
        metavar="N",
        help=f"processes of this machine; the result is the same (default: {default}, here "
        f"{cpu_count()})",
    )


def add_address(work: argparse._ActionsContainer) -> None:
    """Declare where a Ray cluster is."""
    work.add_argument(
        "--address", help="of the Ray cluster (default: $RAY_ADDRESS, or one started here)"
    )


def add_overwrite(work: argparse._ActionsContainer) -> None:
    """Declare what is done with what is there."""
    work.add_argument(
        "--force",
        action="store_true",
        dest="overwrite",
        help="replace outputs that exist, complete or not",
    )


def parse_shard(given: str | None) -> tuple[int, int]:
    """Return what --shard asks for, as its number and how many there are."""
    if given is None:
        return 1, 1
    number, total = (parse_integer(word) for word in given.partition("/")[::2])
    if number is None or total is None or not 1 <= number <= total:
        raise UsageError(f"--shard is {given!r}; expected I/N with I from 1 to N, as in 3/8.")
    return number, total


def check_jobs(jobs: int | None) -> None:
    """Refuse a number of processes that no machine has."""
    if jobs is not None:
        check_range("--jobs", jobs, 1, MAX_JOBS)


def check_block(kibibytes: int | None) -> None:
    """Refuse a --block that no text can be cut into."""
    if kibibytes is not None:
        check_range("--block", kibibytes, 1, MAX_BLOCK)


def local_executor(
    args: argparse.Namespace, default: int | None = None, initializer: Initializer | None = None
) -> LocalExecutor:
    """Return an executor of as many processes as --jobs asks for."""
    check_jobs(args.jobs)
    if getattr(args, "address", None) is not None:
        raise UsageError("--address goes with --engine ray.")
    return LocalExecutor(args.jobs or default or cpu_count(), initializer)


def check_no_jobs(args: argparse.Namespace) -> None:
    """Refuse --jobs beside a cluster."""
    if args.jobs is not None:
        raise UsageError("--jobs is for one machine; Ray uses all CPUs of its cluster.")


Gpus = Callable[[], int]
"""How many GPUs what does the work can use."""


def add_device(work: argparse._ActionsContainer) -> None:
    """Declare on what models compute, in how many processes, and how much at a time."""
    work.add_argument(
        "--device",
        choices=("auto", "cpu", "cuda"),
        default="auto",
        help="auto: the GPUs where there are some (default: %(default)s)",
    )
    add_jobs(work, "one for each GPU, or core")
    work.add_argument(
        "--threads", type=int, default=1, metavar="N", help="of each process (default: 1)"
    )
    work.add_argument(
        "--max-tokens",
        type=int,
        metavar="N",
        help="tokens of a batch, padding included (default: 2000 on a CPU, 16000 on a GPU)",
    )


def chosen_device(args: argparse.Namespace, gpus: Gpus) -> str:
    """Return what --device asks for, as torch calls it."""
    if args.device == "cpu":
        return "cpu"
    found = gpus() > 0
    if args.device == "cuda" and not found:
        raise UsageError("--device is cuda, but there is no CUDA device here.")
    return "cuda" if found else "cpu"


def check_batch_tokens(args: argparse.Namespace, gpus: Gpus) -> int:
    """Return how many tokens make a batch."""
    return args.max_tokens or (16_000 if chosen_device(args, gpus) == "cuda" else 2_000)


def model_executor(
    args: argparse.Namespace, gpus: Gpus, initializer: Initializer | None = None
) -> Executor:
    """Return an executor of this machine, by default with a process for each GPU or core."""
    default = gpus() if chosen_device(args, gpus) == "cuda" else cpu_count() // args.threads
    return local_executor(args, max(1, default), initializer)


def add_one_device(parser: argparse._ActionsContainer) -> None:
    """Declare on what the one process computes."""
    parser.add_argument(
        "--device", help="cpu, cuda or cuda:1 (default: cuda where there is one, else cpu)"
    )


def one_device(asked: str | None) -> str:
    """Return this device, or the best there is; let fairseq be silent from now on."""
    import torch

    logging.disable(logging.INFO)  # fairseq and matplotlib tell about every step
    warnings.filterwarnings("ignore", message="Support for mismatched key_padding_mask")
    chosen = asked or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(0, device=chosen)
    except (RuntimeError, AssertionError):
        raise UsageError(f"--device {chosen} is not there; leave it out or pass cpu.") from None
    return str(chosen)


QUANTIZATIONS = ("float32", "float16", "bfloat16", "int16", "int8", "int8_float16", "int8_float32")
"""The types of CTranslate2's numbers."""


def add_data(parser: argparse._ActionsContainer) -> None:
    """Declare where the dictionaries are, and the languages of the model."""
    parser.add_argument(
        "--data-dir",
        type=Path,
        metavar="DIR",
        help="folder with the model's dictionaries, dict.LANG.txt or dict.txt",
    )
    add_languages(parser)


def add_languages(options: argparse._ActionsContainer) -> None:
    """Declare the languages of a model, which many a checkpoint does not name."""
    what = "language of the model (default: that of the checkpoint, or of the data in the folder)"
    options.add_argument("-s", "--source-lang", metavar="LANG", help=f"source {what}")
    options.add_argument("-t", "--target-lang", metavar="LANG", help=f"target {what}")


def add_rewriting(parser: argparse._ActionsContainer, subwords: str | None = None) -> None:
    """Declare what turns tokens into text, `subwords` by default; other verbs score such text."""
    usual = subwords or "sentencepiece, if the first line looks like it"
    parser.add_argument(
        "--subwords",
        choices=SUBWORDS,
        default=subwords,
        help=f"what to join to words (default: {usual})",
    )
    parser.add_argument(
        "--moses", metavar="LANGUAGE", help="undo Moses' tokenization of this language, as de"
    )


LENGTH_PENALTY = 20
"""Maximum length penalty: a larger power of a sentence length exceeds the range of a float."""
STDIN = "-"
MAX_JOBS = 1000
MAX_BLOCK = 2**20
"""Maximum size of a block in KiB."""


def add_file(parser: argparse.ArgumentParser, what: str) -> None:
    """Declare the text to rewrite."""
    parser.add_argument(
        "file",
        type=Path,
        nargs="?",
        metavar="FILE",
        help=f"{what}; .gz by suffix (default, and -: stdin)",
    )


def add_output(parser: argparse.ArgumentParser) -> None:
    """Declare where the lines go."""
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="where to write; .gz by suffix (default: stdout)",
    )


def add_line_jobs(parser: argparse.ArgumentParser) -> None:
    """Declare how many processes do the work."""
    parser.add_argument(
        "--jobs",
        type=int,
        default=1,
        metavar="N",
        help="processes; the result is the same; 1 or more (default: %(default)s)",
    )


def input_lines(path: Path | None) -> Iterator[str]:
    """Yield the lines of a file, or of stdin."""
    if path is None or str(path) == STDIN:
        return stdin_lines()
    return read_lines(path)


def write_lines(lines: Iterable[str], output: Path | None, signature: Signature) -> int:
    """Write the lines, with the signature beside a file; returns how many there were."""
    count = 0
    if output is None:
        out = sys.stdout.buffer  # UTF-8 whatever the locale says
        for line in _watched(lines, signature):
            out.write(f"{line}\n".encode())
            count += 1
        out.flush()
        return count
    with exclusive(output):
        with atomic_lines(output) as file:
            for line in _watched(lines, signature):
                file.write(f"{line}\n")
                count += 1
        signature.write_beside(output)
    print(f"{signature}\nwrote {count} lines to {output}", file=sys.stderr)
    return count


def _watched(lines: Iterable[str], signature: Signature) -> Iterable[str]:
    """Tell how far it is, unless a bar would stand among the lines on a terminal."""
    if sys.stdout.isatty() and sys.stderr.isatty():
        return lines
    return watched(lines, signature.method, "lines")


def add_input(parser: argparse.ArgumentParser, what: str) -> None:
    """Declare the text that is read; the option is None for stdin."""
    parser.add_argument(
        "input",
        type=lambda word: None if word == STDIN else Path(word),
        nargs="?",
        metavar="INPUT",
        help=f"{what}; .gz by suffix (default, and -: stdin)",
    )


def _gpu_count() -> int:
    """Return the number of GPUs that torch can use."""
    from fairseq_ssl.inference.loading import gpu_count

    return gpu_count()


def add_scorer_device(work: argparse._ActionsContainer) -> None:
    """Declare the device of models that score, and their precision."""
    add_device(work)
    work.add_argument("--fp16", action="store_true", help="half precision, twice as fast on GPUs")


def scorer_batch_tokens(args: argparse.Namespace) -> int:
    """Return the maximum number of tokens of a batch."""
    return check_batch_tokens(args, _gpu_count)


def scorer_device(args: argparse.Namespace) -> str:
    """Return the device: ``cpu`` or ``cuda``."""
    return chosen_device(args, _gpu_count)


def scorer_executor(args: argparse.Namespace) -> Executor:
    """Return the executor of models that score."""
    return model_executor(args, _gpu_count, fairseq_ssl.register)


def check_numbers(args: argparse.Namespace, *names: str) -> None:
    """Reject numbers that are not above 0."""
    for name in ("threads", "max_tokens", *names):
        value = getattr(args, name)
        if value is not None and value <= 0:
            raise UsageError(f"{flag(name)} is {value}; expected above 0.")
