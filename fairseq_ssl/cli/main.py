"""``fairseq-ssl``: run a verb and convert errors to one line and an exit code."""

from __future__ import annotations

import argparse
import importlib
import logging
import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, Protocol, cast

from fairseq_ssl._version import __version__
from fairseq_ssl.cli.console import STDOUT_NAME, drop_stdout, flush_stdout, open_stdout
from fairseq_ssl.errors import FairseqSslError, UsageError, flag, nearest, needs_torch, one_line
from fairseq_ssl.io.executors import silence_library_warnings

VERBS = {
    "average": "average checkpoints of a run, or extract its moving average",
    "back-translate": "translate monolingual text into synthetic pairs",
    "classify": "prepare data for text classifiers, label, predict and score",
    "completion": "print a completion script for bash or zsh",
    "confusion-sets": "list the words that each word can be confused with, by a spell checker",
    "detokenize": "join subwords, undo Moses tokenization, extract text from fairseq-generate",
    "doctor": "check the installation and print versions for bug reports",
    "edits": "convert corrected text to edit labels of its tokens, and back",
    "export": "convert a checkpoint to fairseq's architecture, one direction, or CTranslate2",
    "filter": "drop bad lines or pairs: wrong language, length, duplicates, copies",
    "filter learned": "train a classifier of clean and noisy pairs, and keep the best pairs",
    "learner-errors": "count the words that learners add, omit and confuse",
    "length-bleu": "BLEU by source length, and the gain over a baseline checkpoint",
    "m2": "convert M2 files to text and back, and merge, count and apply their edits",
    "noise": "add noise to clean text: masks, deletions, misspellings, learner errors",
    "papers": "list the papers and their --task, --arch and --criterion names",
    "position-data": "create data sets that compare positions: short, joined, swapped",
    "postprocess": "copy unknown words, join subwords, detruecase, fix Japanese punctuation",
    "report": "write an HTML page of scores, figures and sentences",
    "rerank": "rerank n-best lists by weighted scores, and combine systems",
    "score": "score text by M2, ERRANT, GLEU, BLEU, chrF, ROUGE or accuracy",
    "shift-similarity": "cosine similarity of encoder states under shifted positions",
    "subwords": "train a subword model, encode, decode, and create its dictionary",
    "swapped-bleu": "BLEU of the first of joined sentences, in place and moved to the end",
    "tag": "add a tag such as <BT> to each line, and to fairseq's dictionaries",
    "token-wins": "share of gold tokens that score higher than with a baseline checkpoint",
    "tokenize": "tokenize text as Moses does",
    "truecase": "truecase text as Moses does, and undo it",
    "user-dir": "print the path to pass to fairseq's --user-dir",
}
"""Summaries by verb. The module of a verb has the name of the verb."""

OUTPUT_OPTIONS = ("output", "clean", "source_output", "changed_positions", "label_dict", "figure")


class Verb(Protocol):
    """Interface of the module of a verb."""

    EXAMPLES: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the options of the verb."""

    def run(self, args: argparse.Namespace) -> int | None:
        """Run the verb. Return the exit code, None for 0. Verbs with steps have no `run`."""


class Parser(argparse.ArgumentParser):
    """A parser without abbreviations of flags, whose errors suggest the closest flag."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(allow_abbrev=False, **options)

    def reject_unknown(self, words: Sequence[str]) -> None:
        """Exit with a usage error if there are unknown words."""
        if words:
            hint = nearest(words[0].partition("=")[0], self._option_string_actions)
            self.error(f"unknown argument {words[0]!r}.{hint} See {self.prog} --help.")

    def error(self, message: str) -> NoReturn:
        """Print one line and exit with 2."""
        self.exit(2, f"{self.prog}: error: {one_line(message)}\n")


Run = Callable[[argparse.Namespace], None]


