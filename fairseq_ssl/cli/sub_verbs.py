"""Verbs with steps, such as ``fairseq-ssl truecase train``, each with its own options and help."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from fairseq_ssl.cli.main import Parser

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
