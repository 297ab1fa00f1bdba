"""Options shared by several commands, argparse types, and functions that use parsed options."""

from __future__ import annotations

import argparse
import functools
import logging
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import fairseq_ssl
from fairseq_ssl.cli.console import path_argument, path_or_stream, print_lines, progress, watched
from fairseq_ssl.errors import UsageError, flag
from fairseq_ssl.io.executors import Executor, Initializer, LocalExecutor, RayExecutor, cpu_count
from fairseq_ssl.io.jobs import check_beside, silent_progress
from fairseq_ssl.io.outputs import atomic_lines, exclusive, is_device, write_signature
from fairseq_ssl.io.parts import PartFolder
from fairseq_ssl.io.remote import as_path
from fairseq_ssl.io.text_files import read_lines, stdin_lines
from fairseq_ssl.io.text_jobs import LineSummary, Output, is_folder
from fairseq_ssl.options import integer as any_integer
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.specs import parse_integer

MAX_JOBS = 1000
UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}
STDIN = "-"
Options = argparse._ActionsContainer
"""Parser or argument group to which options are added."""
FORMATS = "(plain, .gz or .zst)"
"""File formats of input and output texts, as shown in help texts."""


def integer(minimum: int, maximum: int | None = None) -> Callable[[str], int]:
    """Return an argparse type for integers of at least `minimum` and, if set, at most `maximum`."""
    expected = f"{minimum} or more" if maximum is None else f"{minimum} to {maximum}"

    def parse(word: str) -> int:
        value = parse_integer(word)
        if value is None or value < minimum or (maximum is not None and value > maximum):
            raise argparse.ArgumentTypeError(f"{word!r}: expected an integer, {expected}.")
        return value

    return parse


def _shard(word: str) -> tuple[int, int]:
    index, total = (parse_integer(part) for part in word.partition("/")[::2])
    if index is None or total is None or not 1 <= index <= total:
        raise argparse.ArgumentTypeError(f"{word!r} is not a shard. Expected I/N, 1 <= I <= N.")
    return index, total


# Text in, text out


def add_input(parser: Options, what: str, name: str = "input") -> None:
    """Add a positional argument for an input text. None, the default value, stands for stdin."""
    parser.add_argument(
        name,
        type=path_or_stream,
        nargs="?",
        metavar=name.upper(),
        help=f"{what} {FORMATS}; - for stdin (default: stdin)",
    )


def add_output(parser: Options, what: str = f"output {FORMATS}", metavar: str = "FILE") -> None:
    """Add the required option --output."""
    parser.add_argument(
        "-o", "--output", type=path_argument, required=True, metavar=metavar, help=what
    )


def add_output_or_stdout(parser: Options, what: str = f"output {FORMATS}") -> None:
    """Add the option --output. None, the default value, stands for stdout."""
    parser.add_argument(
        "-o", "--output", type=path_or_stream, metavar="FILE", help=f"{what} (default: stdout)"
    )


def add_job_output(parser: Options, what: str, name: str = "--output", **more: Any) -> None:
    """Add an output option for a resumable job. Its value is a string, or a list with `nargs`.

    Args:
        parser: parser or argument group
        what: content of the output, a noun phrase that begins the help text
        name: flag of the option; if --output is not passed, its value is None, which means stdout
        more: further arguments of `add_argument`, such as `nargs`
    """
    is_main = name == "--output"
    usual = " (default: stdout)" if is_main and "required" not in more else ""
    parser.add_argument(
        *(["-o"] if is_main else []),
        name,
        type=str if more or not is_main else _word_or_stream,
        help=f"{what} {FORMATS}; a name that ends with / creates a folder of parts, which are "
        f"written in parallel; an interrupted run resumes if the same command is run again{usual}",
        **{"metavar": "FILE", **more},
    )


def _word_or_stream(word: str) -> str | None:
    return None if word == STDIN else word


def add_overwrite(parser: Options, what: str = "existing outputs, even if incomplete") -> None:
    """Add --force, which makes a job replace its outputs instead of resuming."""
    parser.add_argument("--force", action="store_true", dest="overwrite", help=f"replace {what}")


def add_replace(parser: Options, what: str = "the output") -> None:
    """Add --force, which replaces an output that `check_new` would reject."""
    add_overwrite(parser, f"{what} if it exists")