class StepParser(Parser):
    """The parser of a step. Its errors suggest the closest flag of the step."""

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse the words. Reject unknown words."""
        found, unknown = super().parse_known_args(args, namespace)
        self.reject_unknown(unknown)
        return found, unknown


class Steps:
    """The sub-parsers of a verb with steps."""

    def __init__(
        self, parser: argparse.ArgumentParser, metavar: str = "STEP", title: str = "steps"
    ) -> None:
        self._steps = parser.add_subparsers(
            dest="step", required=True, metavar=metavar, parser_class=StepParser, title=title
        )

    def add(self, name: str, summary: str, run: Run) -> argparse.ArgumentParser:
        """Declare a step. Return its parser."""
        step = self._steps.add_parser(name, help=summary, description=summary)
        step.add_argument(
            "--debug",
            action="store_true",
            default=argparse.SUPPRESS,
            help="print the traceback of an error",
        )
        step.set_defaults(run_step=run, step_name=name)
        return step


def main(argv: Sequence[str] | None = None) -> int:
    """Run a verb. Return its exit code: 0, 1 for data, 2 for usage, 130 for Ctrl-C."""
    words = list(sys.argv[1:] if argv is None else argv)
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, _Interrupt.raised)
    open_stdout()
    try:
        try:
            return _run(words)
        finally:
            flush_stdout()
    except SystemExit as ended:  # raised by argparse
        return int(ended.code or 0)
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        return _failed(error, "fairseq-ssl")


class _Interrupt:
    """Handler of Ctrl-C, which remembers it, because an import may raise another error instead."""

    seen = False

    @classmethod
    def raised(cls, number: int, frame: object) -> None:
        """Raise KeyboardInterrupt. The next Ctrl-C kills the process."""
        cls.seen = True
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        raise KeyboardInterrupt


def _failed(error: OSError, called: str) -> int:
    """Print the error of a file that cannot be read or written. Return the exit code."""
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
    if " ".join(words[:2]) in VERBS:  # a verb of two words
        return _run_verb(" ".join(words[:2]), words[2:])
    if words[0] not in VERBS:
        _top_parser().error(
            f"unknown verb {words[0]!r}.{nearest(words[0], VERBS)} Verbs: {', '.join(VERBS)}."
        )
    return _run_verb(words[0], words[1:])


def _run_verb(name: str, words: Sequence[str]) -> int:
    verb, parser = load_verb(name), verb_parser(name)
    args, unknown = parser.parse_known_args(words)
    parser.reject_unknown(unknown)
    silence_library_warnings()
    called = " ".join(filter(None, (parser.prog, getattr(args, "step_name", ""))))
    try:
        _check_named(args)
        run = getattr(args, "run_step", None) or verb.run
        with _notices(args), needs_torch(called):
            code = run(args)
        flush_stdout()
        return code or 0
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
"""Flags by parameter, for those with a different name."""


def _with_flags(message: str, args: argparse.Namespace) -> str:
    """Replace names of parameters in backticks in a message by the flags of the verb."""

    def as_flag(match: re.Match[str]) -> str:
        name = match[1]
        return FLAGS.get(name, flag(name)) if hasattr(args, name) else match[0]

    return re.sub(r"`(\w+)`", as_flag, message)


class _NoticeHandler(logging.Handler):
    """Log handler that prints each distinct message once on stderr."""

    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__()
        self._args = args
        self._shown: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Print a new message."""
        message = _with_flags(record.getMessage(), self._args)
        if message not in self._shown:
            self._shown.add(message)
            print(message, file=sys.stderr)


@contextmanager
def _notices(args: argparse.Namespace) -> Iterator[None]:
    """Print log messages of the package, independent of the logging setup of fairseq."""
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
    """Reject output paths without a name, such as . and /."""
    for option in OUTPUT_OPTIONS:
        value = getattr(args, option, None)
        for path in value if isinstance(value, list) else [value]:
            if isinstance(path, Path) and not path.name:
                raise UsageError(f"{flag(option)} is the folder {path}. Expected a new path in it.")


def load_verb(name: str) -> Verb:
    """Import the module of a verb."""
    module = re.sub("[- ]", "_", name)
    return cast(Verb, importlib.import_module(f"fairseq_ssl.cli.{module}"))


def verb_parser(name: str) -> Parser:
    """Return the parser of a verb, with examples and --debug."""
    verb = load_verb(name)
    epilog = f"examples:\n{verb.EXAMPLES}"
    parser = Parser(prog=f"fairseq-ssl {name}", description=VERBS[name], epilog=epilog)
    verb.add_arguments(parser)
    parser.add_argument("--debug", action="store_true", help="print the traceback of an error")
    return parser


def _top_parser() -> Parser:
    width = max(map(len, VERBS))
    verbs = "\n".join(f"  {name:{width}}  {summary}" for name, summary in VERBS.items())
    parser = Parser(
        prog="fairseq-ssl",
        usage="fairseq-ssl VERB [options]",
        description=f"Tools of the fairseq plug-in fairseq_ssl.\n\nverbs:\n{verbs}",
        epilog="fairseq-ssl VERB --help lists the options of a verb.",
    )
    parser.add_argument("--version", action="version", version=f"fairseq-ssl {__version__}")
    return parser
