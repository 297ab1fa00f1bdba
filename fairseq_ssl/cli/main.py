"""``fairseq-ssl``: find the verb, run it, and turn errors into one line and an exit code."""

from __future__ import annotations

import argparse
import importlib
import logging
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, Protocol, cast

from fairseq_ssl._version import __version__
from fairseq_ssl.cli.console import STDOUT_NAME, drop_stdout, flush_stdout, open_stdout
from fairseq_ssl.errors import FairseqSslError, UsageError, flag, nearest, needs_torch, one_line
from fairseq_ssl.io.executors import silence_library_warnings

VERBS = {
    "average": "fairseq_ssl.cli.average",
    "back-translate": "fairseq_ssl.cli.back_translate",
    "classify": "fairseq_ssl.cli.classify",
    "completion": "fairseq_ssl.cli.completion",
    "confusion-sets": "fairseq_ssl.cli.confusion_sets",
    "detokenize": "fairseq_ssl.cli.detokenize",
    "doctor": "fairseq_ssl.cli.doctor",
    "edits": "fairseq_ssl.cli.edits",
    "export": "fairseq_ssl.cli.export",
    "filter": "fairseq_ssl.cli.filter",
    "filter learned": "fairseq_ssl.cli.filter_learned",
    "learner-errors": "fairseq_ssl.cli.learner_errors",
    "length-bleu": "fairseq_ssl.cli.length_bleu",
    "noise": "fairseq_ssl.cli.noise",
    "papers": "fairseq_ssl.cli.papers",
    "position-data": "fairseq_ssl.cli.position_data",
    "postprocess": "fairseq_ssl.cli.postprocess",
    "report": "fairseq_ssl.cli.report",
    "rerank": "fairseq_ssl.cli.rerank",
    "score": "fairseq_ssl.cli.score",
    "shift-similarity": "fairseq_ssl.cli.shift_similarity",
    "subwords": "fairseq_ssl.cli.subwords",
    "swapped-bleu": "fairseq_ssl.cli.swapped_bleu",
    "tag": "fairseq_ssl.cli.tag",
    "token-wins": "fairseq_ssl.cli.token_wins",
    "tokenize": "fairseq_ssl.cli.tokenize",
    "truecase": "fairseq_ssl.cli.truecase",
    "user-dir": "fairseq_ssl.cli.user_dir",
}

OUTPUT_OPTIONS = ("output", "clean", "source_output", "changed_positions", "label_dict", "figure")


class Verb(Protocol):
    """What a module of this package holds."""

    SUMMARY: str
    EXAMPLES: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the verb's options."""

    def run(self, args: argparse.Namespace) -> int:
        """Do the work and return the exit code."""


class Parser(argparse.ArgumentParser):
    """A parser that accepts no abbreviated flag and names the nearest valid word."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(allow_abbrev=False, **options)

    def refuse_unknown(self, words: Sequence[str]) -> None:
        """End with a usage error when a word was not understood."""
        if words:
            hint = nearest(words[0].partition("=")[0], self._option_string_actions)
            self.error(f"{words[0]!r} is not understood here.{hint} See {self.prog} --help.")

    def error(self, message: str) -> NoReturn:
        """Print one line and end with exit code 2."""
        self.exit(2, f"{self.prog}: error: {one_line(message)}\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code: 0, 1 for data, 2 for usage, 130 for Ctrl-C."""
    words = list(sys.argv[1:] if argv is None else argv)
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, _Interrupt.raised)
    open_stdout()
    try:
        try:
            return _run(words)
        finally:
            flush_stdout()
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        return _failed(error, "fairseq-ssl")


class _Interrupt:
    """A Ctrl-C, which an import may turn into another error."""

    seen = False

    @classmethod
    def raised(cls, number: int, frame: object) -> None:
        """End the work; the next Ctrl-C ends the process."""
        cls.seen = True
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        raise KeyboardInterrupt


