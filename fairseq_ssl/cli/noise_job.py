"""What ``fairseq-ssl noise`` does once it is clear what is wanted."""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import IO, Any

from fairseq_ssl._version import __version__
from fairseq_ssl.cli.console import progress
from fairseq_ssl.cli.growing_job import BlockJob
from fairseq_ssl.cli.noise_input import NoiseInput
from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.io import blocks as byte_blocks
from fairseq_ssl.io.atomic import build_once
from fairseq_ssl.io.executors import Executor
from fairseq_ssl.io.resumable import is_done
from fairseq_ssl.io.text_files import open_bytes, open_text
from fairseq_ssl.noise import registry
from fairseq_ssl.noise.confusion_sets import read_confusion_sets
from fairseq_ssl.noise.corpus import NoisedBlock, corpus_noise
from fairseq_ssl.noise.learner_errors import LearnerErrors
from fairseq_ssl.noise.tokens import Unigrams
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.vocabulary import count_words, read_counts, write_counts

TOTALS = ("lines", "skipped", "tokens", "touched")


@dataclass(frozen=True)
class Wanted:
    """What the command line asks for."""

    settings: list[registry.NoiseSpec]
    seed: int
    input: NoiseInput
    outputs: dict[str, Path]
    """By their names in `corpus.OUTPUTS`; empty: the noisy side goes to stdout."""
    skip_bad_lines: bool
    mask_token: str
    counts: Path | None
    kept_counts: Path | None
    confusion_sets: Path | None
    learner_words: Path | None

    @cached_property
    def task(self) -> dict[str, Any]:
        """All that decides the bytes of the outputs."""
        return {
            "noise": ",".join(map(str, self.settings)),
            "seed": self.seed,
            "input": str(self.input),
            "input_is": self.input.identity,
            "outputs": {name: str(path) for name, path in self.outputs.items()},
            "shard": "{}/{}".format(*self.input.shard),
            "skip_bad_lines": self.skip_bad_lines,
            "mask_token": self.mask_token,
            "counts": _digest(self.counts),
            "confusion_sets": _digest(self.confusion_sets),
            "learner_words": _digest(self.learner_words),
            "version": __version__,
        }


