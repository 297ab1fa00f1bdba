"""What ``fairseq-ssl rerank features`` does once it is clear what is wanted."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import IO, Any

from fairseq_ssl._version import __version__
from fairseq_ssl.cli.console import progress
from fairseq_ssl.cli.growing_job import GrowingJob
from fairseq_ssl.cli.scorer_options import loader
from fairseq_ssl.errors import DataError
from fairseq_ssl.inference.scoring import TRANSLATION, NBestScoring, ScoringConfig
from fairseq_ssl.io.blocks import RowBlock, row_blocks
from fairseq_ssl.io.executors import Executor
from fairseq_ssl.io.resumable import file_fingerprint
from fairseq_ssl.io.text_files import open_text, stdin_text
from fairseq_ssl.signature import Signature


@dataclass(frozen=True)
class Wanted:
    """What the command line asks for."""

    scoring: ScoringConfig
    nbest_list: Path | None
    """None: stdin."""
    output: Path | None
    """None: stdout."""
    source: Path | None
    source_subwords: Path | None
    subwords: Path | None
    size: int
    """Bytes of a block."""

    @property
    def files(self) -> dict[str, Path | None]:
        """What is read beside the models."""
        return {
            "list": self.nbest_list,
            "source": self.source,
            "source_subwords": self.source_subwords,
            "subwords": self.subwords,
            "unigrams": self.scoring.unigrams,
        }

    @cached_property
    def task(self) -> dict[str, Any]:
        """All that decides the bytes of the output."""
        scoring = asdict(self.scoring)
        del scoring["threads"]
        scoring["models"] = [[str(path), *file_fingerprint(path)] for path in self.scoring.models]
        scoring["data_dir"] = self.scoring.data_dir and str(self.scoring.data_dir)
        read = {name: path and str(path) for name, path in self.files.items()}
        are = {f"{name}_is": path and file_fingerprint(path) for name, path in self.files.items()}
        return {
            **scoring,
            **read,
            **are,
            "output": str(self.output),
            "block": self.size,
            "version": __version__,
        }


def named(scoring: ScoringConfig) -> ScoringConfig:
    """Return the same with a name, where it has none: s2t or t2s, and -r2l behind it."""
    if scoring.name:
        return scoring
    from fairseq_ssl.inference.loading import writes_right_to_left

    assert scoring.kind == TRANSLATION
    direction = "t2s" if scoring.reverse else "s2t"
    return replace(scoring, name=direction + ("-r2l" if writes_right_to_left(scoring) else ""))


@dataclass
class FeaturesJob(GrowingJob):
    """One run of the command."""

    wanted: Wanted = field(kw_only=True)
    engine: Executor = field(kw_only=True)
    totals: Counter[str] = field(default_factory=Counter)
    position: int = 0
    """Bytes of the list, unpacked, that are done."""
    seconds: float = 0.0

    @classmethod
    def of(cls, wanted: Wanted, engine: Executor, afresh: bool) -> FeaturesJob:
        """Return the run that the command line asks for."""
        wanted = replace(wanted, scoring=named(wanted.scoring))
        outputs = [wanted.output] if wanted.output else []
        stdin = wanted.nbest_list is None
        return cls(outputs, wanted.task, afresh, stdin, wanted=wanted, engine=engine)

    def run(self, stdout: IO[bytes]) -> int:
        """Write the list, and say what was done."""
        if self.make(stdout):
            self._tell()
        return 0

    def go_on(self, state: Mapping[str, Any]) -> int:
        """Go to the first block that is not done."""
        self.position = state["position"]
        self.totals.update(state["totals"])
        return self.totals["candidates"]

    def pieces(self) -> Iterator[tuple[list[bytes], dict[str, Any]]]:
        """Score what is left of the list, block after block."""
        wanted = self.wanted
        work = NBestScoring(
            loader(wanted.scoring),
            wanted.scoring,
            wanted.source,
            wanted.source_subwords,
            wanted.subwords,
            wanted.output is not None and wanted.output.suffix == ".gz",
        )
        if wanted.source is not None:
            with open_text(wanted.source):
                pass  # workers read it, but notices are shown by this process alone
        tell = progress("rerank features", "candidates")
        begun = time.monotonic()
        for done in self.engine.ordered(work, self._blocks()):
            counts = {"candidates": done.candidates, "tokens": done.tokens, "cut": done.cut}
            self.totals.update(counts)
            self.position = done.ends[0]
            self.seconds = time.monotonic() - begun
            tell(done.candidates, done.share or None)
            yield [done.output], {"position": self.position, "totals": self.totals}
        if not self.totals["candidates"]:
            raise DataError(f"{wanted.nbest_list or 'stdin'} is empty. Expected an n-best list.")

    def signature(self) -> Signature:
        """Return the task and what was counted."""
        return Signature("rerank-features", {**self.told, **self.totals})

    def _blocks(self) -> Iterator[RowBlock]:
        path = self.wanted.nbest_list
        with ExitStack() as stack:
            file = stack.enter_context(open_text(path)) if path else stdin_text()
            names, first = [str(path or "stdin")], self.totals["candidates"] + 1
            yield from row_blocks([file], names, [self.position], first, self.wanted.size)

    def _tell(self) -> None:
        totals, scoring = self.totals, self.wanted.scoring
        cut = ""
        if totals["cut"]:
            cut = (
                f"\n{totals['cut']} were longer than the model reads, and scored by their beginning"
            )
        print(
            f"{' and '.join(scoring.names)}: {totals['candidates']} candidates, "
            f"{totals['candidates'] / max(self.seconds, 1e-9):.1f}/s{cut}",
            file=sys.stderr,
        )
        told = {"kind": scoring.kind, "models": len(scoring.models), "name": scoring.name}
        print(Signature("rerank-features", told), file=sys.stderr)
