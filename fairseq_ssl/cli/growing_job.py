"""A run of a command that makes files block after block, and goes on after a kill."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Protocol

from fairseq_ssl.cli.block_input import BlockInput
from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.growing_files import GrowingFiles, complete, is_done, write_piece


class Made(Protocol):
    """What was made of a block."""

    @property
    def outputs(self) -> Sequence[bytes | Path]:
        """A piece of each file."""

    @property
    def end(self) -> int:
        """The byte of the input up to which it is done."""


@dataclass
class GrowingJob(ABC):
    """One run: blocks of `input` come in, pieces of the files `outputs` come out."""

    input: BlockInput
    outputs: list[Path]
    """Empty: the first goes to stdout."""
    task: Mapping[str, Any]
    """All that decides the bytes of the outputs."""
    afresh: bool
    totals: Counter[str] = field(default_factory=Counter)
    """What the results have been counted to; `lines` is one of them."""

    @abstractmethod
    def results(self) -> Iterator[Made]:
        """Work on what is left of the input, block after block, and count."""

    @abstractmethod
    def signature(self) -> Signature:
        """Return what is written beside the first output."""

    def make(self, stdout: IO[bytes]) -> bool:
        """Write the outputs, or the first to `stdout`; returns False where they were there."""
        complete(self.outputs)
        if not self.outputs:
            for done in self.results():
                write_piece(stdout, done.outputs[0])
            stdout.flush()
            return True
        if not self.afresh and self.input.path and is_done(self.outputs, self.task):
            print(f"{self.outputs[0]} is there already, made by this command", file=sys.stderr)
            return False
        for path in self.outputs:
            if path.exists() and not self.afresh:
                raise UsageError(
                    f"{path} exists, and is not what this command makes. Pass --force to replace "
                    "it, or name another."
                )
        try:
            self._grow()
        except OSError as error:
            raise DataError(
                f"{self.outputs[0]} could not be written: {error.strerror or error}. Make room, "
                "and run the same command again: it goes on."
            ) from None
        return True

    def _grow(self) -> None:
        afresh = self.afresh or self.input.path is None  # of stdin nothing is left
        with GrowingFiles(self.outputs, self.task, afresh) as files:
            if files.state:
                self.input.position = files.state["position"]
                self.totals.update(files.state["totals"])
                print(f"going on after line {self.totals['lines']}", file=sys.stderr)
            for done in self.results():
                files.append(done.outputs, {"position": done.end, "totals": self.totals})
            files.finish(self.signature())
