"""Verbs with steps, as ``fairseq-ssl truecase train``: each has options and a help of its own."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from fairseq_ssl.cli.main import Parser

Run = Callable[[argparse.Namespace], None]


class StepParser(Parser):
    """The parser of one step; it names the nearest word among its own options."""

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Read all words, and refuse those that the step does not know."""
        found, unknown = super().parse_known_args(args, namespace)
        self.refuse_unknown(unknown)
        return found, unknown


class Steps:
    """The steps of a verb."""

    def __init__(
        self, parser: argparse.ArgumentParser, metavar: str = "STEP", title: str = "steps"
    ) -> None:
        self._steps = parser.add_subparsers(
            dest="step", required=True, metavar=metavar, parser_class=StepParser, title=title
        )

    def add(self, name: str, summary: str, run: Run) -> argparse.ArgumentParser:
        """Declare a step; returns its parser, for its options."""
        step = self._steps.add_parser(name, help=summary, description=summary)
        step.add_argument(
            "--debug",
            action="store_true",
            default=argparse.SUPPRESS,
            help="show the traceback of an error",
        )
        step.set_defaults(run_step=run, step_name=name)
        return step