def _failed(error: OSError, called: str) -> int:
    """Print a line about a file that could not be read or written; return the exit code."""
    if error.filename == STDOUT_NAME:
        drop_stdout()
    if isinstance(error, BrokenPipeError):
        return 0
    where = f"{error.filename} could not be written: " if error.filename == STDOUT_NAME else ""
    name = f": {error.filename}" if error.filename and not where else ""
    text = one_line(f"{where}{error.strerror or error}{name}.")
    print(f"{called}: error: {text}", file=sys.stderr)
    return 1


def _run(words: list[str]) -> int:
    if not words or words[0].startswith("-"):
        _top_parser().parse_args(words or ["--help"])
        return 0
    if " ".join(words[:2]) in VERBS:  # of two words
        return _run_verb(" ".join(words[:2]), words[2:])
    if words[0] not in VERBS:
        _top_parser().error(
            f"there is no verb {words[0]!r}.{nearest(words[0], VERBS)} Verbs: {', '.join(VERBS)}."
        )
    return _run_verb(words[0], words[1:])


def _run_verb(name: str, words: Sequence[str]) -> int:
    verb = load_verb(name)
    parser = Parser(
        prog=f"fairseq-ssl {name}",
        description=verb.SUMMARY,
        epilog=f"examples:\n{verb.EXAMPLES}",
    )
    verb.add_arguments(parser)
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    args, unknown = parser.parse_known_args(words)
    parser.refuse_unknown(unknown)
    silence_library_warnings()
    called = " ".join(filter(None, (parser.prog, getattr(args, "step_name", ""))))
    try:
        _check_named(args)
        with _notices(args), needs_torch(called):
            code = verb.run(args)
        flush_stdout()
        return code
    except FairseqSslError as error:
        if args.debug:
            raise
        if _Interrupt.seen:
            return 130
        print(f"{called}: error: {one_line(_with_flags(str(error), args))}", file=sys.stderr)
        if isinstance(error, UsageError):
            print(f"See {called} --help.", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        if args.debug:
            raise
        return _failed(error, called)
    except Exception:
        if _Interrupt.seen:
            return 130
        raise


FLAGS = {"overwrite": "--force", "output": "-o"}
"""Parameters whose flag has another name."""


def _with_flags(message: str, args: argparse.Namespace) -> str:
    """Replace `parameters` of the library in a message by the flags of the verb."""

    def as_flag(match: re.Match[str]) -> str:
        name = match[1]
        return FLAGS.get(name, flag(name)) if hasattr(args, name) else match[0]

    return re.sub(r"`(\w+)`", as_flag, message)


class _NoticeHandler(logging.Handler):
    """Prints what the package logs on stderr, each message once."""

    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__()
        self._args = args
        self._shown: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Print a message that is new."""
        message = _with_flags(record.getMessage(), self._args)
        if message not in self._shown:
            self._shown.add(message)
            print(message, file=sys.stderr)


@contextmanager
def _notices(args: argparse.Namespace) -> Iterator[None]:
    """Show what the package logs, however fairseq sets up logging when it is imported."""
    logger, handler = logging.getLogger("fairseq_ssl"), _NoticeHandler(args)
    before = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = before


def _check_named(args: argparse.Namespace) -> None:
    """Refuse to write what has no name, as . and /."""
    for option in OUTPUT_OPTIONS:
        value = getattr(args, option, None)
        for path in value if isinstance(value, list) else [value]:
            if isinstance(path, Path) and not path.name:
                raise UsageError(f"{flag(option)} is {path}, a folder; expected a name in it.")


def load_verb(name: str) -> Verb:
    """Import the module of a verb."""
    return cast(Verb, importlib.import_module(VERBS[name]))


def _top_parser() -> Parser:
    width = max(map(len, VERBS))
    verbs = "\n".join(f"  {name:{width}}  {load_verb(name).SUMMARY}" for name in VERBS)
    parser = Parser(
        prog="fairseq-ssl",
        usage="fairseq-ssl VERB [options]",
        description=f"The tools around the fairseq plug-in fairseq_ssl.\n\nverbs:\n{verbs}",
        epilog="fairseq-ssl VERB --help tells all about one of them.",
    )
    parser.add_argument("--version", action="version", version=f"fairseq-ssl {__version__}")
    return parser