def check_output(output: Path | None, *inputs: Path | None) -> None:
    """Raise UsageError if the output would overwrite an input, or if two inputs are stdin."""
    if list(map(str, inputs)).count(STDIN) > 1:
        raise UsageError("Two inputs are stdin. Pass a file for one of them.")
    if output:
        check_beside(output, inputs)


def one_writer(run: Callable[[argparse.Namespace], None]) -> Callable[[argparse.Namespace], None]:
    """Wrap `run` so that it raises UsageError while another process writes the same --output."""

    @functools.wraps(run)
    def alone(args: argparse.Namespace) -> None:
        with exclusive(args.output) if args.output else nullcontext():
            run(args)

    return alone


def input_lines(path: Path | None) -> Iterator[str]:
    """Return an iterator over the lines of a file, or of stdin if `path` is None or ``-``."""
    if path is None or str(path) == STDIN:
        return stdin_lines()
    return read_lines(path)


def write_lines(lines: Iterable[str], output: Path | None, signature: Signature) -> int:
    """Write lines to a file, or to stdout if `output` is None. Return the number of lines.

    For a file, the signature is written next to it. For stdout, no signature is written.
    """
    count = 0
    if not (sys.stdout.isatty() and sys.stderr.isatty()):  # a bar would mix with the lines
        lines = watched(lines, signature.method, "lines")
    if output is None:
        out = sys.stdout.buffer  # UTF-8 in every locale
        for count, line in enumerate(lines, 1):  # noqa: B007
            out.write(f"{line}\n".encode())
        out.flush()
        return count
    with exclusive(output):
        with atomic_lines(output) as file:
            for line in lines:
                file.write(f"{line}\n")
                count += 1
        write_signature(signature, output)
    print_lines(signature, f"wrote {count} lines to {output}")
    return count


# Options of one spelling


def add_files(parser: Options, **help: str) -> None:
    """Add required positional input files. The keywords map argument names to help texts."""
    for name, what in help.items():
        add_path(parser, name, f"{what} {FORMATS}", name.upper())


def add_texts(parser: Options, name: str, what: str) -> None:
    """Add a required positional list of input texts."""
    metavar = name.upper().removesuffix("S")
    add_path(parser, name, f"{what} {FORMATS}", metavar, nargs="+")


def add_path(
    parser: Options, name: str, what: str, metavar: str | tuple[str, str] = "FILE", **more: Any
) -> None:
    """Add an option or a positional argument for a path, or for several paths with `nargs`."""
    parser.add_argument(name, type=path_argument, metavar=metavar, help=what, **more)


def split_name(word: str) -> tuple[str | None, Path]:
    """Split NAME=FILE. The name is None if it is missing or if `word` is an existing path."""
    name, equals, path = word.partition("=")
    if not (name and equals and path) or "://" in name or as_path(word).exists():
        return None, as_path(word)
    return name, as_path(path)


def named_files(words: Iterable[str]) -> dict[str, list[Path]]:
    """Parse words such as NAME=FILE. Return lists of files by name. The default name is FILE."""
    files: dict[str, list[Path]] = {}
    for word in words:
        name, path = split_name(word)
        paths = files.setdefault(name or word, [])
        if path in paths:
            raise UsageError(f"{path} is passed twice. Pass each file once.")
        paths.append(path)
    return files


def add_integer(
    parser: Options,
    name: str,
    what: str,
    default: int,
    minimum: int = 1,
    maximum: int | None = None,
) -> None:
    """Add an integer option with a range and a default."""
    limit = "or more" if maximum is None else f"to {maximum:,}"
    parser.add_argument(
        name,
        type=integer(minimum, maximum),
        default=default,
        metavar="N",
        help=f"{what}, {minimum} {limit} (default: {default:,})",
    )


def add_seed(parser: Options, what: str = "random seed") -> None:
    """Add the option --seed, 1 by default."""
    add_integer(parser, "--seed", what, 1, minimum=0)


def add_format(parser: Options) -> None:
    """Add the option --format, text or json, for commands that print a report on stdout."""
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="output format (default: text)"
    )


def add_references(parser: Options, required: bool = True) -> None:
    """Add the repeatable option --reference."""
    what = f"file of references, one sentence per line {FORMATS}; repeat for more references"
    default: list[Path] | None = None if required else []
    add_path(parser, "--reference", what, action="append", required=required, default=default)


