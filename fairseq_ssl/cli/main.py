"""``fairseq-ssl``: run a command and convert errors to one line and an exit code."""

from __future__ import annotations

import argparse
import errno
import importlib
import logging
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, Protocol, cast

from fairseq_ssl._version import __version__
from fairseq_ssl.cli.console import STDOUT_NAME, drop_stdout, flush_stdout, open_stdout, print_lines
from fairseq_ssl.errors import FairseqSslError, UsageError, nearest, needs_torch, one_line
from fairseq_ssl.io.executors import silence_library_warnings

COMMANDS = {
    "analyze": "compare checkpoints by their translations, scores and encoder states",
    "average": "average checkpoints of a training run, or extract its moving average",
    "back-translate": "translate monolingual text to create synthetic pairs",
    "classify": "prepare data for text classifiers, classify texts and score predictions",
    "completion": "print a completion script for bash or zsh",
    "confusion-sets": "list confusable words for each word of a text",
    "correct": "correct the grammar of text, raw or tokenized, with an edit tagger",
    "doctor": "check the installation and print versions for bug reports",
    "edits": "convert corrected text to edit labels, combine corrections, and tune decoding",
    "export": "convert a checkpoint to fairseq, CTranslate2, ONNX or Hugging Face format",
    "filter": "drop lines or pairs: wrong language, unusual length, duplicates, copies",
    "learned-filter": "train a classifier of clean and noisy pairs, and keep the best pairs",
    "learner-errors": "count the words that learners add, omit and confuse",
    "m2": "convert M2 files to text and back, merge them, and count their edits",
    "noise": "add noise to clean text: masks, deletions, misspellings, learner errors",
    "position-data": "create data sets for comparing position representations",
    "postprocess": "convert model output to text: join subwords, detokenize, detruecase",
    "report": "write an HTML page of scores, figures and sentences",
    "rerank": "rerank n-best lists by weighted scores, and combine systems",
    "score": "score text with M2, ERRANT, GLEU, BLEU, chrF, ROUGE or accuracy",
    "serve": "serve an edit tagger over HTTP, with a page to type text into",
    "spelling": "correct misspelled words and missing capitals of English text",
    "subwords": "train a subword model, encode text, and create its dictionary",
    "tag": "add a tag such as <BT> to each line, and to fairseq's dictionaries",
    "tokenize": "tokenize and truecase text as in Moses",
    "user-dir": "print the path to pass to fairseq's --user-dir",
}
"""Summaries by command. A command's module has the command's name, with _ for hyphens."""

MOVED = {
    "--debug": "fairseq-ssl --debug COMMAND",
    "--tokenized": "--tokenizer none",
    "analyze length-bleu --ends": "--length-bounds",
    "analyze token-wins --positions": "--position-bounds",
    "analyze token-wins --ranks": "--rank-bounds",
    "back-translate --fluency-boost-ratio": "--fairseq-options",
    "back-translate --noisy-beam-granularity": "--fairseq-options",
    "back-translate --temperature": "--fairseq-options",
    "classify predict --labeled": "--split, or cut -f 2- to remove the labels",
    "classify prepare --test-lines": "--test-size",
    "classify prepare --test-share": "--test-size",
    "classify prepare --valid-lines": "--valid-size",
    "classify prepare --valid-share": "--valid-size",
    "confusion-sets --checker": "--aspell LANG",
    "confusion-sets --lang": "--aspell LANG",
    "correct --engine": "--model FOLDER with the output of fairseq-ssl export",
    "detokenize": "postprocess",
    "edits stats": "edits label",
    "filter --memory": "a folder of parts as output, such as -o OUT/, to need less memory",
    "filter learned": "learned-filter",
    "learned-filter fit --reverse": "the target as SOURCE and the source as TARGET",
    "length-bleu": "analyze length-bleu",
    "m2 apply": "m2 to-text",
    "noise --engine": "--executor",
    "postprocess --field": "--fairseq-lines",
    "postprocess --unknown-to": "--replace-unk",
    "rerank features --source-subwords": "--subwords SOURCE_MODEL MODEL",
    "rerank report": "rerank tune --report FILE",
    "score chrf++": "score chrf --word-order 2",
    "score errant --sections": "--levels FILE",
    "serve --engine": "--model FOLDER with the output of fairseq-ssl export",
    "shift-similarity": "analyze shift-similarity",
    "subwords decode": "postprocess --subwords",
    "swapped-bleu": "analyze swapped-bleu",
    "token-wins": "analyze token-wins",
    "truecase": "tokenize --train-truecase, tokenize --truecase and postprocess --detruecase",
}
"""Replacements for removed commands and options. An option alone was removed from all commands."""

OUTPUT_OPTIONS = (
    *("output", "source_output", "label_dict", "report", "figure", "scores", "train_truecase"),
)