@dataclass
class NoiseJob(BlockJob):
    """One run of the command."""

    wanted: Wanted = field(kw_only=True)
    engine: Executor = field(kw_only=True)

    @classmethod
    def of(cls, wanted: Wanted, engine: Executor, afresh: bool) -> NoiseJob:
        """Return the run that the command line asks for."""
        outputs = list(wanted.outputs.values())
        if outputs:
            wanted.input.scratch = outputs[0].with_name(f"{outputs[0].name}.parts")
        stdin = wanted.input.path is None
        return cls(
            *(outputs, wanted.task, afresh, stdin, wanted.input), wanted=wanted, engine=engine
        )

    def run(self, stdout: IO[bytes]) -> int:
        """Write the outputs, or the noisy side to `stdout`, and say what was done."""
        return self._end() if self.make(stdout) else 0

    def results(self) -> Iterator[NoisedBlock]:
        """Noise what is left of the input, block after block, and count."""
        wanted = self.wanted
        outputs = {name: path.suffix == ".gz" for name, path in wanted.outputs.items()}
        work = corpus_noise(
            wanted.settings, self._at_hand(), wanted.seed, outputs or {"noisy": False}
        )
        tell = progress("noise", "lines")
        for done, share in wanted.input.results(self.engine, work):
            self._count(done)
            tell(done.lines, share)
            yield done
        if not self.totals["lines"] and wanted.input.shard == (1, 1):
            raise DataError(f"{wanted.input} is empty. Expected a line or more.")

    def signature(self) -> Signature:
        """Return the task and what was counted."""
        counts = {name: self.totals[name] for name in TOTALS}
        return Signature("noise", {**self.told, **counts})

    def _count(self, result: NoisedBlock) -> None:
        """Add to the totals; stop at a bad line unless such are skipped."""
        if result.bad and not self.wanted.skip_bad_lines:
            bad = result.bad[0]
            number = self.wanted.input.lines_before() + self.totals["lines"] + bad.place
            raise DataError(
                f"{self.wanted.input}:{number} {bad.what}. Mend it, or pass "
                "--skip-bad-lines (with --clean) to leave out such lines."
            )
        counts = (result.lines, len(result.bad), result.tokens, result.touched)
        self.totals.update(dict(zip(TOTALS, counts, strict=True)))

    def _at_hand(self) -> dict[str, Any]:
        """Read what the noises need and may take."""
        wanted = self.wanted
        needs = set().union(*(setting.needs for setting in wanted.settings))
        at_hand: dict[str, Any] = {
            "mask_token": wanted.mask_token,
            "spared": frozenset({wanted.mask_token}),
        }
        if "unigrams" in needs:
            counts = self._counts()
            if not counts.total():
                raise DataError(
                    f"{wanted.counts or wanted.input} has no word, so there is none to draw. "
                    "Expected clean text, tokens between spaces, or --counts of words."
                )
            at_hand["unigrams"] = Unigrams.of(counts)
        if "confusions" in needs:
            at_hand["confusions"] = _confusions(wanted.confusion_sets)
        if wanted.learner_words is not None:
            at_hand["learner_words"] = LearnerErrors.read(wanted.learner_words)
        return at_hand

    def _counts(self) -> Counter[str]:
        """Read the word counts, or count the whole input once, for all shards and seeds."""
        wanted = self.wanted
        if wanted.counts is not None:
            return read_counts(wanted.counts)
        if wanted.input.path is None:
            raise UsageError(
                "This noise draws words by their counts. Pass --counts, such as fairseq's "
                "dict.txt, or the text as a file."
            )
        if wanted.kept_counts is None:
            return self._count_input(wanted.input.path)
        return self._kept_counts(wanted.input.path, wanted.kept_counts)

    def _kept_counts(self, path: Path, kept: Path) -> Counter[str]:
        """Count once for all shards, seeds and later runs; of shards that begin at once, one."""
        made_of = {"input_is": self.wanted.input.identity}

        def count() -> None:
            if counts := self._count_input(path):
                write_counts(counts, kept)
                Signature("word-counts", {"input": str(path), **made_of}).write_beside(kept)

        build_once(kept, lambda: is_done([kept], made_of), count)
        return read_counts(kept) if is_done([kept], made_of) else Counter()

    def _count_input(self, path: Path) -> Counter[str]:
        counts: Counter[str] = Counter()
        tell = progress("count words", "blocks")
        with open_text(path) as file:
            blocks = byte_blocks.byte_blocks(file)
            for one in self.engine.ordered(count_words, blocks):
                counts.update(one)
                tell(1)
        return counts

    def _end(self) -> int:
        totals = self.totals
        wanted = self.wanted
        print(
            Signature("noise", {"noise": wanted.task["noise"], "seed": wanted.seed}),
            file=sys.stderr,
        )
        share = totals["touched"] / max(1, totals["tokens"])
        skipped = f", {totals['skipped']} bad lines skipped" if totals["skipped"] else ""
        print(
            f"{totals['lines']} lines, {totals['tokens']} tokens, {share:.1%} touched{skipped}",
            file=sys.stderr,
        )
        for path in wanted.outputs.values():
            print(f"wrote {path}", file=sys.stderr)
        return 0


def _digest(path: Path | None) -> str | None:
    """Return a few letters that stand for a file's content."""
    if path is None:
        return None
    with open_bytes(path) as file:
        return hashlib.sha256(file.read()).hexdigest()[:12]


def _confusions(path: Path | None) -> dict[str, tuple[str, ...]]:
    if path is None:
        raise UsageError(
            "The noise 'spell' needs --confusion-sets; make them with: fairseq-ssl confusion-sets"
        )
    return read_confusion_sets(path)