def add_data(parser: Options) -> None:
    """Add --data-dir, --source-lang and --target-lang for a translation model."""
    what = "folder with the model's dictionaries, dict.LANG.txt or dict.txt"
    add_path(parser, "--data-dir", what, "DIR")
    what = "language of the model (default: from the checkpoint, or from the data folder)"
    parser.add_argument("-s", "--source-lang", metavar="LANG", help=f"source {what}")
    parser.add_argument("-t", "--target-lang", metavar="LANG", help=f"target {what}")


# Parallelism


def add_jobs(
    parser: Options,
    usual: str = "one per core",
    what: str = "number of processes on this machine",
    default: int | None = None,
) -> None:
    """Add --jobs, the number of processes."""
    parser.add_argument(
        "--jobs",
        type=integer(1, MAX_JOBS),
        default=default,
        metavar="N",
        help=f"{what}, 1 to {MAX_JOBS:,}; the output is the same for any number (default: {usual})",
    )


def add_line_jobs(parser: Options) -> None:
    """Add --jobs, the number of processes, for commands that use one process by default."""
    add_jobs(parser, "1", "number of processes", default=1)


PARTS = "input size per part, such as 64M; a compressed file is one part (default: {})"
PART_SIZE = PARTS.format("64M, or 1M with models")


def add_execution(
    parser: Options,
    usual: str = "one per core",
    part_size: str | None = PART_SIZE,
) -> None:
    """Add the options for parallel execution of a job that processes lines.

    Args:
        parser: parser or argument group
        usual: description of the default of --jobs
        part_size: help text of --part-size; if it is None, --shard and --part-size are not added
    """
    add_jobs(parser, usual)
    parser.add_argument(
        "--executor",
        choices=("local", "ray"),
        default="local",
        help="executor of the job; local: processes on this machine; ray: all machines of a Ray "
        "cluster with a shared file system or object store (default: %(default)s)",
    )
    parser.add_argument(
        "--address",
        metavar="HOST:PORT",
        help="address of the Ray cluster (default: $RAY_ADDRESS, or a new cluster on this machine)",
    )
    if part_size is None:
        return
    parser.add_argument(
        "--shard",
        type=_shard,
        default=(1, 1),
        metavar="I/N",
        help="shard I of N to process, I from 1 to N, such as $SLURM_ARRAY_TASK_ID/100; --output "
        "must be the same folder of parts for all shards (default: 1/1)",
    )
    parser.add_argument(
        "--part-size",
        type=byte_size,
        metavar="SIZE",
        help=f"for folders of parts: {part_size}",
    )


def byte_size(word: str) -> int:
    """Parse a size such as 500M or 4G, as an argparse type. Return the number of bytes."""
    match = re.fullmatch(r"(\d+)([KMGT]?)B?", word.upper())
    if match is None:
        raise argparse.ArgumentTypeError(f"{word!r} is not a whole number of bytes, as in 500M.")
    return int(match[1]) << UNITS[match[2]]


def job_output(args: argparse.Namespace, name: str = "output") -> Output:
    """Return the output that the option `name` selects: a file, a folder of parts, or stdout."""
    return output_of(args, getattr(args, name))


def output_of(args: argparse.Namespace, path: str | None) -> Output:
    """Return the output at `path`: a file or a folder of parts. None is stdout."""
    if path is not None and is_folder(path):
        return PartFolder(path, args.shard, args.part_size)
    for option in ("shard", "part_size"):
        if getattr(args, option) not in (None, (1, 1)):
            raise UsageError(
                f"{flag(option)} needs a folder of parts, but the output is {path or 'stdout'}. "
                "Pass names of outputs that end with /."
            )
    return sys.stdout.buffer if path is None else Path(path)


def add_line_job(parser: Options, what: str) -> None:
    """Add the output and execution options of a job that rewrites each line."""
    add_job_output(parser, what)
    add_execution(parser)
    add_overwrite(parser)