class Command(Protocol):
    """Interface of command modules."""

    EXAMPLES: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the command to the parser."""

    def run(self, args: argparse.Namespace) -> int | None:
        """Run the command. Return the exit code, or None for 0.

        A command with subcommands has no `run`.
        """


class Parser(argparse.ArgumentParser):
    """Argument parser that rejects abbreviated flags and suggests the closest flag in errors."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(allow_abbrev=False, **options)
        self._words: list[str] = []

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse the arguments. Exit with a usage error for an unknown or removed argument."""
        self._words = sys.argv[1:] if args is None else list(args)
        command = self.prog.removeprefix("fairseq-ssl ")
        for word in self._words:  # before an error about a missing argument
            name = word.partition("=")[0]
            moved = MOVED.get(
                f"{command} {name}", MOVED.get(name) if name.startswith("-") else None
            )
            if moved and name not in self._option_string_actions:
                self.error(f"{name!r} was removed. Use {moved}. See {self.prog} --help.")
        parsed, unknown = super().parse_known_args(self._words, namespace)
        if unknown:
            hint = self._suggest(unknown[0])
            self.error(f"unknown argument {unknown[0]!r}.{hint} See {self.prog} --help.")
        return parsed, unknown

    def _suggest(self, word: str) -> str:
        """Return a hint for an unknown argument, such as the closest flag."""
        if word.startswith("-"):
            return nearest(word.partition("=")[0], self._option_string_actions)
        positional = self._get_positional_actions()
        lists = [action.metavar for action in positional if action.nargs == "+"]
        hints = [f" Pass all {name} arguments without options between them." for name in lists]
        words = ["", "", *self._words]
        name = words[words.index(word, 2) - 2]
        if isinstance(self._option_string_actions.get(name), argparse._AppendAction):
            hints.append(f" Repeat {name} before each value.")
        if not hints and Path(word).is_file():
            hints.append(" Quote a glob, such as 'folder/*.en'.")
        return "".join(hints)

    def error(self, message: str) -> NoReturn:
        """Print the message as one line on stderr, and exit with code 2.

        If an option with a list may have consumed a missing argument, suggest a different order.
        """
        missing = message.removeprefix("the following arguments are required: ")
        if missing != message and "--" not in missing:
            for index, word in enumerate(self._words[:-2]):
                option = self._option_string_actions.get(word)
                if option and option.nargs == "+" and not self._words[index + 2].startswith("-"):
                    message += f". Write {missing} before {word}."
                    break
        self.exit(2, f"{self.prog}: error: {one_line(message)}\n")


Run = Callable[[argparse.Namespace], None]


class Subcommands:
    """Parsers for the subcommands of a command."""

    def __init__(
        self,
        parser: argparse.ArgumentParser,
        metavar: str = "SUBCOMMAND",
        title: str = "subcommands",
    ) -> None:
        self._parsers = parser.add_subparsers(
            dest="subcommand", required=True, metavar=metavar, parser_class=Parser, title=title
        )

    def add(self, name: str, summary: str, run: Run) -> argparse.ArgumentParser:
        """Add a subcommand that calls `run` with the parsed arguments. Return its parser."""
        subcommand = self._parsers.add_parser(name, help=summary, description=summary)
        subcommand.set_defaults(run_subcommand=run, parser=subcommand)
        return subcommand


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command. Return its exit code: 0, 1 (error), 2 (usage error) or 130 (Ctrl-C)."""
    words = list(sys.argv[1:] if argv is None else argv)
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, _Interrupt.raised)
    open_stdout()
    try:
        try:
            return _run(words[1:], debug=True) if words[:1] == ["--debug"] else _run(words)
        finally:
            flush_stdout()
    except SystemExit as ended:  # raised by argparse
        return int(ended.code or 0)
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        return _failed(error, "fairseq-ssl")


class _Interrupt:
    """Ctrl-C handler. It sets `seen`, because imports can turn KeyboardInterrupt into an error."""

    seen = False

    @classmethod
    def raised(cls, number: int, frame: object) -> None:
        """Set `seen` and raise KeyboardInterrupt. The next Ctrl-C kills the process."""
        cls.seen = True
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        raise KeyboardInterrupt


def _failed(error: OSError | MemoryError, called: str) -> int:
    """Print a system error and return 1. For a broken pipe, print nothing and return 0."""
    if isinstance(error, MemoryError):
        error = OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
    if error.filename == STDOUT_NAME:
        drop_stdout()
    if isinstance(error, BrokenPipeError):
        return 0
    where = f"{error.filename} could not be written: " if error.filename == STDOUT_NAME else ""
    name = f": {error.filename}" if error.filename and not where else ""
    text = one_line(f"{where}{error.strerror or error}{name}.")
    print(f"{called}: error: {text}", file=sys.stderr)
    return 1


