"""Lines from a file or stdin to a file or stdout: what verbs that rewrite a text share."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Any

from fairseq_ssl.cli.progress import watched
from fairseq_ssl.cli.work_options import check_jobs
from fairseq_ssl.io.atomic import atomic_lines, exclusive
from fairseq_ssl.io.executors import LocalExecutor
from fairseq_ssl.io.text_files import read_lines, stdin_lines
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.tokenization import LineRewriter

STDIN = "-"
BLOCK = 1000
"""Lines that a process does at a time."""


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


def add_jobs(parser: argparse.ArgumentParser) -> None:
    """Declare how many processes do the work."""
    parser.add_argument(
        "--jobs",
        type=int,
        default=1,
        metavar="N",
        help="processes; the result is the same; 1 or more (default: %(default)s)",
    )


def stream(path: Path | None) -> Iterator[str]:
    """Yield the lines of a file, or of stdin."""
    if path is None or str(path) == STDIN:
        return stdin_lines()
    return read_lines(path)


def write(lines: Iterable[str], output: Path | None, signature: Signature) -> int:
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


def rewritten(
    lines: Iterable[str], jobs: int, build: Callable[..., LineRewriter], *options: Any
) -> Iterator[str]:
    """Rewrite each line by what `build` makes of the options, in so many processes."""
    check_jobs(jobs)
    rewrite = build(*options)  # here too: what is wrong with a model is told before there is work
    if jobs == 1:
        return map(rewrite, lines)
    engine, work = LocalExecutor(jobs), _Rewriting(build, options)
    return chain.from_iterable(engine.ordered(work, _blocks(iter(lines))))


@dataclass(frozen=True)
class _Rewriting:
    """What a process does with a block of lines; pickled, so it holds how to build the rest."""

    build: Callable[..., LineRewriter]
    options: tuple[Any, ...]

    def __call__(self, block: list[str]) -> list[str]:
        return list(map(_built(self.build, self.options), block))


@lru_cache(maxsize=1)
def _built(build: Callable[..., LineRewriter], options: tuple[Any, ...]) -> LineRewriter:
    return build(*options)


def _blocks(lines: Iterator[str]) -> Iterator[list[str]]:
    while block := list(islice(lines, BLOCK)):
        yield block


def _watched(lines: Iterable[str], signature: Signature) -> Iterable[str]:
    """Tell how far it is, unless a bar would stand among the lines on a terminal."""
    if sys.stdout.isatty() and sys.stderr.isatty():
        return lines
    return watched(lines, signature.method, "lines")