def line_job(args: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of a job that rewrites each line, from the options of `add_line_job`."""
    is_shown = args.output is None and sys.stdout.isatty()  # a bar would mix with the lines
    output = job_output(args)
    if isinstance(output, Path) and is_device(output):  # such as a process substitution of a shell
        output = output.open("wb")
    return {
        "output": output,
        "executor": job_executor(args),
        "overwrite": args.overwrite,
        "progress": silent_progress if is_shown else progress,
    }


def print_summary(summary: LineSummary | None) -> None:
    """Print the signature and the line count of a job, unless it wrote to stdout."""
    if summary and summary.outputs:
        path = summary.outputs[0]
        print_lines(summary.signature, f"wrote {summary.lines} lines to {path}")


def job_executor(
    args: argparse.Namespace,
    default: int | None = None,
    initializer: Initializer | None = None,
    gpus: float = 0,
) -> Executor:
    """Return the executor that the options of `add_execution` select.

    Args:
        args: parsed options
        default: number of local processes if --jobs is not set (default: one per core)
        initializer: function called in each worker process before it processes items
        gpus: number of GPUs that each item needs on a Ray cluster
    """
    if args.executor == "ray":
        if args.jobs is not None:
            raise UsageError(
                "--jobs is for one machine, but Ray uses all CPUs of its cluster. Remove --jobs."
            )
        return RayExecutor(args.address, gpus=gpus, initializer=initializer)
    if args.address is not None:
        raise UsageError("--address needs --executor ray.")
    return local_executor(args, default, initializer)


def local_executor(
    args: argparse.Namespace, default: int | None = None, initializer: Initializer | None = None
) -> LocalExecutor:
    """Return an executor with --jobs local processes.

    If --jobs is not set, use `default`, or one process per core if `default` is None.
    """
    return LocalExecutor(args.jobs or default or cpu_count(), initializer)


# Devices


def torch_gpus() -> int:
    """Return the number of GPUs that torch can use."""
    from fairseq_ssl.inference.loading import gpu_count

    return gpu_count()


Gpus = Callable[[], int]
"""Function that returns the number of GPUs an engine can use."""


def add_device(parser: Options, max_tokens: bool = True, part_size: str | None = PART_SIZE) -> None:
    """Add --device, the options of `add_execution` and, if `max_tokens` is True, --max-tokens."""
    parser.add_argument(
        "--device",
        choices=("auto", "cpu", "cuda"),
        default="auto",
        help="device for the models; auto: all GPUs, or the CPU if there are none (default: "
        "%(default)s)",
    )
    add_execution(parser, "one per GPU, or per core", part_size)
    if not max_tokens:
        return
    parser.add_argument(
        "--max-tokens",
        type=any_integer,
        metavar="N",
        help="max number of tokens per batch, with padding, 1 or more (default: 2,000 on a CPU, "
        "16,000 on a GPU)",
    )


def chosen_device(args: argparse.Namespace, gpus: Gpus = torch_gpus) -> str:
    """Resolve --device to ``cpu`` or ``cuda``. Raise UsageError for cuda without a GPU."""
    has_gpu = args.device != "cpu" and gpus() > 0
    if args.device == "cuda" and not has_gpu:
        raise UsageError(
            "--device is cuda, but there is no CUDA device. Remove it, or pass --device cpu."
        )
    return "cuda" if has_gpu else "cpu"


def batch_tokens(args: argparse.Namespace, gpus: Gpus = torch_gpus) -> int:
    """Return --max-tokens, or its default for the device."""
    if args.max_tokens is not None:
        return int(args.max_tokens)
    return 16_000 if chosen_device(args, gpus) == "cuda" else 2_000


def model_executor(
    args: argparse.Namespace,
    gpus: Gpus = torch_gpus,
    initializer: Initializer | None = fairseq_ssl.register,
) -> Executor:
    """Return an executor for a job with models, by default with one process per GPU or core."""
    is_cuda = chosen_device(args, gpus) == "cuda"
    return job_executor(args, gpus() if is_cuda else cpu_count(), initializer, float(is_cuda))


def add_one_device(parser: Options) -> None:
    """Add --device, None by default, for a command that runs in one process."""
    parser.add_argument(
        "--device", help="device, such as cpu or cuda:1 (default: cuda if available, else cpu)"
    )


def one_device(name: str | None) -> str:
    """Return the device `name`. If it is None, return ``cuda`` if available, else ``cpu``.

    Raise UsageError if the device is not available. Disable log messages below the level WARNING.
    """
    logging.disable(logging.INFO)
    device = name or ("cuda" if torch_gpus() else "cpu")
    if device != "cpu":  # which needs no torch
        from fairseq_ssl.inference.loading import torch_device

        torch_device(device)
    return device