def _run(words: list[str], debug: bool = False) -> int:
    if not words or words[0].startswith("-"):
        _top_parser().parse_args(words or ["--help"])
        return 0
    for name in (words[0], " ".join(words[:2])):
        if name in MOVED:
            _top_parser().error(f"{name!r} was removed. Use {MOVED[name]}.")
    if words[0] not in COMMANDS:
        hint = nearest(words[0], COMMANDS)
        _top_parser().error(f"unknown command {words[0]!r}.{hint} Commands: {', '.join(COMMANDS)}.")
    return _run_command(words[0], words[1:], debug)


def _run_command(name: str, words: Sequence[str], debug: bool) -> int:
    command, parser = load_command(name), command_parser(name)
    args = parser.parse_args(words)
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    silence_library_warnings()
    parser = getattr(args, "parser", parser)
    try:
        _check_named(args)
        run = getattr(args, "run_subcommand", None) or command.run
        with _notices(parser), needs_torch(parser.prog):
            code = run(args)
        flush_stdout()
        return code or 0
    except FairseqSslError as error:
        if debug:
            raise
        if _Interrupt.seen:
            return 130
        message = one_line(_with_flags(str(error), parser))
        print(f"{parser.prog}: error: {message}", file=sys.stderr)
        if isinstance(error, UsageError):
            print(f"See {parser.prog} --help.", file=sys.stderr)
        return error.exit_code
    except (OSError, MemoryError) as error:
        if debug:
            raise
        return _failed(error, parser.prog)
    except Exception:
        if _Interrupt.seen:
            return 130
        raise


def _with_flags(message: str, parser: argparse.ArgumentParser) -> str:
    """Return the message, with parameter names in backticks replaced by flags."""
    flags = {
        action.dest: next(name for name in action.option_strings if name.startswith("--"))
        for action in parser._actions
        if action.option_strings
    }

    def as_flag(match: re.Match[str]) -> str:
        names = match[1], match[1].removesuffix("s")  # `references` is --reference
        return next((flags[name] for name in names if name in flags), match[0])

    return re.sub(r"`(\w+)`", as_flag, message)


class _NoticeHandler(logging.Handler):
    """Log handler that prints each distinct message once on stderr."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        super().__init__()
        self._parser = parser
        self._printed: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Print the message of a log record once, with parameter names replaced by flags."""
        message = _with_flags(record.getMessage(), self._parser)
        if message not in self._printed:
            self._printed.add(message)
            print_lines(message)


@contextmanager
def _notices(parser: argparse.ArgumentParser) -> Iterator[None]:
    """Print the package's log messages in the block, independently of fairseq's logging setup."""
    logger, handler = logging.getLogger("fairseq_ssl"), _NoticeHandler(parser)
    before = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = before


def _check_named(args: argparse.Namespace) -> None:
    """Raise UsageError for output paths without a file name, such as ``.``, and for ``-``.

    Commands that can write to stdout parse ``-`` as None, or accept it as the only path in a list.
    """
    for option in OUTPUT_OPTIONS:
        value = getattr(args, option, None)
        for path in value if isinstance(value, list) else [value]:
            if isinstance(path, str | Path) and not Path(path).name:
                raise UsageError(f"`{option}` is {str(path)!r}. Pass the name of an output.")
            if str(path) == "-" and value != [path]:
                raise UsageError(f"`{option}` is -, but stdout is not supported here. Pass a path.")


def load_command(name: str) -> Command:
    """Import and return the module of a command."""
    return cast(Command, importlib.import_module(f"fairseq_ssl.cli.{name.replace('-', '_')}"))


def command_parser(name: str) -> Parser:
    """Return the parser of a command, with examples."""
    command = load_command(name)
    epilog = f"examples:\n{command.EXAMPLES}"
    parser = Parser(prog=f"fairseq-ssl {name}", description=COMMANDS[name], epilog=epilog)
    command.add_arguments(parser)
    return parser


def _top_parser() -> Parser:
    width = max(map(len, COMMANDS))
    commands = "\n".join(f"  {name:{width}}  {summary}" for name, summary in COMMANDS.items())
    parser = Parser(
        prog="fairseq-ssl",
        usage="fairseq-ssl [--debug] COMMAND [options]",
        description=f"Tools of the fairseq plug-in fairseq_ssl.\n\ncommands:\n{commands}",
        epilog="fairseq-ssl COMMAND --help lists the options of a command.\n\n"
        "An input text can be a file, a quoted glob such as 'news.*.gz', or a folder of parts,\n"
        "whose files are read as one. Paths can be URLs such as s3://bucket/news. Files whose\n"
        "names end with .gz or .zst are compressed.",
    )
    parser.add_argument("--version", action="version", version=f"fairseq-ssl {__version__}")
    parser.add_argument(
        "--debug",
        action="store_true",
        help="print the traceback of an error; must be placed before COMMAND",
    )
    return parser
