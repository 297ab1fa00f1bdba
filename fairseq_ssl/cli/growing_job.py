"""A run of a command that makes files block after block, and goes on after a kill."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Protocol

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.io.atomic import exclusive, is_device
from fairseq_ssl.io.jobs import TextInput
from fairseq_ssl.io.resumable import ResumableFiles, complete, is_done, journal, write_chunk
from fairseq_ssl.signature import Signature

Pieces = Sequence[bytes | Path]
"""Of the outputs, one each."""


class Made(Protocol):
    """What was made of a block."""

    @property
    def outputs(self) -> Pieces:
        """A piece of each file."""

    @property
    def end(self) -> int:
        """The byte of the input up to which it is done."""


@dataclass
class GrowingJob(ABC):
    """One run."""

    outputs: Sequence[Path]
    """Empty: the first goes to stdout."""
    task: Mapping[str, Any]
    """All that decides the bytes of the outputs."""
    afresh: bool
    from_stdin: bool
    """Of which nothing is left for a run that would go on."""

    @property
    def told(self) -> dict[str, Any]:
        """What a signature tells of the task, which has a place of its own for the version."""
        return {key: value for key, value in self.task.items() if key != "version"}

    @abstractmethod
    def pieces(self) -> Iterator[tuple[Pieces, Mapping[str, Any]]]:
        """Work on what is left: yield a piece of each output, and what `go_on` needs after it."""

    @abstractmethod
    def go_on(self, state: Mapping[str, Any]) -> int:
        """Begin where an earlier run was killed; returns how many lines it had done."""

    @abstractmethod
    def signature(self) -> Signature:
        """Return what is written beside the first output."""

    def make(self, stdout: IO[bytes]) -> bool:
        """Write the outputs, or the first to `stdout`; returns False where they were there."""
        if not self.outputs:
            for pieces, _ in self.pieces():
                write_chunk(stdout, pieces[0])
            stdout.flush()
            return True
        with ExitStack() as locks:
            if not self._is_done():
                for path in self.outputs:
                    locks.enter_context(exclusive(path))
                complete(self.outputs)
            if self._is_done():
                print(
                    f"{self.outputs[0]} is complete, written by an earlier run of this job",
                    file=sys.stderr,
                )
                return False
            for path in self.outputs:
                if is_device(path):
                    raise UsageError(f"{path} is a device or a pipe. Expected a file.")
                if path.exists() and not self.afresh:
                    raise UsageError(
                        f"{path} exists, and is not an output of this job. Set `overwrite` to "
                        "replace it, or choose another output."
                    )
            self._make()
        return True

    def _is_done(self) -> bool:
        begun = self.afresh or self.from_stdin or journal(self.outputs[0]).exists()
        return not begun and is_done(self.outputs, self.task)

    def _make(self) -> None:
        try:
            self._grow()
        except PermissionError:
            raise DataError(f"{self.outputs[0]} can not be written: permission denied.") from None
        except OSError as error:
            raise DataError(
                f"{self.outputs[0]} could not be written: {error.strerror or error}. Free some "
                "space, and run the same job again: it resumes."
            ) from None

    def _grow(self) -> None:
        with ResumableFiles(self.outputs, self.task, self.afresh or self.from_stdin) as files:
            if files.state:
                print(f"resuming after line {self.go_on(files.state)}", file=sys.stderr)
            for pieces, state in self.pieces():
                files.append(pieces, state)
            files.finish(self.signature())


@dataclass
class BlockJob(GrowingJob):
    """One that works on blocks of one text, each for itself."""

    input: TextInput
    totals: Counter[str] = field(default_factory=Counter)
    """What the results have been counted to; `lines` is one of them."""

    @abstractmethod
    def results(self) -> Iterator[Made]:
        """Work on what is left of the input, block after block, and count."""

    def pieces(self) -> Iterator[tuple[Pieces, Mapping[str, Any]]]:
        """Yield a piece of each output, and what is done with it."""
        for done in self.results():
            yield done.outputs, {"position": done.end, "totals": self.totals}

    def go_on(self, state: Mapping[str, Any]) -> int:
        """Go to the first block that is not done."""
        self.input.position = state["position"]
        self.totals.update(state["totals"])
        return self.totals["lines"]
