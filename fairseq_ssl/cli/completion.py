"""``fairseq-ssl completion``: print a shell script that completes commands, flags and files."""

from __future__ import annotations

import argparse
from pathlib import Path

from fairseq_ssl.cli.main import COMMANDS, Parser, load_command
from fairseq_ssl.errors import import_optional

EXAMPLES = """\
  source <(fairseq-ssl completion bash)
  fairseq-ssl completion zsh > ~/.zfunc/_fairseq-ssl      (a folder in $fpath)"""
PATHS = ("FILE", "FOLDER", "DIR", "INPUT", "PREFIX", "SOURCE", "TARGET")  # in metavars


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the argument that selects the shell, bash or zsh."""
    parser.add_argument("shell", choices=("bash", "zsh"), help="shell for the completion script")


def run(args: argparse.Namespace) -> None:
    """Print the completion script. The script is static, so completion does not start Python."""
    shtab = import_optional("shtab", "Completion")
    parser = Parser(prog="fairseq-ssl")
    commands = parser.add_subparsers()
    for name in COMMANDS:
        load_command(name).add_arguments(commands.add_parser(name, help=COMMANDS[name]))
    _complete_paths(parser, shtab.FILE)
    print(shtab.complete(parser, args.shell))


def _complete_paths(parser: argparse.ArgumentParser, files: object) -> None:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for subparser in action.choices.values():
                _complete_paths(subparser, files)
        elif action.type is Path or any(name in str(action.metavar) for name in PATHS):
            action.complete = files  # type: ignore[attr-defined]
