"""What ``fairseq-ssl back-translate`` does once it is clear what is wanted."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import IO, Any

from fairseq_ssl._version import __version__
from fairseq_ssl.cli.console import progress
from fairseq_ssl.cli.growing_job import BlockJob
from fairseq_ssl.errors import DataError
from fairseq_ssl.inference import ctranslate2_decoder, fairseq_decoder
from fairseq_ssl.inference.translation import (
    MADE,
    TRANSLATION_COUNTS,
    DecodingConfig,
    TranslatedBlock,
    Translation,
)
from fairseq_ssl.io.executors import Executor
from fairseq_ssl.io.jobs import TextInput
from fairseq_ssl.io.resumable import file_fingerprint
from fairseq_ssl.signature import Signature

NOT_TRANSLATED = ("blank", "too_long", "undecodable", "failed")


@dataclass(frozen=True)
class Wanted:
    """What the command line asks for."""

    decoder: str
    """fairseq or ctranslate2."""
    decoding: DecodingConfig
    seed: int
    most: int
    """Tokens of a line that is translated."""
    input: TextInput
    outputs: dict[str, Path]
    """By their names in `translation.OUTPUTS`; empty: what is made goes to stdout."""

    @cached_property
    def task(self) -> dict[str, Any]:
        """All that decides the bytes of the outputs."""
        decoding = asdict(self.decoding)
        del decoding["threads"]
        decoding["models"] = [[str(path), *file_fingerprint(path)] for path in self.decoding.models]
        decoding["data_dir"] = self.decoding.data_dir and str(self.decoding.data_dir)
        return {
            "engine": self.decoder,
            **decoding,
            "seed": self.seed,
            "max_source_tokens": self.most,
            "input": str(self.input),
            "input_is": self.input.fingerprint,
            "block": self.input.size,
            "outputs": {name: str(path) for name, path in self.outputs.items()},
            "shard": "{}/{}".format(*self.input.shard),
            "version": __version__,
        }


@dataclass
class BackTranslationJob(BlockJob):
    """One run of the command."""

    wanted: Wanted = field(kw_only=True)
    engine: Executor = field(kw_only=True)
    seconds: float = 0.0
    """Since the model was asked for the first block."""

    @classmethod
    def of(cls, wanted: Wanted, engine: Executor, afresh: bool) -> BackTranslationJob:
        """Return the run that the command line asks for."""
        check = fairseq_decoder.check_fairseq_model
        if wanted.decoder == "ctranslate2":
            check = ctranslate2_decoder.check_ctranslate2_model
        for model in wanted.decoding.models:
            check(model)
        outputs = list(wanted.outputs.values())
        stdin = wanted.input.path is None
        return cls(
            *(outputs, wanted.task, afresh, stdin, wanted.input), wanted=wanted, engine=engine
        )

    def run(self, stdout: IO[bytes]) -> int:
        """Write the outputs, or what is made to `stdout`, and say what was done."""
        if self.make(stdout):
            self._tell()
        return 0

    def results(self) -> Iterator[TranslatedBlock]:
        """Translate what is left of the input, block after block, and count."""
        work = self._work()
        tell = progress("back-translate", "sentences")
        begun = time.monotonic()
        written = 0
        for done, share in self.input.map_blocks(self.engine, work):
            self.totals.update(done.counts)
            written += done.counts["written"]
            self.seconds = time.monotonic() - begun
            tell(done.counts["lines"], share, f"{written / self.seconds:.0f} tokens/s")
            yield done
        if not self.totals["lines"] and self.input.shard == (1, 1):
            raise DataError(f"{self.input} is empty. Expected a line or more.")

    def signature(self) -> Signature:
        """Return the task and what was counted."""
        counts = {name: self.totals[name] for name in TRANSLATION_COUNTS}
        return Signature("back-translate", {**self.told, **counts})

    def _work(self) -> Translation:
        """Return what workers do; what the model can not be asked is refused here."""
        wanted = self.wanted
        outputs = wanted.outputs or {MADE: Path()}
        load, decoding = fairseq_decoder.load_fairseq_decoder, wanted.decoding
        if wanted.decoder == "ctranslate2":
            load, decoding = (
                ctranslate2_decoder.load_ctranslate2_decoder,
                ctranslate2_decoder.converted(decoding),
            )
        else:
            fairseq_decoder.configured(decoding)
        decoding = replace(decoding, models=tuple(path.resolve() for path in decoding.models))
        compressed = tuple(path.suffix == ".gz" for path in outputs.values())
        return Translation(load, decoding, wanted.seed, wanted.most, tuple(outputs), compressed)

    def _tell(self) -> None:
        totals = self.totals
        failed = [f"{totals[name]} {name.replace('_', ' ')}" for name in NOT_TRANSLATED]
        failed = [words for words in failed if not words.startswith("0 ")]
        beside = f", not translated and left empty: {', '.join(failed)}" if failed else ""
        seconds = max(self.seconds, 1e-9)
        print(
            f"{totals['lines']} lines, {totals['pairs']} pairs{beside}\n"
            f"{totals['lines'] / seconds:.1f} sentences/s, {totals['written'] / seconds:.0f} "
            f"tokens/s written, {seconds:.0f} s",
            file=sys.stderr,
        )
        chosen = ("engine", "beam", "length_penalty", "nbest", "sampling", "top_k", "seed")
        print(
            Signature("back-translate", {name: self.wanted.task[name] for name in chosen}),
            file=sys.stderr,
        )
